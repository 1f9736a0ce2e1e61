package check

import "time"

// afterClock is how long after a wrong clock was set right an event that has its time may
// still be stored.
const afterClock = 10 * time.Second

// skewed is by how much the clock was ahead that an event has its time from. The broker's
// clocks are right.
func (h *History) skewed(e Event) time.Duration {
	ahead := e.Time.Sub(e.Stored)
	for _, fault := range h.Faults {
		if fault.Kind != FaultClock || e.Stored.Before(fault.From.Add(-h.Config.Skew)) || e.Stored.After(fault.To.Add(afterClock)) {
			continue
		}
		if (ahead - fault.By).Abs() < fault.By.Abs()/2 {
			return fault.By
		}
	}
	return 0
}

// righted gives logs the times that right clocks would have written. A limit of a job is
// by the clock of who wrote it first.
func (h *History) righted(logs map[string][]Event) map[string][]Event {
	for _, log := range logs {
		var before, was Event // the event before as it is now, and as it was
		for i := range log {
			e := log[i]
			by := h.skewed(e)
			right := func(now, was, before time.Time) time.Time {
				switch {
				case now.IsZero():
					return now
				case now.Equal(was):
					return before
				default:
					return now.Add(-by)
				}
			}
			log[i].Time = e.Time.Add(-by)
			log[i].SubmitUntil = right(e.SubmitUntil, was.SubmitUntil, before.SubmitUntil)
			log[i].FirstSubmit = right(e.FirstSubmit, was.FirstSubmit, before.FirstSubmit)
			log[i].QueueDeadline = right(e.QueueDeadline, was.QueueDeadline, before.QueueDeadline)
			log[i].Deadline = right(e.Deadline, was.Deadline, before.Deadline)
			before, was = log[i], e
		}
	}
	return logs
}

// earlyEnds: whichever clock a replica has, a job has its time.
func earlyEnds(f *facts, broken report) (looked int) {
	for id := range f.queued {
		end, ended := f.end(id)
		if !ended {
			continue
		}
		looked++
		bound := time.Time{}
		switch end.Code {
		case "queue_timeout":
			bound = end.QueueDeadline
		case "deadline_exceeded":
			bound = end.Deadline
		}
		if end.Time.Before(bound.Add(-f.Config.Skew)) {
			broken(id, "ended %s at %s, and had time until %s", endOf(end), clock(end.Time), clock(bound))
		}
	}
	return looked
}
