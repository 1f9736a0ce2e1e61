package check

import (
	"slices"
	"time"
)

// bound returns the time by which a job must end according to the event, or the zero time if the
// event has no such limit.
func (e Event) bound() time.Time {
	if !e.FirstSubmit.IsZero() {
		return e.Deadline
	}
	if !e.ExpiresAt.IsZero() && e.ExpiresAt.Before(e.QueueDeadline) {
		return e.ExpiresAt
	}
	return e.QueueDeadline
}

// foundStuck is the extra time for a job whose work item was deleted and whose holder is gone. A
// sweep finds such a job a minute after its deadline.
const foundStuck = time.Minute + 10*time.Second

// mayStay reports whether a job may remain without an end. If its work item was deleted before it
// began, no replica can start it. A job that has begun must end, through its holder or through a
// sweep.
func (f *facts) mayStay(log []Event) bool {
	return log[len(log)-1].FirstSubmit.IsZero() && f.lost(LosesItems, log[0].Stored)
}

// deadlines checks that jobs end in time. The time for which faults delayed a job does not count.
func deadlines(f *facts, broken report) (looked int) {
	for id, log := range f.queued {
		last := log[len(log)-1]
		end, ended := f.end(id)
		if !ended {
			end = Event{Time: f.Finished}
		} else {
			last = end
		}
		bound := last.bound()
		if bound.IsZero() || !ended && f.mayStay(log) {
			continue
		}
		looked++
		late := end.Time.Sub(bound) - f.held(bound, end.Time)
		if f.lost(LosesItems, log[0].Stored) {
			late -= foundStuck
		}
		switch {
		case late <= f.Config.Grace:
		case ended:
			broken(id, "ended %s at %s, %s after %s; faults held it up for %s of that", end.Status, clock(end.Time),
				end.Time.Sub(bound).Round(time.Millisecond), clock(bound), f.held(bound, end.Time).Round(time.Millisecond))
		default:
			broken(id, "is still %s (%s, version %d), %s after its bound %s", last.Status, last.Phase, last.Version,
				f.Finished.Sub(bound).Round(time.Millisecond), clock(bound))
		}
	}
	return looked
}

func expires(f *facts, broken report) (looked int) {
	for id, log := range f.queued {
		if !log[0].ExpiresAt.IsZero() {
			looked++
		}
		for i, e := range log {
			if i > 0 && e.begins(log[i-1]) && e.Attempt == 1 && !e.ExpiresAt.IsZero() && e.Time.After(e.ExpiresAt.Add(f.Config.Skew)) {
				broken(id, "submitted at %s, and it expired at %s", clock(e.Time), clock(e.ExpiresAt))
			}
			if e.Code == "expired" && (e.ExpiresAt.IsZero() || e.Time.Before(e.ExpiresAt)) {
				broken(id, "ended as expired at %s with expires_at %s", clock(e.Time), clock(e.ExpiresAt))
			}
		}
	}
	return looked
}

// strange lists codes of ends that no injected fault can cause.
var strange = []string{"", "internal", "log_lost", "input_lost", "upstream_removed", "orphaned_submission"}

// maxDeliveries is how often a job may be delivered without progress before it is poisoned.
const maxDeliveries = 10

func strangeEnds(f *facts, broken report) (looked int) {
	for id := range f.queued {
		end, ended := f.end(id)
		if !ended || end.Status == "completed" {
			continue
		}
		looked++
		switch {
		case slices.Contains(strange, end.Code):
			broken(id, "ended %s with the code %q after version %d", end.Status, end.Code, end.Version-1)
		case end.Code == "poisoned" && f.faultsSince(end) <= maxDeliveries:
			broken(id, "called poisoned after version %d, and since then there were only %d faults", end.Version-1, f.faultsSince(end))
		case end.Code == "not_enqueued" && !f.lost(LosesItems, f.logs[id][0].Stored): // soak clients do not erase jobs
			broken(id, "ended as not_enqueued, and no work item was deleted")
		case end.Status == "cancelled" && !slices.ContainsFunc(f.calls[id], func(t Call) bool { return t.Op == OpCancel }):
			broken(id, "cancelled, and nobody asked for it")
		}
	}
	return looked
}

// faultsSince counts the faults between an end and the previous event. Each of them may have caused
// a redelivery.
func (f *facts) faultsSince(end Event) int {
	n := 0
	before, _ := f.event(end.Job, end.Version-1)
	for _, fault := range f.Faults {
		if !fault.background() && fault.during(before.Time, end.Time) {
			n++
		}
	}
	return n
}
