package subject

// Wait is the stream GENBUS_WAIT: accepted jobs that wait for their turn to come
// into GENBUS_WORK. It is a stream of its own so that the two can be full
// independently: what waits here must never keep itself out of there.
func (s Space) Wait() string { return s.stream + "_WAIT" }

// WaitPattern is everything that waits: genbus.wait.>.
func (s Space) WaitPattern() string { return s.join("wait", ">") }

// WaitRoutePattern is what waits for one route: genbus.wait.<kind>.<route>.>.
func (s Space) WaitRoutePattern(k Kind, route string) string {
	return s.join("wait", string(k), route, ">")
}

// WaitTenantPattern is what waits for one route of one tenant:
// genbus.wait.<kind>.<route>.<tenant>.*.
func (s Space) WaitTenantPattern(k Kind, route, tenant string) string {
	return s.join("wait", string(k), route, tenant, "*")
}

// WaitItem is the subject of one waiting job's work item:
// genbus.wait.<kind>.<route>.<tenant>.<id>.
func (s Space) WaitItem(k Kind, route, tenant, id string) string {
	return s.join("wait", string(k), route, tenant, id)
}

// WaitAnyRoute is the waiting work item of one job, whichever route it is for:
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

// HeaderRecorded marks a work item that came from GENBUS_WAIT after its job was in
// the log: a sequence in GENBUS_TASKS, in decimal, that an event of the job had.
// Only genbus writes and reads it.
const HeaderRecorded = "genbus-recorded"
