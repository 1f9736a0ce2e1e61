package check

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"
)

func broken(h *History) []string {
	violations, _ := Run(h)
	rules := map[string]bool{}
	for _, v := range violations {
		rules[v.Rule] = true
	}
	return slices.Sorted(maps.Keys(rules))
}

// broke is one change and the rules that it breaks.
type broke struct {
	name   string
	rules  []string
	change func(*History)
}

// breaks change the good history so that one promise is broken, or a few that depend on each other.
var breaks = []broke{
	{"a message that is none", []string{"readable"}, func(h *History) { h.Unreadable = []string{"message 7"} }},
	{"accepted and gone", []string{"one-end"}, func(h *History) {
		h.Calls = append(h.Calls, Call{Time: s(0), Client: "c9", Op: OpCreate, Job: "video_gone"})
	}},
	{"a second end", []string{"one-end", "terminal-stays"}, func(h *History) {
		e := *h.log(film, 5)
		e.Version, e.Seq, e.Previous = 6, 90, "completed"
		h.Events = append(h.Events, e)
	}},
	{"a version is missing", []string{"versions"}, func(h *History) {
		h.Events = slices.DeleteFunc(h.Events, func(e Event) bool { return e.Job == film && e.Version == 4 })
		h.log(film, 5).Previous = "queued"
		h.Followed[0].Items = slices.Delete(h.Followed[0].Items, 3, 4)
		h.Followed[0].Items[3].Version = 5
		h.Followed = h.Followed[1:] // it would see the gap too
	}},
	{"back to queued", []string{"status-forward"}, func(h *History) {
		e := h.log(talk, 2)
		e.Status, h.log(talk, 1).Status = "queued", "in_progress"
		h.Followed = h.Followed[:1]
	}},
	{"another status before", []string{"status-forward"}, func(h *History) { h.log(film, 4).Previous = "completed" }},
	{"an event after the end", []string{"terminal-stays", "status-forward"}, func(h *History) {
		e := *h.log(film, 4)
		e.Version, e.Seq, e.Previous = 6, 90, "completed"
		h.Events = append(h.Events, e)
	}},
	{"no feed copy", []string{"feed-copy"}, func(h *History) { h.FeedCopies = h.FeedCopies[1:] }},
	{"a feed copy without an end", []string{"feed-copy"}, func(h *History) { h.FeedCopies = append(h.FeedCopies, Event{Job: "video_z", ID: "z"}) }},
	{"a feed copy with another id", []string{"feed-copy"}, func(h *History) { h.FeedCopies[0].ID = "other" }},
	{"a feed copy with other bytes", []string{"feed-copy"}, func(h *History) { h.FeedCopies[0].Sum = "other" }},
	{"ended late", []string{"deadline"}, func(h *History) { h.log(film, 5).Time = s(90); h.Calls[2].Asked = s(91) }},
	{"never ended", []string{"deadline", "told-true", "followers"}, func(h *History) {
		h.Events = slices.DeleteFunc(h.Events, func(e Event) bool { return e.Job == film && e.terminal() })
		h.FeedCopies = h.FeedCopies[1:]
	}},
	{"never submitted", []string{"deadline"}, func(h *History) {
		h.append(Event{Job: "video_q", QueueDeadline: s(60)}, "queued", "queued", s(0))
	}},
	{"never ended, and accepted after all items were deleted", []string{"deadline"}, func(h *History) {
		h.append(Event{Job: "video_q", QueueDeadline: s(60)}, "queued", "queued", s(6))
		h.Faults = append(h.Faults, Fault{Kind: FaultDelete, From: s(4), To: s(5), Loses: LosesItems})
	}},
	{"submitted, and never ended after all items were deleted", []string{"deadline"}, func(h *History) {
		h.append(Event{Job: "video_q", QueueDeadline: s(60)}, "queued", "queued", s(1))
		h.append(Event{Job: "video_q", Version: 2, QueueDeadline: s(60), FirstSubmit: s(2), Deadline: s(60)}, "queued", "submitted", s(2))
		h.Faults = append(h.Faults, Fault{Kind: FaultDelete, From: s(4), To: s(5), Loses: LosesItems})
	}},
	{"ended before its time", []string{"early-end"}, func(h *History) { h.fail(talk, "queue_timeout") }},
	{"ended by a wrong clock", []string{"early-end"}, func(h *History) {
		h.wrongClock(film, 49*time.Hour)
		h.fail(film, "deadline_exceeded")
		h.log(film, 5).UpstreamID = "task_1"
		h.Posts[0].Fault = "task_never_ends"
	}},
	{"submitted after it expired", []string{"expires"}, func(h *History) { h.log(film, 2).ExpiresAt = s(0.5) }},
	{"expired too early", []string{"expires"}, func(h *History) {
		h.fail(talk, "expired")
		h.log(talk, 3).ExpiresAt = s(20)
	}},
	{"a bug ends a job", []string{"strange-end"}, func(h *History) { h.fail(film, "internal") }},
	{"without an item, and none was deleted", []string{"strange-end"}, func(h *History) { h.fail(film, "not_enqueued") }},
	{"poisoned by nothing", []string{"strange-end"}, func(h *History) { h.fail(film, "poisoned") }},
	{"cancelled by nobody", []string{"strange-end"}, func(h *History) {
		h.append(Event{Job: "video_q", QueueDeadline: s(60)}, "cancelled", "cancelled", s(0))
		h.Events[len(h.Events)-1].Code, h.FeedCopies[len(h.FeedCopies)-1].Code = "cancelled", "cancelled"
	}},
	{"two handlers of one attempt", []string{"one-writer"}, func(h *History) {
		e := h.log(film, 3)
		e.Phase, e.Writer, e.SubmitUntil = "submitting", "two", s(3)
		h.log(film, 4).UpstreamID = "task_1"
	}},
	{"a video POSTed twice", []string{"video-post-once", "post-committed"}, func(h *History) {
		p := h.Posts[0]
		p.Time, p.TaskID, p.Accepted, p.Answered = s(1.3), "", false, false
		h.Posts = append(h.Posts, p)
	}},
	{"POSTed again after no answer", []string{"video-post-once"}, func(h *History) { h.resubmit(0) }},
	{"POSTed again after a 503", []string{"video-post-once"}, func(h *History) { h.resubmit(503) }},
	{"paid twice", []string{"paid-once"}, func(h *History) { h.Paid = append(h.Paid, h.Paid[0]) }},
	{"one request paid under two jobs", []string{"paid-once", "paid-recorded"}, func(h *History) {
		h.Paid = append(h.Paid, Paid{ID: "task_2", Key: "video_z", Marker: "m1"})
	}},
	{"POSTed before the commit", []string{"post-committed"}, func(h *History) { h.Posts[0].Time = s(0.5) }},
	{"POSTed after the lease", []string{"post-lease"}, func(h *History) { h.Posts[0].Time = s(5.5) }},
	{"POSTed after the lease, long after a stall", []string{"post-lease"}, func(h *History) {
		h.Posts[0].Time = s(5.5)
		h.Faults = append(h.Faults, Fault{Kind: FaultStall, From: s(2.5), To: s(2.9)})
	}},
	{"a redirect was followed", []string{"no-redirect"}, func(h *History) { h.Posts[0].Path = "/faultinject/moved/v1/video/generations" }},
	{"three calls of a chat", []string{"chat-attempts"}, func(h *History) { h.Posts = append(h.Posts, h.Posts[1], h.Posts[1]) }},
	{"another reply", []string{"chat-reply", "chat-chunks", "followers"}, func(h *History) { h.log(talk, 3).Text = "ax" }},
	{"a block is missing", []string{"chat-chunks"}, func(h *History) { h.Chunks = h.Chunks[:1] }},
	{"a block says something else", []string{"chat-chunks"}, func(h *History) { h.Chunks[0].Blocks[1] = block("x") }},
	{"a block stands there twice", []string{"chat-chunks"}, func(h *History) {
		h.Chunks = append(h.Chunks, Chunk{Job: talk, Attempt: 1, Index: 1, Blocks: []string{block("x")}})
	}},
	{"a reply was replaced", []string{"stored"}, func(h *History) { h.ends(talk, func(e *Event) { e.Reply.Lost = "it has another digest" }) }},
	{"a dead letter's request is gone", []string{"stored"}, func(h *History) { h.DeadLetters = []DeadLetter{{Job: film, Data: &Object{Lost: "not found"}}} }},
	{"an upload is gone", []string{"stored"}, func(h *History) {
		h.DeadLetters = []DeadLetter{{Job: film, Code: "input_lost", Upload: &Object{Lost: "not found"}}}
	}},
	{"a torn upload was taken", []string{"stored"}, func(h *History) {
		h.DeadLetters = []DeadLetter{{Job: film, Code: "poisoned", Upload: &Object{Lost: "corrupt", Torn: true}}}
	}},
	{"a chunk's block is gone", []string{"stored"}, func(h *History) { h.Chunks[0].Block = &Object{Lost: "not found"} }},
	{"a copy of another file", []string{"same-file"}, func(h *History) { h.log(film, 5).Files = []Object{{Sum: "c1"}, {Sum: "c9"}} }},
	{"the upstream is sent another request", []string{"request-body"}, func(h *History) { h.Posts[0].Input = "~other~" }},
	{"a dead letter keeps another request", []string{"request-body"}, func(h *History) {
		h.DeadLetters = []DeadLetter{{Job: film, Marker: "m1", Input: "~other~"}}
	}},
	{"no usage", []string{"usage"}, func(h *History) { h.Usage = h.Usage[1:] }},
	{"usage twice", []string{"usage"}, func(h *History) { h.Usage = append(h.Usage, film) }},
	{"an inbox message without an end", []string{"inbox-ends"}, func(h *History) {
		h.Calls = append(h.Calls, Call{Client: "c9", Op: OpPublish, Ingress: "inbox", Marker: "m9"})
	}},
	{"an inbox message without an end, stored after a deletion", []string{"inbox-ends"}, func(h *History) {
		h.Calls = append(h.Calls, Call{Asked: s(6), Client: "c9", Op: OpPublish, Ingress: "inbox", Marker: "m9"})
		h.Faults = append(h.Faults, Fault{Kind: FaultDelete, From: s(4), To: s(5), Loses: LosesRequests})
	}},
	{"two jobs of one request", []string{"one-job"}, func(h *History) {
		h.append(Event{Job: "chat_z", Marker: "m2", QueueDeadline: s(600)}, "queued", "queued", s(1))
	}},
	{"refused and run", []string{"refused"}, func(h *History) {
		h.append(Event{Job: "chat_z", Marker: "m8", QueueDeadline: s(600)}, "queued", "queued", s(1))
		h.Calls = append(h.Calls, Call{Client: "c8", Op: OpCreate, Marker: "m8", Code: "queue_full"})
	}},
	{"one key is two jobs", []string{"same-key"}, func(h *History) {
		h.Calls = append(h.Calls, Call{Client: "c9", Op: OpCreate, Key: "k1", Body: "b1", Job: talk, Time: s(20)})
	}},
	{"one key has two bodies", []string{"same-key"}, func(h *History) {
		h.Calls = append(h.Calls, Call{Client: "c9", Op: OpCreate, Key: "k1", Body: "other", Job: film, Time: s(20)})
	}},
	{"a key is called reused", []string{"same-key"}, func(h *History) {
		h.Calls = append(h.Calls, Call{Client: "c9", Op: OpCreate, Key: "k1", Body: "b1", Code: "idempotency_key_reused"})
	}},
	{"told another status", []string{"told-true"}, func(h *History) { h.Calls[1].Status = "in_progress" }},
	{"told a version that is none", []string{"told-true"}, func(h *History) { h.Calls[2].Version = 9 }},
	{"a GET goes back", []string{"get-forward"}, func(h *History) {
		h.Calls = append(h.Calls, Call{Asked: s(6), Time: s(7), Client: "c1", Op: OpGet, Job: film, Status: "queued", Version: 3})
	}},
	{"not found", []string{"get-found"}, func(h *History) {
		h.Calls = append(h.Calls, Call{Asked: s(6), Time: s(7), Client: "c1", Op: OpGet, Job: film, Code: "task_not_found", HTTP: 404})
	}},
	{"a tenant reads another's job", []string{"tenants"}, func(h *History) {
		h.Calls = append(h.Calls, Call{Asked: s(6), Time: s(7), Client: "c7", Tenant: "b", Op: OpPeek, Job: film, Status: "completed"})
	}},
	{"a tenant learns that there is another's job", []string{"tenants"}, func(h *History) {
		h.Calls = append(h.Calls, Call{Asked: s(6), Time: s(7), Client: "c7", Tenant: "b", Op: OpPeek, Job: film, Code: "invalid_api_key", HTTP: 401})
	}},
	{"a tenant is given another's job for its key", []string{"tenants"}, func(h *History) {
		h.Calls = append(h.Calls, Call{Asked: s(6), Time: s(7), Client: "c7", Tenant: "b", Op: OpCreate, Key: "k1", Body: "b1", Job: film, Status: "completed"})
	}},
	{"a client is told of a bug", []string{"answers"}, func(h *History) {
		h.Calls = append(h.Calls, Call{Client: "c1", Op: OpGet, Job: film, Code: "internal", HTTP: 500})
	}},
	{"a client is given another reply", []string{"answers"}, func(h *History) {
		h.Calls = append(h.Calls, Call{Client: "c9", Op: OpChat, Job: talk, Whole: true, Text: "a", Time: s(30)})
	}},
	{"a follower misses a version", []string{"followers"}, func(h *History) {
		h.Followed[0].Items = slices.Delete(h.Followed[0].Items, 2, 3)
	}},
	{"a follower sees another event", []string{"followers"}, func(h *History) { h.Followed[0].Items[1].ID = "other" }},
	{"a follower is let go too early", []string{"followers"}, func(h *History) { h.Followed[0].Items = h.Followed[0].Items[:4] }},
	{"a follower is never shown the end", []string{"followers"}, func(h *History) {
		w := &h.Followed[0]
		w.Items, w.Ended, w.FinishedAt = w.Items[:4], false, s(60)
	}},
	{"a follower misses a block", []string{"followers"}, func(h *History) {
		item := &h.Followed[1].Items[2]
		item.Index, item.Blocks = 1, item.Blocks[1:]
	}},
	{"a follower sees a block again", []string{"followers"}, func(h *History) {
		h.Followed[1].Items = slices.Insert(h.Followed[1].Items, 3, h.Followed[1].Items[2])
	}},
}

// resubmit turns the video into one that was first refused with this status.
func (h *History) resubmit(status int) {
	h.Events = slices.DeleteFunc(h.Events, func(e Event) bool { return e.Job == film })
	h.FeedCopies, h.Followed, h.Calls = h.FeedCopies[1:], h.Followed[1:], h.Calls[3:]
	base := Event{Job: film, Route: "video", Writer: "one", Marker: "m1", QueueDeadline: s(60)}
	h.append(base, "queued", "queued", s(0))
	base.Attempt, base.FirstSubmit, base.Deadline, base.SubmitUntil = 1, s(1), s(61), s(3)
	h.append(base, "queued", "submitting", s(1))
	h.append(base, "queued", "queued", s(1.3))
	base.Attempt, base.SubmitUntil = 2, s(4)
	h.append(base, "queued", "submitting", s(2))
	base.UpstreamID = "task_1"
	h.append(base, "completed", "completed", s(4))
	refused := Post{Time: s(1.1), Ended: s(1.2), Replica: "0", Video: true, Key: film, Marker: "m1", Status: status, Fault: "status", Spoiled: true}
	h.Posts[0].Time, h.Posts[0].Ended = s(2.1), s(2.2)
	h.Posts = slices.Insert(h.Posts, 0, refused)
}

func TestAHistoryThatKeepsEveryPromise(t *testing.T) {
	t.Parallel()
	violations, _ := Run(good())
	for _, v := range violations {
		t.Error(v)
	}
}

func TestABrokenPromiseIsFound(t *testing.T) {
	t.Parallel()
	tested := map[string]bool{}
	for _, b := range slices.Concat(breaks, outcomeBreaks, listBreaks) {
		for _, r := range b.rules {
			tested[r] = true
		}
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			h := good()
			b.change(h)
			got := broken(h)
			if want := slices.Sorted(slices.Values(b.rules)); !slices.Equal(got, want) {
				violations, _ := Run(h)
				t.Errorf("broken: %v, want %v\n%v", got, want, violations)
			}
		})
	}
	for name := range Rules() {
		if !tested[name] {
			t.Errorf("no history breaks the rule %s", name)
		}
	}
}

// faultExcuses are effects of faults and actions of clients that break no promise.
var faultExcuses = []excuse{
	{"POSTed again after a 429", func(h *History) { h.resubmit(429) }},
	{"POSTed again after one whose body did not leave", func(h *History) {
		h.resubmit(0)
		h.Posts[0].Fault, h.Posts[0].Marker, h.Posts[0].Bodiless = "", "", true
	}},
	{"poisoned by very many kills", func(h *History) {
		h.fail(film, "poisoned")
		for i := range maxDeliveries + 1 {
			h.Faults = append(h.Faults, Fault{Kind: FaultKill, From: s(2.1 + 0.1*float64(i)), To: s(2.15 + 0.1*float64(i))})
		}
	}},
	{"late because the broker was away", func(h *History) {
		h.log(film, 5).Time = s(90)
		h.Calls[2].Asked = s(91)
		h.Faults = append(h.Faults, Fault{Kind: FaultIsolate, From: s(50), To: s(85), Broker: true})
	}},
	{"a block that was lost with the broker", func(h *History) {
		h.Chunks = h.Chunks[:1]
		h.Faults = append(h.Faults, Fault{Kind: FaultTerminate, From: s(100), To: s(101), Broker: true, Wipes: true})
	}},
	{"read late because the harness got no processor", func(h *History) {
		h.Posts[0].Time, h.Posts[0].Ended = s(3.5), s(3.5)
		h.Faults = append(h.Faults, Fault{Kind: FaultStall, From: s(2.1), To: s(2.6)}, Fault{Kind: FaultStall, From: s(2.8), To: s(3.4)})
	}},
	{"a refused chat costs no attempt", func(h *History) {
		refused := Post{Key: talk, Status: 429}
		h.Posts = append(h.Posts, refused, refused, refused)
	}},
	{"another holder resets the poison count of a chat", func(h *History) {
		e := Event{Job: "chat_q", Route: "chat", Writer: "one", Marker: "m3", QueueDeadline: s(60), ExpiresAt: s(12)}
		h.append(e, "queued", "queued", s(10))
		e.Attempt, e.FirstSubmit, e.Deadline = 1, s(11), s(71)
		h.append(e, "in_progress", "in_progress", s(11))
		e.Writer = "two"
		h.append(e, "in_progress", "in_progress", s(13))
		e.Code = "deadline_exceeded"
		h.append(e, "failed", "failed", s(72))
		h.Usage = append(h.Usage, e.Job)
	}},
	{"a tenant does not find another's job", func(h *History) {
		h.Calls = append(h.Calls, Call{Asked: s(6), Time: s(7), Client: "c7", Tenant: "b", Op: OpPeek, Job: film, Code: "task_not_found", HTTP: 404})
	}},
	{"a follower was told of a gap", func(h *History) {
		w := &h.Followed[1]
		w.Items[2] = Item{Gap: true}
	}},
	{"a follower that had no time", func(h *History) {
		w := &h.Followed[0]
		w.Items, w.Ended, w.FinishedAt = w.Items[:4], false, s(10)
	}},
	{"a follower whose place was gone", func(h *History) {
		h.Followed[0].Items = []Item{h.Followed[0].Items[0], {Expired: true}, h.Followed[0].Items[4]}
	}},
	{"a key with another body is refused", func(h *History) {
		h.Calls = append(h.Calls, Call{Client: "c9", Op: OpCreate, Key: "k1", Body: "other", Code: "idempotency_key_reused"})
	}},
	{"an inbox message that became a dead letter", func(h *History) {
		h.Calls = append(h.Calls, Call{Client: "c9", Op: OpPublish, Ingress: "inbox", Marker: "m9"})
		h.DeadLetters = append(h.DeadLetters, DeadLetter{Code: "invalid_request", Marker: "m9"})
	}},
	{"an inbox message that was deleted", func(h *History) {
		h.Calls = append(h.Calls, Call{Asked: s(3), Client: "c9", Op: OpPublish, Ingress: "inbox", Marker: "m9"})
		h.Faults = append(h.Faults, Fault{Kind: FaultDelete, From: s(4), To: s(5), Loses: LosesRequests})
	}},
	{"a job whose item was deleted", func(h *History) {
		h.append(Event{Job: "video_q", QueueDeadline: s(60)}, "queued", "queued", s(1))
		h.Faults = append(h.Faults, Fault{Kind: FaultDelete, From: s(4), To: s(5), Loses: LosesItems})
	}},
	{"a replica whose clock was ahead", func(h *History) { h.wrongClock(film, 49*time.Hour) }},
	{"a replica whose clock was behind", func(h *History) { h.wrongClock(film, -20*time.Second) }},
	{"a torn upload was refused", func(h *History) {
		h.DeadLetters = []DeadLetter{{Job: "video_z", Code: "input_lost", Upload: &Object{Lost: "corrupt", Torn: true}}}
	}},
	{"nobody knows whether it was accepted", func(h *History) {
		h.append(Event{Job: "chat_z", Marker: "m8", QueueDeadline: s(600)}, "queued", "queued", s(1))
		h.Calls = append(h.Calls, Call{Client: "c8", Op: OpCreate, Marker: "m8", Lost: "reset"})
	}},
}

// wrongClock shifts the times of a job from its submission on, as a wrong clock does.
func (h *History) wrongClock(job string, by time.Duration) {
	h.Faults = append(h.Faults, Fault{Kind: FaultClock, Target: "0", From: s(0.5), To: s(5), By: by})
	for i := range h.Events {
		e := &h.Events[i]
		if e.Job != job || e.Version == 1 {
			continue
		}
		e.Time = e.Time.Add(by)
		for _, limit := range []*time.Time{&e.SubmitUntil, &e.FirstSubmit, &e.Deadline} {
			if !limit.IsZero() {
				*limit = limit.Add(by)
			}
		}
	}
}

// TestFaultsExcuse proves that faults excuse apparent violations.
func TestFaultsExcuse(t *testing.T) {
	t.Parallel()
	for _, c := range slices.Concat(outcomeExcuses, faultExcuses, listExcuses) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := good()
			c.change(h)
			violations, _ := Run(h)
			for _, v := range violations {
				t.Error(v)
			}
		})
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	h := good()
	h.Calls = append(h.Calls,
		Call{Asked: s(20), Time: s(21), Client: "c3", Series: "s", Op: OpGet, Ingress: "http", Lost: "reset"},
		Call{Asked: s(22), Time: s(23), Client: "c3", Series: "s", Op: OpGet, Ingress: "http", Code: "broker_unavailable"},
		Call{Asked: s(24), Time: s(25), Client: "c3", Series: "s", Op: OpGet, Ingress: "http"},
		Call{Asked: s(26), Time: s(27), Client: "c3", Series: "s", Op: OpGet, Ingress: "http", Lost: "reset"},
	)
	h.Calls = append(h.Calls,
		Call{Asked: s(20), AnswerBegan: s(21), Time: s(30), Client: "c4", Series: "s", Op: OpGet, Ingress: "sse", Lost: "reset"},
		Call{Asked: s(31), Time: s(32), Client: "c4", Series: "s", Op: OpGet, Ingress: "sse", Code: "shutting_down"},
		Call{Asked: s(33), AnswerBegan: s(34), Time: s(60), Client: "c4", Series: "s", Op: OpGet, Ingress: "sse"},
	)
	h.log(film, 5).Writer = "two"
	h.catchingUp(20)
	h.Lists = append(h.Lists, Listed{Asked: s(20), Time: s(25), Lost: "timeout"})
	_, c := Run(h)
	if got := c.Trouble["get by sse"]; got.Lasted != 4*time.Second || got.Errors != 2 || !got.Granted {
		t.Errorf("trouble of a follower %+v, want 4s and 2 errors", got)
	}
	if got := c.Trouble["get by http"]; got.Lasted != 5*time.Second || got.Errors != 2 || !got.Granted {
		t.Errorf("trouble %+v, want 5s and 2 errors", got)
	}
	if c.Takeovers != 1 || c.Jobs["video, http"]["completed"] != 1 || c.Jobs["chat, inbox"]["completed"] != 1 || c.Paid != 1 || c.Followers != 2 {
		t.Errorf("%+v", c)
	}
	if c.Lists != 4 || c.Listed != 2 || c.Paged != 1 || c.Unlisted["index_catching_up"] != 1 || c.Unlisted["no answer"] != 1 {
		t.Errorf("%d lists, %d given, %d of them by a token, others %v", c.Lists, c.Listed, c.Paged, c.Unlisted)
	}
	if c.Errors["no answer"] != 3 || c.Errors["broker_unavailable"] != 1 || c.Asked["get"] != 9 {
		t.Errorf("asked %v, errors %v", c.Asked, c.Errors)
	}
}

// TestAHistoryIsKept proves that a history survives its JSON encoding, so that a run can be checked
// again.
func TestAHistoryIsKept(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(good())
	if err != nil {
		t.Fatal(err)
	}
	var again History
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	if got := broken(&again); len(got) != 0 {
		t.Errorf("broken after a round trip: %v", got)
	}
}

// TestARefusedJobGoesElsewhereAtOnce proves that two POSTs within a millisecond are matched with
// one submitting event each.
func TestARefusedJobGoesElsewhereAtOnce(t *testing.T) {
	t.Parallel()
	h := &History{
		Config: Config{Skew: 250 * time.Millisecond},
		Events: []Event{
			{Job: film, Version: 1, Phase: "queued", Time: s(0)}, {Job: film, Version: 2, Phase: "submitting", Time: s(1), SubmitUntil: s(4)},
			{Job: film, Version: 3, Phase: "queued", Time: s(1.0015)}, {Job: film, Version: 4, Phase: "submitting", Time: s(1.002), SubmitUntil: s(4)},
		},
		Posts: []Post{
			{Time: s(1.001), Video: true, Path: "/v1/video/generations", Key: film, Status: 429},
			{Time: s(1.003), Video: true, Path: "/v1/video/generations", Key: film, Status: 200, TaskID: "task_1", Accepted: true},
		},
	}
	if slices.Contains(broken(h), "post-committed") {
		t.Error("each POST has its submitting")
	}
	h.Events = h.Events[:2]
	if !slices.Contains(broken(h), "post-committed") {
		t.Error("one submitting has two POSTs")
	}
}
