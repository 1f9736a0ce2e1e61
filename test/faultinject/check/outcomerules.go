package check

import (
	"slices"
	"time"
)

const codeUnknown = "submission_outcome_unknown"

// noting is how long a writer may take to commit an upstream's answer if nothing prevents it.
const noting = time.Second

// paidRecorded checks that every paid ID is recorded. It excuses an ID that no replica can have
// learned, because the answer was not delivered, came too late, or its reader was killed before
// recording it. The job must then end as unknown, or as cancelled with a dead letter.
func paidRecorded(f *facts, broken report) (looked int) {
	recorded := map[string]bool{}
	for _, e := range f.Events {
		recorded[e.UpstreamID] = true
	}
	for _, l := range f.DeadLetters {
		recorded[l.UpstreamID] = true
	}
	for _, paid := range f.Paid {
		looked++
		if recorded[paid.ID] {
			continue
		}
		post := f.paid[paid.ID]
		if end, _ := f.end(paid.Key); end.Code != codeUnknown && !f.keptDeadLetter(end) {
			broken(paid.Key, "the upstream has %s (%q), which is recorded nowhere, and the job ended %q", paid.ID, post.Fault, endOf(end))
		}
		if post.Answered && !f.answerUnrecorded(post) {
			broken(paid.Key, "the upstream answered %s at %s, and neither the log nor an orphaned submission has it", paid.ID, clock(post.Ended))
		}
	}
	return looked
}

// keptDeadLetter reports whether a cancelled job has the dead letter which reports that the
// upstream may have its task. After a deletion of work items, there may have been no replica to
// store it.
func (f *facts) keptDeadLetter(end Event) bool {
	lost := slices.ContainsFunc(f.Faults, func(k Fault) bool { return k.Loses == LosesItems })
	return end.Status == "cancelled" && (lost || slices.ContainsFunc(f.deadLetters[end.Job], func(l DeadLetter) bool { return l.Code == codeUnknown }))
}

// answerUnrecorded reports whether the answer to a POST came too late for its sender, or whether
// the sender was killed before recording the answer. While the broker is unavailable, the sender
// cannot record an answer.
func (f *facts) answerUnrecorded(p Post) bool {
	e, ok := f.submission(p)
	if !ok {
		return false
	}
	reach := p.Ended.Add(noting)
	for _, fault := range f.Faults {
		if fault.Broker && fault.during(p.Time, reach) && f.strikes(fault, e.Writer) {
			reach = later(reach, fault.To.Add(f.Config.Create))
		}
	}
	return f.late(p, e) || slices.ContainsFunc(f.Faults, func(k Fault) bool {
		return k.Kind == FaultKill && k.during(p.Time, reach) && f.strikes(k, e.Writer)
	})
}

// late reports whether a POST was still unanswered when its caller stopped waiting, or shortly
// before.
func (f *facts) late(p Post, e Event) bool {
	waited := e.SubmitUntil.Add(f.Config.Answer - f.Config.Skew)
	return p.Ended.IsZero() || !p.Ended.Before(waited)
}

func unknownExplained(f *facts, broken report) (looked int) {
	for id := range f.queued {
		end, ended := f.end(id)
		if !ended || end.Code != codeUnknown {
			continue
		}
		looked++
		if f.explain(end) == "" {
			broken(id, "its outcome is unknown, and nothing that was done explains it: %s", f.lastSubmission(id))
		}
		if !slices.ContainsFunc(f.deadLetters[id], func(l DeadLetter) bool { return l.Code == codeUnknown }) {
			broken(id, "its outcome is unknown, and no dead letter keeps its request")
		}
	}
	return looked
}

func (f *facts) lastSubmission(id string) string {
	e, ok := f.submitting(id, f.Finished)
	if !ok {
		return "it has no submitting"
	}
	out := "submitting at " + clock(e.Time) + " by " + e.Writer
	if home, known := f.writers.home[e.Writer]; known {
		out += " on " + home
	}
	for _, p := range f.posts[id] {
		out += ", POST at " + clock(p.Time) + " fault " + p.Fault + " ended at " + clock(p.Ended)
	}
	return out
}

// explain returns the cause of an unknown outcome, or "".
func (f *facts) explain(end Event) string {
	for _, e := range f.logs[end.Job] {
		if e.Phase != "submitting" {
			continue
		}
		if why := f.doubt(e); why != "" {
			return why
		}
	}
	return ""
}

// doubt returns what kept the outcome of one submission from its writer. That is the fault of its
// POST, or the fault that struck the writer before it recorded the answer. doubt returns "" if
// there was no such fault.
func (f *facts) doubt(e Event) string {
	until := e.SubmitUntil
	for _, p := range f.posts[e.Job] {
		if of, ok := f.submission(p); !ok || of.Version != e.Version {
			continue
		}
		until = p.Ended
		switch {
		case p.Spoiled && !p.refused():
			return "upstream: " + p.Fault
		case f.late(p, e):
			return "upstream: answered too late"
		}
	}
	return f.struck(e.Writer, e.Time.Add(-f.Config.Skew), until.Add(noting))
}
