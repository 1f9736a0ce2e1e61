package check

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// facts is a history, indexed by job.
type facts struct {
	*History
	ids         []string // jobs known from the log or from a client, sorted
	logs        map[string][]Event
	feedCopies  map[string][]Event
	posts       map[string][]Post
	deadLetters map[string][]DeadLetter
	chunks      map[string][]Chunk
	accepted    map[string]Call // first acceptance received by a client
	calls       map[string][]Call
	paid        map[string]Post // by upstream ID
	writers     writers
}

func index(h *History) *facts {
	f := &facts{
		History: h,
		logs:    h.righted(group(h.Events, func(e Event) string { return e.Job })), feedCopies: group(h.FeedCopies, func(e Event) string { return e.Job }),
		posts: group(h.Posts, func(p Post) string { return p.Key }), deadLetters: group(h.DeadLetters, func(l DeadLetter) string { return l.Job }),
		chunks: group(h.Chunks, func(c Chunk) string { return c.Job }), calls: group(h.Calls, func(t Call) string { return t.Job }),
		accepted: map[string]Call{}, paid: map[string]Post{},
	}
	for _, t := range h.Calls {
		if t.accepts() && (f.accepted[t.Job].Job == "" || t.Time.Before(f.accepted[t.Job].Time)) {
			f.accepted[t.Job] = t
		}
	}
	for _, p := range h.Posts {
		if p.TaskID != "" {
			f.paid[p.TaskID] = p
		}
	}
	f.writers = f.writersOf()
	ids := maps.Clone(f.accepted)
	for id := range f.logs {
		ids[id] = Call{}
	}
	f.ids = slices.Sorted(maps.Keys(ids))
	return f
}

func group[T any](all []T, by func(T) string) map[string][]T {
	out := map[string][]T{}
	for _, v := range all {
		out[by(v)] = append(out[by(v)], v)
	}
	return out
}

// accepts reports whether the answer reports an accepted queued job. The answer for a failed chat
// also names a job.
func (t Call) accepts() bool {
	return t.Job != "" && t.Lost == "" && (t.Op == OpCreate && t.Code == "" || t.Op == OpChat && t.Code == "")
}

// inline reports whether a job ran on its caller's connection.
func (f *facts) inline(job string) bool {
	log := f.logs[job]
	return len(log) > 0 && log[0].Inline
}

// queued yields the queued jobs that have a log.
func (f *facts) queued(yield func(string, []Event) bool) {
	for _, id := range f.ids {
		if log := f.logs[id]; len(log) > 0 && !log[0].Inline && !yield(id, log) {
			return
		}
	}
}

// end returns the first terminal event of a job, or false if it has none.
func (f *facts) end(job string) (Event, bool) {
	for _, e := range f.logs[job] {
		if e.terminal() {
			return e, true
		}
	}
	return Event{}, false
}

func (f *facts) event(job string, version uint64) (Event, bool) {
	for _, e := range f.logs[job] {
		if e.Version == version {
			return e, true
		}
	}
	return Event{}, false
}

func (e Event) terminal() bool { return terminal(e.Status) }

func terminal(status string) bool { return rank(status) == 2 }

// rank orders the status words. An unknown word has rank -1.
func rank(status string) int {
	switch status {
	case "queued":
		return 0
	case "in_progress":
		return 1
	case "completed", "failed", "cancelled":
		return 2
	default:
		return -1
	}
}

func isVideo(job string) bool { return strings.HasPrefix(job, "video_") }

// harms reports whether a fault can interrupt work or make the log unavailable.
func (f Fault) harms() bool {
	switch f.Kind {
	case FaultTerminate, FaultMix, FaultForeignAck, FaultPause, FaultBurst, FaultGarbage, FaultFill:
		return f.Broker
	default:
		return true
	}
}

// sudden reports whether a fault gives a process no time to finish anything.
func (f Fault) sudden() bool { return f.Kind == FaultKill }

// during reports whether a fault overlaps a period. A kill that leaves the broker running takes no
// time.
func (f Fault) during(from, to time.Time) bool {
	end := f.To
	if f.sudden() && !f.Broker || end.IsZero() {
		end = f.From
	}
	return !f.From.After(to) && !end.Before(from)
}

// background reports whether a fault affected no process, node or link.
func (f Fault) background() bool {
	return f.Kind == FaultMix || f.Kind == FaultStall || f.Kind == FaultBurst || f.Kind == FaultGarbage || f.Kind == FaultFill
}

// lost reports whether something stored at a time may have been deleted since then.
func (f *facts) lost(what Loss, at time.Time) bool {
	return slices.ContainsFunc(f.Faults, func(fault Fault) bool { return fault.Loses == what && at.Before(fault.To) })
}

// held returns how much of a period was covered by harmful faults.
func (f *facts) held(from, to time.Time) time.Duration {
	var sum time.Duration
	for _, fault := range slices.SortedFunc(slices.Values(f.Faults), func(a, b Fault) int { return a.From.Compare(b.From) }) {
		begin, end := later(from, fault.From), earlier(to, fault.To)
		if fault.harms() && begin.Before(end) {
			sum += end.Sub(begin)
			from = end
		}
	}
	return sum
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// clock formats a time for a violation.
func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

func sortedBy[T any, K cmp.Ordered](m map[K]T) []K { return slices.Sorted(maps.Keys(m)) }
