package check

import (
	"slices"
	"time"
)

const codeUnknown = "submission_outcome_unknown"

// paidRecorded: an id that no genbus can have learned is nobody's loss: its
// answer was not delivered, its reader was killed with it in hand, or was stopped
// while it came and had no time left to read it.
func paidRecorded(f *facts, broken report) {
	recorded := map[string]bool{}
	for _, e := range f.Events {
		recorded[e.UpstreamID] = true
	}
	for _, l := range f.Letters {
		recorded[l.UpstreamID] = true
	}
	for _, paid := range f.Paid {
		if recorded[paid.ID] {
			continue
		}
		post := f.paid[paid.ID]
		if !post.Answered {
			end, _ := f.end(paid.Key)
			if end.Status == "completed" || end.Status == "" {
				broken(paid.Key, "the upstream has %s, whose answer was not delivered (%q), and the job is %q", paid.ID, post.Fault, end.Status)
			}
			continue
		}
		if !f.killedAfter(post) && !f.stoppedDuring(post) && !f.tooLate(post) {
			broken(paid.Key, "the upstream answered %s at %s, and neither the log nor an orphaned submission has it", paid.ID, clock(post.Ended))
		}
	}
}

// killedAfter reports whether a replica was killed while it may have had a
// POST's answer in hand. While the broker is away it keeps it there.
func (f *facts) killedAfter(p Post) bool {
	reach := p.Ended.Add(f.Config.Create + f.Config.TakeOver)
	for _, fault := range f.Faults {
		if fault.Broker && fault.during(p.Time, reach) {
			reach = later(reach, fault.To.Add(f.Config.Create))
		}
	}
	return slices.ContainsFunc(f.Faults, func(k Fault) bool { return k.sudden() && k.during(p.Time, reach) })
}

// tooLate reports whether a POST was answered when its time was about to be over,
// for a job whose outcome is unknown: the answer and the timeout met on the way.
func (f *facts) tooLate(p Post) bool {
	end, _ := f.end(p.Key)
	return end.Code == codeUnknown && p.Ended.Sub(p.Time) >= f.Config.Create-f.Config.Skew
}

// stoppedDuring reports whether a replica was stopped while a POST's answer came,
// for a job whose outcome is unknown.
func (f *facts) stoppedDuring(p Post) bool {
	end, _ := f.end(p.Key)
	return end.Code == codeUnknown && slices.ContainsFunc(f.Faults, func(s Fault) bool {
		return s.Kind == FaultStop && s.during(p.Time, p.Ended.Add(f.Config.Skew))
	})
}

func unknownExplained(f *facts, broken report) {
	for id := range f.queued {
		end, ended := f.end(id)
		if !ended || end.Code != codeUnknown {
			continue
		}
		if f.explain(end) == "" {
			broken(id, "its outcome is unknown, and nothing that was done explains it: %s", f.lastSubmission(id))
		}
		if !slices.ContainsFunc(f.letters[id], func(l Letter) bool { return l.Code == codeUnknown }) {
			broken(id, "its outcome is unknown, and no dead letter keeps its request")
		}
	}
}

func (f *facts) lastSubmission(id string) string {
	e, ok := f.submitting(id, f.Finished)
	if !ok {
		return "it has no submitting"
	}
	out := "submitting at " + clock(e.Time)
	for _, p := range f.posts[id] {
		out += ", POST at " + clock(p.Time) + " fault " + p.Fault
	}
	return out
}

// explain names what made an outcome unknown; empty when nothing did.
func (f *facts) explain(end Event) string {
	for _, e := range f.logs[end.Job] {
		if e.Phase != "submitting" {
			continue
		}
		until := e.SubmitUntil.Add(f.Config.Skew)
		for _, p := range f.posts[end.Job] {
			inTime := !p.Time.Before(e.Time.Add(-f.Config.Skew)) && !p.Time.After(until)
			if inTime && p.misleads(e.SubmitUntil.Add(-f.Config.Skew)) {
				return "upstream: " + p.Fault
			}
		}
	}
	for _, e := range f.logs[end.Job] {
		if e.Phase != "submitting" {
			continue
		}
		if why := f.cutOff(e.Time.Add(-f.Config.Skew), e.SubmitUntil.Add(f.Config.TakeOver)); why != "" {
			return why
		}
	}
	return ""
}

// misleads reports whether a POST's own fault leaves its sender in doubt. A slow
// answer does only where it was waited for until the end of the lease.
func (p Post) misleads(lease time.Time) bool {
	slow := p.Fault == "latency" || p.Fault == "drip"
	return p.Fault != "" && !p.refused() && !p.Answered && (!slow || !p.Ended.Before(lease))
}

// cutOff names the fault that harmed a replica or the broker in that time; a
// kill before all others.
func (f *facts) cutOff(from, to time.Time) string {
	why := ""
	for _, fault := range f.Faults {
		if !fault.harms() || !fault.during(from, to) {
			continue
		}
		if fault.Kind == FaultKill {
			return string(fault.Kind)
		}
		if why == "" {
			why = string(fault.Kind)
		}
	}
	return why
}
