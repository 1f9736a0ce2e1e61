package subject

// Ops is the stream GENBUS_OPS: what operators did.
func (s Space) Ops() string { return s.stream + "_OPS" }

// OpsPattern is everything in that stream: genbus.ops.>.
func (s Space) OpsPattern() string { return s.join("ops", ">") }

// AuditPattern is the records of what operators did: genbus.ops.audit.>.
func (s Space) AuditPattern() string { return s.join("ops", "audit", ">") }

// AuditRoute is the records of what was done to a route: genbus.ops.audit.route.<kind>.<name>.
func (s Space) AuditRoute(k Kind, name string) string {
	return s.join("ops", "audit", "route", string(k), name)
}

// AuditJob is the same of a job: genbus.ops.audit.job.<kind>.<tenant>.<id>.
func (s Space) AuditJob(k Kind, tenant, id string) string {
	return s.join("ops", "audit", "job", string(k), tenant, id)
}

// AuditLetter is the same of a dead letter: genbus.ops.audit.letter.<sequence>.
func (s Space) AuditLetter(sequence string) string { return s.join("ops", "audit", "letter", sequence) }

// AuditBulk is the records of an action on many jobs or letters: genbus.ops.audit.bulk.<action>.
func (s Space) AuditBulk(action string) string { return s.join("ops", "audit", "bulk", action) }
