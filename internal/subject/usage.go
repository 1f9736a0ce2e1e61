package subject

// UsageStream is the stream GENBUS_USAGE: what ended jobs consumed.
func (s Space) UsageStream() string { return s.stream + "_USAGE" }

// UsagePattern is everything in the stream of usage: genbus.usage.>.
func (s Space) UsagePattern() string { return s.join("usage", ">") }

// Usage is the subject of one job's usage: genbus.usage.<kind>.<tenant>.<id>.
func (s Space) Usage(k Kind, tenant, id string) string {
	return s.join("usage", string(k), tenant, id)
}

// ParseUsage is the inverse of Usage.
func (s Space) ParseUsage(subject string) (JobName, error) { return s.parseTask(subject, "usage") }
