package subject

// Ops names the stream GENBUS_OPS, which records operator actions.
func (s Space) Ops() string { return s.stream + "_OPS" }

// OpsPattern matches everything in that stream: genbus.ops.>.
func (s Space) OpsPattern() string { return s.join("ops", ">") }

// AuditPattern matches all audit records: genbus.ops.audit.>.
func (s Space) AuditPattern() string { return s.join("ops", "audit", ">") }

// AuditRoute is the subject of a route's audit records: genbus.ops.audit.route.<kind>.<name>.
func (s Space) AuditRoute(k Kind, name string) string {
	return s.join("ops", "audit", "route", string(k), name)
}

// AuditJob is the subject of a job's audit records: genbus.ops.audit.job.<kind>.<tenant>.<id>.
func (s Space) AuditJob(k Kind, tenant, id string) string {
	return s.join("ops", "audit", "job", string(k), tenant, id)
}

// AuditDeadLetter is the subject of a dead letter's audit records:
// genbus.ops.audit.letter.<sequence>.
func (s Space) AuditDeadLetter(sequence string) string {
	return s.join("ops", "audit", "letter", sequence)
}

// AuditBulk is the subject of a bulk action's audit records: genbus.ops.audit.bulk.<action>.
func (s Space) AuditBulk(action string) string { return s.join("ops", "audit", "bulk", action) }
