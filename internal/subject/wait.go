package subject

// Wait names the stream GENBUS_WAIT, the backlog of accepted jobs that are not in GENBUS_WORK yet.
// The two streams fill up independently, because a full backlog must not keep its own jobs out of
// GENBUS_WORK.
func (s Space) Wait() string { return s.stream + "_WAIT" }

// WaitPattern matches the whole backlog: genbus.wait.>.
func (s Space) WaitPattern() string { return s.join("wait", ">") }

// WaitRoutePattern matches one route's backlog: genbus.wait.<kind>.<route>.>.
func (s Space) WaitRoutePattern(k Kind, route string) string {
	return s.join("wait", string(k), route, ">")
}

// WaitTenantPattern matches one tenant's jobs in a route's backlog:
// genbus.wait.<kind>.<route>.<tenant>.*.
func (s Space) WaitTenantPattern(k Kind, route, tenant string) string {
	return s.join("wait", string(k), route, tenant, "*")
}

// WaitItem is the subject of one job's work item in the backlog:
// genbus.wait.<kind>.<route>.<tenant>.<id>.
func (s Space) WaitItem(k Kind, route, tenant, id string) string {
	return s.join("wait", string(k), route, tenant, id)
}

// WaitAnyRoute matches the work item of one job in the backlog of any route:
// genbus.wait.<kind>.*.<tenant>.<id>.
func (s Space) WaitAnyRoute(k Kind, tenant, id string) string {
	return s.join("wait", string(k), "*", tenant, id)
}

// ParseWaitItem is the inverse of WaitItem.
func (s Space) ParseWaitItem(subject string) (WorkName, error) {
	t, err := s.split(subject, "wait", 4)
	if err != nil {
		return WorkName{}, err
	}
	k, err := parseKind(t[0])
	return WorkName{Kind: k, Route: t[1], Tenant: t[2], ID: t[3]}, err
}

// HeaderRecorded marks a work item that was dispatched from GENBUS_WAIT after its job had been
// logged. Its value is the sequence in GENBUS_TASKS of an event of the job, in decimal. Internal to
// genbus.
const HeaderRecorded = "genbus-recorded"
