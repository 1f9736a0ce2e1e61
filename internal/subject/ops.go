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

// AuditOperation is the same of an operation: genbus.ops.audit.operation.<id>.
func (s Space) AuditOperation(id string) string { return s.join("ops", "audit", "operation", id) }

// OperationBegun is what an operation is to do, one message: genbus.ops.operation.begun.<id>.
func (s Space) OperationBegun(id string) string { return s.join("ops", "operation", "begun", id) }

// OperationsBegun is the same of all operations: genbus.ops.operation.begun.*.
func (s Space) OperationsBegun() string { return s.OperationBegun("*") }

// Operations is where a replica says which operation it does, and is asked to stop one:
// genbus.internal.operations.
func (s Space) Operations() string { return s.join("internal", "operations") }

// OperationProgress is how far an operation is, the last message counts:
// genbus.ops.operation.progress.<id>.
func (s Space) OperationProgress(id string) string {
	return s.join("ops", "operation", "progress", id)
}
