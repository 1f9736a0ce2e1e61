package check

import "time"

// writers holds what is known about the processes that write events. Each start of a process has a
// new writer ID.
type writers struct {
	home map[string]string    // replica of a writer
	last map[string]time.Time // time of its last event
}

// writersOf derives the replica of each writer from the POSTs. A POST names its replica and follows
// a submission of the writer. If POSTs contradict each other, the majority decides.
func (f *facts) writersOf() writers {
	out := writers{home: map[string]string{}, last: map[string]time.Time{}}
	for _, log := range f.logs {
		for _, e := range log {
			out.last[e.Writer] = later(out.last[e.Writer], e.Time)
		}
	}
	votes := map[[2]string]int{}
	for _, p := range f.Posts {
		e, ok := f.submission(p)
		if !ok || p.Replica == "" {
			continue
		}
		votes[[2]string{e.Writer, p.Replica}]++
		if votes[[2]string{e.Writer, p.Replica}] > votes[[2]string{e.Writer, out.home[e.Writer]}] {
			out.home[e.Writer] = p.Replica
		}
	}
	return out
}

// submission returns the submitting event that a POST of a video follows.
func (f *facts) submission(p Post) (Event, bool) {
	log := f.logs[p.Key]
	for i := len(log) - 1; i >= 0 && p.Video; i-- {
		if log[i].Phase == "submitting" && !log[i].Time.After(p.Time) {
			return log[i], true
		}
	}
	return Event{}, false
}

// ofReplica reports whether a fault affects a single replica.
func (f Fault) ofReplica() bool {
	switch f.Kind {
	case FaultKill, FaultTerminate, FaultStop, FaultCutReplica, FaultHold:
		return true
	default:
		return false
	}
}

// strikes reports whether a fault can keep a writer from finishing its work. The fault must affect
// the writer's replica, or the broker that all replicas need. A kill cannot have struck a process
// that wrote anything later. A writer that never sent a POST may be on any replica.
func (f *facts) strikes(fault Fault, writer string) bool {
	home, known := f.writers.home[writer]
	switch {
	case !fault.harms():
		return false
	case fault.Kind == FaultTerminate || fault.Kind == FaultRoute || fault.Kind == FaultDelete || fault.Kind == FaultClock:
		return false // the process still finishes its work in progress
	case fault.ofReplica() && known && fault.Target != home:
		return false
	case fault.Kind == FaultKill:
		return !f.writers.last[writer].After(fault.From.Add(f.Config.Skew))
	default:
		return true
	}
}

// struck returns the kind of the fault that struck a writer during a period, or "". A kill takes
// precedence.
func (f *facts) struck(writer string, from, to time.Time) string {
	why := ""
	for _, fault := range f.Faults {
		switch {
		case !fault.during(from, to) || !f.strikes(fault, writer):
		case fault.Kind == FaultKill:
			return string(fault.Kind)
		case why == "":
			why = string(fault.Kind)
		}
	}
	return why
}
