package check

import "time"

// outcomeBreaks are histories with an unexplained unknown outcome or an unrecorded paid ID. In most
// of them the fault struck another process or came at another time.
var outcomeBreaks = []broke{
	{"POSTed again with the key, and the outcome was known", []string{"video-post-once"}, func(h *History) {
		h.resubmit(500)
		h.again()
		h.Posts[0].Spoiled, h.Posts[0].Accepted = false, true
	}},
	{"a paid id is lost", []string{"paid-recorded"}, func(h *History) {
		h.unpaid()
		h.fail(film, "upstream_failed")
	}},
	{"a paid id is lost, and its job ends without a word of it", []string{"paid-recorded"}, func(h *History) {
		h.unpaid()
		h.spoil("reset_accepted")
		h.fail(film, "upstream_failed")
	}},
	{"a paid id is lost, and its job is cancelled without a dead letter", []string{"paid-recorded"}, func(h *History) {
		h.unpaid()
		h.spoil("reset_accepted")
		h.cancel()
	}},
	{"a paid id is lost, and its upstream is said to have refused", []string{"paid-recorded"}, func(h *History) {
		h.unpaid()
		h.spoil("internal_after")
		h.fail(film, "upstream_refused")
	}},
	{"a paid id is lost while another replica is killed", []string{"paid-recorded", "unknown-explained"}, func(h *History) {
		h.forget()
		h.Faults = append(h.Faults, Fault{Kind: FaultKill, Target: "1", From: s(1.12), To: s(4)})
	}},
	{"a paid id is lost before the kill of a writer that went on writing", []string{"paid-recorded", "unknown-explained"}, func(h *History) {
		h.forget()
		h.Faults = append(h.Faults, Fault{Kind: FaultKill, Target: "0", From: s(1.12), To: s(4)})
	}},
	{"a paid id is lost long before the kill of its writer", []string{"paid-recorded", "unknown-explained"}, func(h *History) {
		h.forget()
		h.writes("one", s(2.5), "two")
		h.Faults = append(h.Faults, Fault{Kind: FaultKill, Target: "0", From: s(2.4), To: s(4)})
	}},
	{"a paid id is lost by a stop", []string{"paid-recorded"}, func(h *History) {
		h.forget()
		h.Faults = append(h.Faults, Fault{Kind: FaultStop, Target: "0", From: s(1.12), To: s(20)})
	}},
	{"a paid id is lost, and the broker was away before", []string{"paid-recorded", "unknown-explained"}, func(h *History) {
		h.forget()
		h.Faults = append(h.Faults, Fault{Kind: FaultIsolate, Target: "node 1", From: s(0), To: s(0.9), Broker: true})
	}},
	{"unknown without a fault", []string{"unknown-explained"}, func(h *History) { h.doubtful() }},
	{"unknown after a slow answer that nobody cut off", []string{"unknown-explained"}, func(h *History) {
		h.doubtful()
		h.Posts[0].Fault, h.Posts[0].Answered = "latency", false
	}},
	{"unknown while another replica was stopped", []string{"unknown-explained"}, func(h *History) {
		h.doubtful()
		h.Faults = append(h.Faults, Fault{Kind: FaultStop, Target: "1", From: s(1.05), To: s(20)})
	}},
	{"unknown while another replica was cut off", []string{"unknown-explained"}, func(h *History) {
		h.doubtful()
		h.Faults = append(h.Faults, Fault{Kind: FaultCutReplica, Target: "1", From: s(1.05), To: s(20), Broker: true})
	}},
	{"unknown while the broker's answers to another replica were held", []string{"unknown-explained"}, func(h *History) {
		h.doubtful()
		h.Faults = append(h.Faults, Fault{Kind: FaultHold, Target: "1", From: s(1.05), To: s(20), Broker: true})
	}},
	{"unknown, and the broker was away only later", []string{"unknown-explained"}, func(h *History) {
		h.doubtful()
		h.Faults = append(h.Faults, Fault{Kind: FaultNodeKill, Target: "node 1", From: s(2.5), To: s(20), Broker: true})
	}},
	{"unknown with a task that only fails later", []string{"unknown-explained"}, func(h *History) {
		h.doubtful()
		h.Posts[0].Fault = "task_fails"
	}},
	{"unknown without a dead letter", []string{"unknown-explained"}, func(h *History) {
		h.fail(film, codeUnknown)
		h.spoil("reset_accepted")
	}},
	{"unknown after a clean stop", []string{"unknown-explained"}, func(h *History) {
		h.doubtful()
		h.Faults = append(h.Faults, Fault{Kind: FaultTerminate, Target: "0", From: s(1), To: s(3), Broker: true})
	}},
}

// excuse is a change that looks like a violation but breaks no promise.
type excuse struct {
	name   string
	change func(*History)
}

// outcomeExcuses are changes of a submission that break no promise.
var outcomeExcuses = []excuse{
	{"POSTed again where the route says so", func(h *History) {
		h.resubmit(500)
		h.again()
	}},
	{"unknown after a reset", func(h *History) {
		h.doubtful()
		h.spoil("reset_accepted")
	}},
	{"unknown after a kill", func(h *History) {
		h.doubtful()
		h.killed()
	}},
	{"unknown after a kill during a slow answer", func(h *History) {
		h.doubtful()
		h.Posts[0].Fault, h.Posts[0].Answered = "latency", false
		h.killed()
	}},
	{"unknown after an answer that nobody waited for any more", func(h *History) {
		h.forget()
		h.Posts[0].Fault, h.Posts[0].Ended = "latency", s(3.5)
	}},
	{"unknown while the writer was cut off", func(h *History) {
		h.doubtful()
		h.Faults = append(h.Faults, Fault{Kind: FaultCutReplica, Target: "0", From: s(1.05), To: s(20), Broker: true})
	}},
	{"unknown while the broker's answers to the writer were held", func(h *History) {
		h.doubtful()
		h.Faults = append(h.Faults, Fault{Kind: FaultHold, Target: "0", From: s(1.05), To: s(20), Broker: true})
	}},
	{"unknown while its writer was stopped, whose id an orphan keeps", func(h *History) {
		h.forget()
		h.Faults = append(h.Faults, Fault{Kind: FaultStop, Target: "0", From: s(1.12), To: s(20)})
		h.DeadLetters = append(h.DeadLetters, DeadLetter{Job: film, Code: "orphaned_submission", UpstreamID: "task_1"})
	}},
	{"unknown by a kill before its POST, of a writer of whom no POST is known", func(h *History) {
		h.forget()
		h.Posts, h.Paid = h.Posts[1:], nil
		h.killed()
	}},
	{"an id that an orphan keeps", func(h *History) {
		h.unpaid()
		h.spoil("reset_accepted")
		h.fail(film, "upstream_failed")
		h.DeadLetters = append(h.DeadLetters, DeadLetter{Job: film, Code: "orphaned_submission", UpstreamID: "task_1"})
	}},
	{"an id that was killed with its reader", func(h *History) {
		h.forget()
		h.killed()
	}},
	{"an id that was killed with its reader, which the broker had kept waiting", func(h *History) {
		h.forget()
		h.writes("one", s(1.01), "two")
		h.Faults = append(h.Faults, Fault{Kind: FaultNodeKill, Target: "node 1", From: s(1.5), To: s(2), Broker: true},
			Fault{Kind: FaultKill, Target: "0", From: s(3), To: s(4)})
	}},
	{"an id that nobody was told of, and cancelled", func(h *History) {
		h.unpaid()
		h.spoil("reset_accepted")
		h.cancel()
		h.DeadLetters = append(h.DeadLetters, DeadLetter{Job: film, Code: codeUnknown})
	}},
	{"an id that nobody was told of, cancelled after the work items were deleted", func(h *History) {
		h.unpaid()
		h.spoil("reset_accepted")
		h.cancel()
		h.Faults = append(h.Faults, Fault{Kind: FaultDelete, From: s(1.2), To: s(1.3), Loses: LosesItems})
	}},
}

// again puts the video on a route that resubmits.
func (h *History) again() {
	for i := range h.Events {
		h.Events[i].Route = "again"
	}
}

// spoil gives the video's POST a fault that keeps the answer from its sender.
func (h *History) spoil(fault string) {
	h.Posts[0].Fault, h.Posts[0].Answered, h.Posts[0].Spoiled = fault, false, true
}

func (h *History) unpaid() {
	for i := range h.Events {
		h.Events[i].UpstreamID = ""
	}
}

// doubtful ends the video with an unknown outcome and a dead letter.
func (h *History) doubtful() {
	h.fail(film, codeUnknown)
	h.DeadLetters = append(h.DeadLetters, DeadLetter{Job: film, Code: codeUnknown})
}

// forget ends the video with an unknown outcome and without an upstream ID.
func (h *History) forget() {
	h.unpaid()
	h.doubtful()
}

// killed kills the replica that submitted the video while the answer arrives. Its next process
// writes the remaining events.
func (h *History) killed() {
	h.Faults = append(h.Faults, Fault{Kind: FaultKill, Target: "0", From: s(1.12), To: s(1.18)})
	h.writes("one", s(1.1), "two")
}

// cancel ends the video by a cancellation of its client.
func (h *History) cancel() {
	h.fail(film, "cancelled")
	h.ends(film, func(e *Event) { e.Status, e.Phase = "cancelled", "cancelled" })
	h.Calls = append(h.Calls, Call{Asked: s(3.5), Time: s(3.6), Client: "c9", Op: OpCancel, Job: film})
	for i := range h.Calls {
		if h.Calls[i].Status == "failed" {
			h.Calls[i].Status = "cancelled"
		}
	}
	items := h.Followed[0].Items
	items[len(items)-1].Status = "cancelled"
}

// writes replaces a writer after a time by another one.
func (h *History) writes(writer string, until time.Time, after string) {
	for i, e := range h.Events {
		if e.Writer == writer && e.Time.After(until) {
			h.Events[i].Writer = after
		}
	}
}
