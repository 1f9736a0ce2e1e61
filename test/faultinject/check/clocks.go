package check

import "time"

// afterClock is how long after the correction of a clock an event with a wrong time may still be
// stored.
const afterClock = 10 * time.Second

// skewed returns how far ahead the clock was that set the event's time. The broker's clocks are
// correct.
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

// righted corrects the times in logs that were written with a wrong clock. A limit of a job depends
// on the clock that first set it.
func (h *History) righted(logs map[string][]Event) map[string][]Event {
	for _, log := range logs {
		var before, was Event // the previous event, corrected and original
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

// earlyEnds checks that no job ends because of a limit before that limit, whatever clock its
// replica has.
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
