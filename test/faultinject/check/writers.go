package check

import "time"

// writers are what is known of the processes that write events. A process has an
// id of its own, new at each start.
type writers struct {
	home map[string]string    // the replica that one is
	last map[string]time.Time // when it wrote its last event
}

// writersOf learns from the POSTs, which name their replica, which replica the
// writer is of whose submission each follows. Where they differ, most of them
// count.
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

// submission is the submitting that a POST of a video follows.
func (f *facts) submission(p Post) (Event, bool) {
	log := f.logs[p.Key]
	for i := len(log) - 1; i >= 0 && p.Video; i-- {
		if log[i].Phase == "submitting" && !log[i].Time.After(p.Time) {
			return log[i], true
		}
	}
	return Event{}, false
}

// ofReplica reports whether a fault is one of a replica.
func (f Fault) ofReplica() bool {
	switch f.Kind {
	case FaultKill, FaultTerminate, FaultStop, FaultCutReplica, FaultHold:
		return true
	default:
		return false
	}
}

// strikes reports whether a fault can keep a writer from finishing what it has in
// hand: one of its replica, or of the broker that all need. A kill has struck
// no process that wrote anything later. A writer that never POSTed may be any replica.
func (f *facts) strikes(fault Fault, writer string) bool {
	home, known := f.writers.home[writer]
	switch {
	case !fault.harms():
		return false
	case fault.Kind == FaultTerminate || fault.Kind == FaultRoute || fault.Kind == FaultDelete || fault.Kind == FaultClock:
		return false // what is in hand is finished
	case fault.ofReplica() && known && fault.Target != home:
		return false
	case fault.Kind == FaultKill:
		return !f.writers.last[writer].After(fault.From.Add(f.Config.Skew))
	default:
		return true
	}
}

// struck names the fault that struck a writer in that time, a kill before all
// others; empty for none.
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
