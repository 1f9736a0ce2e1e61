package subject

// UsageStream names the stream GENBUS_USAGE, which holds the consumption of ended jobs.
func (s Space) UsageStream() string { return s.stream + "_USAGE" }

// UsagePattern matches everything in that stream: genbus.usage.>.
func (s Space) UsagePattern() string { return s.join("usage", ">") }

// Usage is the subject of one job's usage: genbus.usage.<kind>.<tenant>.<id>.
func (s Space) Usage(k Kind, tenant, id string) string {
	return s.join("usage", string(k), tenant, id)
}

// ParseUsage is the inverse of Usage.
func (s Space) ParseUsage(subject string) (JobName, error) { return s.parseTask(subject, "usage") }
