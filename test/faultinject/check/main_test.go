package check

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var begin = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// s returns a time of the run, in seconds after begin.
func s(seconds float64) time.Time {
	return begin.Add(time.Duration(seconds * float64(time.Second)))
}

const (
	film = "video_a" // submitted once, completed
	talk = "chat_b"  // a streamed chat with a follower, completed in its first attempt
)

// good returns a history that keeps every promise: a client created, followed and read a video and
// a chat.
func good() *History {
	h := &History{
		Config: Config{
			Create: 2 * time.Second, Answer: 500 * time.Millisecond, ChatAttempts: 2, Resubmit: map[string]bool{"again": true},
			Grace: 20 * time.Second, Skew: 50 * time.Millisecond, ChunkAge: 15 * time.Minute,
		},
		Began: s(-60), Finished: s(300),
		Final: []Listed{{Asked: s(290), Time: s(291), Target: "0"}, {Asked: s(290), Time: s(292), Target: "1"}},
	}
	h.video()
	h.chat()
	h.Usage = []string{film, talk}
	h.Lists = []Listed{
		{Asked: s(2), Time: s(2.1), Target: "0", Ingress: "http", HTTP: 200, Jobs: []string{film}},
		{Asked: s(3), Time: s(3.1), Target: "1", Ingress: "grpc", Paged: true},
	}
	return h
}

func (h *History) video() {
	base := Event{Job: film, Route: "video", Writer: "one", Key: "k1", Marker: "m1", QueueDeadline: s(60)}
	submitted := base
	submitted.Attempt, submitted.FirstSubmit, submitted.Deadline = 1, s(1), s(61)
	h.append(base, "queued", "queued", s(0))
	until := submitted
	until.SubmitUntil = s(3)
	h.append(until, "queued", "submitting", s(1))
	submitted.UpstreamID = "task_1"
	h.append(submitted, "queued", "submitted", s(1.2))
	h.append(submitted, "in_progress", "in_progress", s(2))
	submitted.Files = []Object{{Name: "one", Size: 9, Sum: "c1"}, {Name: "two", Size: 9, Sum: "c1"}}
	h.append(submitted, "completed", "completed", s(4))
	h.Posts = append(h.Posts, Post{
		Time: s(1.1), Ended: s(1.15), Replica: "0", Video: true, Path: "/v1/video/generations", Key: film, Marker: "m1", Status: 200, TaskID: "task_1", Accepted: true, Answered: true, Input: "~long~",
	})
	h.Paid = append(h.Paid, Paid{ID: "task_1", Key: film, Marker: "m1", Time: s(1.12)})
	h.Calls = append(h.Calls,
		Call{Asked: s(-0.1), Time: s(0.1), Client: "c1", Series: "create", Op: OpCreate, Ingress: "http", Key: "k1", Marker: "m1", Body: "b1", Input: "~long~", Job: film, Status: "queued", Version: 1},
		Call{Asked: s(1.5), Time: s(1.6), Client: "c1", Series: "get", Op: OpGet, Ingress: "grpc", Job: film, Status: "queued", Version: 3},
		Call{Asked: s(5), Time: s(5.1), Client: "c1", Series: "get", Op: OpGet, Ingress: "http", Job: film, Status: "completed"},
	)
	h.follow("c1", film)
}

func (h *History) chat() {
	base := Event{Job: talk, Route: "chat", Writer: "one", Marker: "m2", QueueDeadline: s(60), Stream: true}
	begun := base
	begun.Attempt, begun.FirstSubmit, begun.Deadline = 1, s(11), s(71)
	h.append(base, "queued", "queued", s(10))
	h.append(begun, "in_progress", "in_progress", s(11))
	begun.ChunkCount, begun.Text, begun.Replied, begun.Reply = 3, "ab", true, &Object{Name: talk + "-reply", Size: 2, Sum: "c2"}
	h.append(begun, "completed", "completed", s(12))
	h.Posts = append(h.Posts, Post{Time: s(11.1), Ended: s(11.9), Path: "/v1/chat/completions", Key: talk, Marker: "m2", Status: 200, Accepted: true, Answered: true, Text: "ab"})
	h.Calls = append(h.Calls, Call{Asked: s(9.9), Time: s(10.1), Client: "c2", Series: "create", Op: OpPublish, Ingress: "inbox", Marker: "m2", Body: "b2"})
	h.Chunks = append(h.Chunks, Chunk{Seq: 1, Job: talk, Attempt: 1, Blocks: []string{block("a"), block("b")}}, Chunk{Seq: 2, Job: talk, Attempt: 1, Index: 2, Blocks: []string{`{"choices":[]}`}})
	h.follow("c2", talk)
	w := &h.Followed[len(h.Followed)-1]
	w.Items = append(w.Items[:2:2], Item{Attempt: 1, Blocks: []string{block("a"), block("b"), `{"choices":[]}`}}, w.Items[2])
}

func block(text string) string { return `{"choices":[{"delta":{"content":"` + text + `"}}]}` }

// append adds the next event of a job, and the feed copy of its end. A new video task comes first
// in the lists.
func (h *History) append(e Event, status, phase string, at time.Time) {
	e.Created = at
	for _, old := range h.Events {
		if old.Job == e.Job {
			e.Version, e.Previous, e.Created = old.Version, old.Status, old.Created
		}
	}
	e.Version++
	for i := range h.Final {
		if l := &h.Final[i]; isVideo(e.Job) && l.Tenant == e.Tenant && !slices.Contains(l.Jobs, e.Job) {
			l.Jobs = slices.Insert(l.Jobs, 0, e.Job)
		}
	}
	e.Seq = uint64(len(h.Events) + len(h.FeedCopies) + 1)
	e.Status, e.Phase, e.Time, e.Stored = status, phase, at, at
	e.ID = e.Job + "." + string(rune('0'+e.Version)) + ".n"
	e.Sum = "sum of " + e.ID
	h.Events = append(h.Events, e)
	if e.terminal() {
		e.Seq++
		h.FeedCopies = append(h.FeedCopies, e)
	}
}

func (h *History) follow(client, job string) {
	w := Followed{Client: client, Ingress: "sse", Job: job, Connections: 1, Ended: true}
	for _, e := range h.Events {
		if e.Job == job {
			w.Items = append(w.Items, Item{ID: e.ID, Version: e.Version, Status: e.Status})
		}
	}
	h.Followed = append(h.Followed, w)
}

// log returns the event of a job with this version, for changes.
func (h *History) log(job string, version uint64) *Event {
	for i := range h.Events {
		if h.Events[i].Job == job && h.Events[i].Version == version {
			return &h.Events[i]
		}
	}
	return &Event{}
}

// fail makes the end of a job a failure in the log, in the feed, for clients and for followers.
func (h *History) fail(job, code string) {
	h.ends(job, func(e *Event) { e.Status, e.Phase, e.Code, e.Text, e.Replied = "failed", "failed", code, "", false })
	for i := range h.Calls {
		if h.Calls[i].Job == job && terminal(h.Calls[i].Status) {
			h.Calls[i].Status = "failed"
		}
	}
	for _, w := range h.Followed {
		if w.Job == job {
			w.Items[len(w.Items)-1].Status = "failed"
		}
	}
}

// ends changes the end of a job in the log and in the feed.
func (h *History) ends(job string, change func(*Event)) {
	for _, events := range [][]Event{h.Events, h.FeedCopies} {
		for i := range events {
			if events[i].Job == job && events[i].terminal() {
				change(&events[i])
			}
		}
	}
}
