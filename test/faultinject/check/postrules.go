package check

import (
	"slices"
	"strings"
	"time"
)

// refused reports whether the sender knows that nothing was accepted, so that it may send the same
// POST again. Either the outcome tables list the status, or none of the body was sent. A 503 is not
// a definite refusal.
func (p Post) refused() bool {
	switch {
	case p.Accepted:
		return false
	case p.Bodiless:
		return true
	case p.Status == 408 || p.Status == 425 || p.Status == 409:
		return false
	case p.Status == 301 || p.Status == 307 || p.Status == 308:
		return true
	default:
		return p.Status >= 400 && p.Status < 500
	}
}

// videoPostOnce checks the POSTs on the wire, by key. A route with resubmit relies on an upstream
// that honours the key, and may POST again after an unknown outcome.
func videoPostOnce(f *facts, broken report) (looked int) {
	for _, id := range sortedBy(f.posts) {
		var before []Post
		for _, p := range f.posts[id] {
			if !p.Video {
				continue
			}
			looked++
			if i := slices.IndexFunc(before, func(b Post) bool { return !f.repeatable(b) }); i >= 0 {
				broken(id, "POSTed at %s, after the POST at %s which was no definite refusal (fault %q, status %d)",
					clock(p.Time), clock(before[i].Time), before[i].Fault, before[i].Status)
			}
			before = append(before, p)
		}
	}
	return looked
}

func (f *facts) repeatable(p Post) bool {
	if p.refused() {
		return true
	}
	e, committed := f.submission(p)
	return committed && f.resubmits(p.Key) && f.doubt(e) != ""
}

// resubmits reports whether the job's route resubmits after an unknown outcome.
func (f *facts) resubmits(job string) bool {
	return slices.ContainsFunc(f.logs[job], func(e Event) bool { return f.Config.Resubmit[e.Route] })
}

func paidOnce(f *facts, broken report) (looked int) {
	byKey := group(f.Paid, func(p Paid) string { return p.Key })
	for _, key := range sortedBy(byKey) {
		if paid := byKey[key]; len(paid) > 1 {
			broken(key, "the upstream has %d tasks of it: %s and %s", len(paid), paid[0].ID, paid[1].ID)
		}
	}
	byMarker := group(f.Paid, func(p Paid) string { return p.Marker })
	for _, marker := range sortedBy(byMarker) {
		if paid := byMarker[marker]; marker != "" && len(paid) > 1 && paid[0].Key != paid[1].Key {
			broken(paid[1].Key, "the request %s has a second task at the upstream, %s beside %s of job %s", marker, paid[1].ID, paid[0].ID, paid[0].Key)
		}
	}
	return len(f.Paid)
}

// submitting returns the last submitting event committed before a moment.
func (f *facts) submitting(job string, at time.Time) (Event, bool) {
	log := f.logs[job]
	for i := len(log) - 1; i >= 0; i-- {
		if log[i].Phase == "submitting" && !log[i].Time.After(at.Add(f.Config.Skew)) {
			return log[i], true
		}
	}
	return Event{}, false
}

// postCommitted also finds a second POST for one submission that the HTTP client sent on its own. A
// refused job may be submitted to another upstream within a millisecond, so a POST belongs to the
// last submitting event before it. It belongs to an event that seems to follow it only if the
// earlier event already has a POST.
func postCommitted(f *facts, broken report) (looked int) {
	for _, id := range sortedBy(f.posts) {
		used := map[uint64]Post{}
		for _, p := range f.posts[id] {
			if !p.Video {
				continue
			}
			looked++
			e, committed := f.submission(p)
			if _, twice := used[e.Version]; twice || !committed {
				e, committed = f.submitting(id, p.Time)
			}
			if !committed {
				broken(id, "POSTed at %s to %s, and no submitting was committed before", clock(p.Time), p.Path)
				continue
			}
			if first, twice := used[e.Version]; twice {
				broken(id, "version %d was followed by two POSTs, at %s (fault %q, status %d) and %s", e.Version, clock(first.Time), first.Fault, first.Status, clock(p.Time))
			}
			used[e.Version] = p
		}
	}
	return looked
}

// transit is how long a request may be on its way to a busy upstream. No write of a create begins
// after submit_until (upstream/oncebody.go), and a replica that takes over a submission waits 10 s.
const transit = 2 * time.Second

func postLease(f *facts, broken report) (looked int) {
	for _, id := range sortedBy(f.posts) {
		for _, p := range f.posts[id] {
			e, committed := f.submitting(id, p.Time)
			if !p.Video || !committed {
				continue
			}
			looked++
			if f.earliest(p.Time).After(e.SubmitUntil.Add(f.Config.Skew + transit)) {
				broken(id, "POSTed at %s, %s after its submit_until %s (version %d)", clock(p.Time), p.Time.Sub(e.SubmitUntil).Round(time.Millisecond), clock(e.SubmitUntil), e.Version)
			}
		}
	}
	return looked
}

// earliest returns the earliest time at which something that the upstreams saw at seen may have
// arrived. While they had no processor time, they saw nothing. Afterwards they may need as long
// again for everything that had arrived.
func (f *facts) earliest(seen time.Time) time.Time {
	for _, fault := range slices.Backward(f.Faults) {
		backlog := f.Config.Skew + fault.To.Sub(fault.From)
		if fault.Kind == FaultStall && fault.during(seen.Add(-backlog), seen) {
			seen = earlier(seen, fault.From)
		}
	}
	return seen
}

// movedPath is the prefix of the upstream's redirect targets.
const movedPath = "/faultinject/moved"

func noRedirect(f *facts, broken report) (looked int) {
	for _, p := range f.Posts {
		if strings.HasPrefix(p.Path, movedPath) {
			broken(p.Key, "POSTed at %s to %s, where a redirect pointed to", clock(p.Time), p.Path)
		}
	}
	return len(f.Posts)
}

// chatAttempts checks the number of calls. A call that was refused before the upstream began work
// is not an attempt.
func chatAttempts(f *facts, broken report) (looked int) {
	for _, id := range sortedBy(f.posts) {
		begun := slices.DeleteFunc(slices.Clone(f.posts[id]), func(p Post) bool { return p.Video || p.refused() })
		most := f.Config.ChatAttempts
		if f.inlineAsked(id) {
			most = 1
		}
		looked += min(len(begun), 1)
		if len(begun) > most {
			broken(id, "called %d times, at %s first and at %s last; %d are allowed", len(begun), clock(begun[0].Time), clock(begun[len(begun)-1].Time), most)
		}
	}
	return looked
}

// inlineAsked reports whether a job is an inline chat, even if its events were dropped.
func (f *facts) inlineAsked(job string) bool {
	return f.inline(job) || slices.ContainsFunc(f.calls[job], func(t Call) bool { return t.Op == OpInline })
}
