package subject

import "strings"

// Work names the stream GENBUS_WORK, which holds one message per unfinished job that is ready or
// held.
func (s Space) Work() string { return s.stream + "_WORK" }

// WorkPattern matches everything in that stream: genbus.work.>.
func (s Space) WorkPattern() string { return s.join("work", ">") }

// WorkRoutePattern matches the work items of one route: genbus.work.<kind>.<route>.>.
func (s Space) WorkRoutePattern(k Kind, route string) string {
	return s.join("work", string(k), route, ">")
}

// WorkItem is the subject of one job's work item: genbus.work.<kind>.<route>.<tenant>.<id>.
func (s Space) WorkItem(k Kind, route, tenant, id string) string {
	return s.join("work", string(k), route, tenant, id)
}

// WorkAnyRoute matches the work item of one job on any route: genbus.work.<kind>.*.<tenant>.<id>.
func (s Space) WorkAnyRoute(k Kind, tenant, id string) string {
	return s.join("work", string(k), "*", tenant, id)
}

// WorkName is a parsed work or wait subject.
type WorkName struct {
	Kind   Kind
	Route  string
	Tenant string
	ID     string
}

// ParseWorkItem is the inverse of WorkItem.
func (s Space) ParseWorkItem(subject string) (WorkName, error) {
	t, err := s.split(subject, "work", 4)
	if err != nil {
		return WorkName{}, err
	}
	k, err := parseKind(t[0])
	return WorkName{Kind: k, Route: t[1], Tenant: t[2], ID: t[3]}, err
}

// WorkDurable names the durable consumer of one route: <kind>-<route>.
func WorkDurable(k Kind, route string) string { return string(k) + "-" + route }

// ParseWorkDurable is the inverse of WorkDurable. ok is false for other consumers.
func ParseWorkDurable(durable string) (k Kind, route string, ok bool) {
	kind, route, found := strings.Cut(durable, "-")
	k, err := parseKind(kind)
	return k, route, found && err == nil && CheckToken(route) == nil
}

// IntakeDurable names the durable consumer of one kind's inbox.
func IntakeDurable(k Kind) string { return "intake-" + string(k) }
