package subject

// Tasks names the stream GENBUS_TASKS, which holds the task log and the feed of finished jobs.
func (s Space) Tasks() string { return s.stream + "_TASKS" }

// TaskPattern matches every job's log: genbus.task.>.
func (s Space) TaskPattern() string { return s.join("task", ">") }

// Task is the subject of one job's log: genbus.task.<kind>.<tenant>.<id>.
func (s Space) Task(k Kind, tenant, id string) string { return s.join("task", string(k), tenant, id) }

// TaskAnyTenant matches the log of one job of any tenant: genbus.task.<kind>.*.<id>.
func (s Space) TaskAnyTenant(k Kind, id string) string { return s.join("task", string(k), "*", id) }

// JobName is a parsed task subject.
type JobName struct {
	Kind   Kind
	Tenant string
	ID     string
}

// ParseTask is the inverse of Task.
func (s Space) ParseTask(subject string) (JobName, error) { return s.parseTask(subject, "task") }

// DonePattern matches the feed of finished jobs: genbus.done.>.
func (s Space) DonePattern() string { return s.join("done", ">") }

// Done is the subject of one finished job: genbus.done.<kind>.<tenant>.<status>.<id>.
func (s Space) Done(k Kind, tenant, status, id string) string {
	return s.join("done", string(k), tenant, status, id)
}

// DoneName is a parsed done subject.
type DoneName struct {
	Kind   Kind
	Tenant string
	Status string
	ID     string
}

// ParseDone is the inverse of Done.
func (s Space) ParseDone(subject string) (DoneName, error) {
	t, err := s.split(subject, "done", 4)
	if err != nil {
		return DoneName{}, err
	}
	k, err := parseKind(t[0])
	return DoneName{Kind: k, Tenant: t[1], Status: t[2], ID: t[3]}, err
}

// LiveTaskPattern matches the republished events of all jobs: genbus.live.task.>.
func (s Space) LiveTaskPattern() string { return s.join("live", "task", ">") }

// LiveTask is the subject of one job's republished events: genbus.live.task.<kind>.<tenant>.<id>.
func (s Space) LiveTask(k Kind, tenant, id string) string {
	return s.join("live", "task", string(k), tenant, id)
}

// ParseLiveTask is the inverse of LiveTask.
func (s Space) ParseLiveTask(subject string) (JobName, error) {
	return s.parseTask(subject, "live.task")
}

// AnyWriter is the writer in PeerNotification that addresses all replicas.
const AnyWriter = "any"

// PeerNotification is the subject of peer notifications about events that other replicas wrote to a
// replica's jobs: genbus.internal.notice.<writer>. The writer is that of the replica's events.
func (s Space) PeerNotification(writer string) string { return s.join("internal", "notice", writer) }

// Dispatch is the subject on which replicas agree which of them dispatches each route's backlog:
// genbus.internal.dispatch.
func (s Space) Dispatch() string { return s.join("internal", "dispatch") }

// Replicas is the subject on which replicas announce themselves and query each other's state:
// genbus.internal.replicas.
func (s Space) Replicas() string { return s.join("internal", "replicas") }

// Upstreams is the subject on which replicas exchange breaker state: genbus.internal.upstreams.
func (s Space) Upstreams() string { return s.join("internal", "upstreams") }

// Index is the subject on which a replica that keeps the job index answers queries:
// genbus.internal.index.<writer>. The writer is that of the replica's events.
func (s Space) Index(writer string) string { return s.join("internal", "index", writer) }

// IndexKeepers is the subject on which replicas agree which of them keep the index:
// genbus.internal.index.keepers.
func (s Space) IndexKeepers() string { return s.join("internal", "index", "keepers") }

func (s Space) parseTask(subject, word string) (JobName, error) {
	t, err := s.split(subject, word, 3)
	if err != nil {
		return JobName{}, err
	}
	k, err := parseKind(t[0])
	return JobName{Kind: k, Tenant: t[1], ID: t[2]}, err
}
