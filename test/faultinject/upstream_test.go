package faultinject

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// outcome is the effect of one fault on the client and the ledger.
type outcome struct {
	fault    Fault
	status   int // 0: none received
	cut      bool
	accepted bool
	answered bool
	marker   bool // the whole body arrived
}

func (o outcome) check(t *testing.T, r reply, p Post) {
	t.Helper()
	if o.status != r.status || o.cut != isCut(r.err) || !o.cut && r.err != nil {
		t.Errorf("the client got %d, %v; want %d, cut %t", r.status, r.err, o.status, o.cut)
	}
	if p.Fault != o.fault || p.Status != o.status || p.Accepted != o.accepted || p.Answered != o.answered {
		t.Errorf("the ledger holds %+v, want %+v", p, o)
	}
	if p.Key != "job1" || p.Nth != 1 || p.Ended.Before(p.Time) || o.marker && p.Marker != "m1" {
		t.Errorf("the ledger holds %+v", p)
	}
}

func TestFaultsOfCreatesAndChats(t *testing.T) {
	t.Parallel()
	for _, o := range []outcome{
		{None, 200, false, true, true, true},
		{Latency, 200, false, true, true, true},
		{Drip, 200, false, true, true, true},
		{TooMany, 429, false, false, true, true},
		{TooManyLater, 429, false, false, true, true},
		{BadGateway, 502, false, false, true, true},
		{Unavailable, 503, false, false, true, true},
		{InternalAfter, 500, false, true, true, true},
		{Redirect, 307, false, false, true, true},
		{ResetBefore, 0, true, false, false, false},
		{ResetDuring, 0, true, false, false, false},
		{ResetAccepted, 0, true, true, false, true},
		{CutAnswer, 200, true, true, false, true},
		{HTML, 200, false, true, true, true},
		{TruncatedJSON, 200, false, true, true, true},
		{Binary, 200, false, true, true, true},
		{GzipBomb, 200, false, true, true, true},
		{NestedID, 200, false, true, true, true},
		{OddEvents, 200, false, true, true, true},
		{NoChoice, 200, false, true, true, true},
	} {
		for op, body := range map[Op]string{OpCreate: videoBody, OpChat: chatBody} {
			if !slices.Contains(append(FaultsOf(op), None), o.fault) {
				continue
			}
			t.Run(fmt.Sprintf("%s %s", op, o.fault), func(t *testing.T) {
				t.Parallel()
				u, c := newTestUpstream(t, always(op, o.fault))
				r := post(t, c, u.URL()+paths[op], "job1", body)
				p := only(t, u)
				o.check(t, r, p)
				checkAccepted(t, u, op, p)
				if got := u.FaultCounts()[string(op)+"/"+string(o.fault)]; o.fault != None && got != 1 {
					t.Errorf("counted %d times: %v", got, u.FaultCounts())
				}
			})
		}
	}
}

// checkAccepted compares a post with the sandbox's own counts.
func checkAccepted(t *testing.T, u *Upstream, op Op, p Post) {
	t.Helper()
	stats := u.sandbox.Stats()
	if op == OpChat {
		if p.Accepted != (stats.Chats == 1) || p.Accepted != strings.HasPrefix(p.Text, "You wrote 2 words") {
			t.Errorf("accepted %t, text %q, %d chats", p.Accepted, p.Text, stats.Chats)
		}
		return
	}
	tasks := u.Tasks()
	if p.Accepted != (stats.Tasks == 1) || p.Accepted != (len(tasks) == 1) {
		t.Fatalf("accepted %t, %d tasks in the sandbox, %d in the ledger", p.Accepted, stats.Tasks, len(tasks))
	}
	if p.Accepted && (tasks[0].ID != p.TaskID || tasks[0].Key != "job1" || tasks[0].Marker != "m1" || tasks[0].Fault != p.Fault) {
		t.Errorf("the task is %+v, the post %+v", tasks[0], p)
	}
}

func TestWhatIsAnswered(t *testing.T) {
	t.Parallel()
	for fault, good := range map[Fault]func(reply) bool{
		TooMany:       func(r reply) bool { return r.header.Get("Retry-After") == "" },
		TooManyLater:  func(r reply) bool { return r.header.Get("Retry-After") == "1" },
		Redirect:      func(r reply) bool { return r.header.Get("Location") == "/faultinject/moved/v1/video/generations" },
		HTML:          func(r reply) bool { return strings.HasPrefix(r.body, "<!DOCTYPE html>") },
		TruncatedJSON: func(r reply) bool { return !json.Valid([]byte(r.body)) },
		Binary:        func(r reply) bool { return len(r.body) == 512 },
		GzipBomb: func(r reply) bool {
			return r.header.Get("Content-Encoding") == "gzip" && len(r.body) < 1<<20 && len(r.body) > 200<<10
		},
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			u, c := newTestUpstream(t, always(OpCreate, fault))
			if r := post(t, c, u.URL()+paths[OpCreate], "job1", videoBody); r.err != nil || !good(r) {
				t.Errorf("got %d %v %d bytes, %v", r.status, r.header, len(r.body), r.err)
			}
		})
	}
}

func TestGzipBomb(t *testing.T) {
	t.Parallel()
	r, err := gzip.NewReader(bytes.NewReader(gzipBomb()))
	if err != nil {
		t.Fatal(err)
	}
	var some bytes.Buffer
	if _, err := io.CopyN(&some, r, 3<<20); err != nil || len(bytes.Trim(some.Bytes(), " ")) > 0 {
		t.Errorf("it is not made of spaces, %v", err)
	}
}

func TestTasksThatMisbehave(t *testing.T) {
	t.Parallel()
	for fault, want := range map[Fault][]string{
		TaskNeverEnds:  {"queued"},
		TaskLate:       {"queued"},
		TaskFails:      {"failed"},
		NestedID:       {"completed"},
		TaskBackwards:  {"completed"},
		TaskResultLate: {"completed"},
		None:           {"completed"},
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			u, c := newTestUpstream(t, always(OpCreate, fault))
			id := create(t, u, c, "job1")
			for _, word := range want {
				await(t, word, func() bool {
					return strings.Contains(get(t, c, u.URL()+paths[OpCreate]+"/"+id).body, `"status":"`+word+`"`)
				})
			}
		})
	}
}

func TestTaskRefused(t *testing.T) {
	t.Parallel()
	u, c := newTestUpstream(t, always(OpCreate, TaskRefused))
	r := get(t, c, u.URL()+paths[OpCreate]+"/"+create(t, u, c, "job1"))
	if r.status != http.StatusBadRequest || !strings.Contains(r.body, "moderation_blocked") {
		t.Errorf("got %d %s", r.status, r.body)
	}
}

// TestBackwards proves that the status words of such a task appear in the intended order.
func TestBackwards(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{
		"/v1/video/generations": `{"model":"sandbox-video","prompt":"p","metadata":{"sandbox":{"duration_ms":4500}}}`,
		"/v1/videos":            `{"model":"sandbox-videos","prompt":"p","metadata":{"sandbox":{"duration_ms":4500}}}`,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			u, c := newTestUpstream(t, always(OpCreate, TaskBackwards))
			id := taskIDOf([]byte(post(t, c, u.URL()+path, "job1", body).body))
			var words []string
			await(t, "the end of the task", func() bool {
				var answer struct{ Status string }
				r := get(t, c, u.URL()+path+"/"+id)
				if err := json.Unmarshal([]byte(r.body), &answer); err != nil {
					t.Fatalf("%s: %v", r.body, err)
				}
				if len(words) == 0 || words[len(words)-1] != answer.Status {
					words = append(words, answer.Status)
				}
				return answer.Status == "completed"
			})
			if got := strings.Join(words, " "); got != "in_progress queued in_progress completed" {
				t.Errorf("the words were %s", got)
			}
		})
	}
}

func TestFaultsOfPolls(t *testing.T) {
	t.Parallel()
	for fault, good := range map[Fault]func(reply) bool{
		None:          func(r reply) bool { return r.status == 200 && json.Valid([]byte(r.body)) },
		NotFound:      func(r reply) bool { return r.status == 404 },
		PollErrors:    func(r reply) bool { return r.status >= 500 },
		PollGarbage:   func(r reply) bool { return r.status == 200 && !json.Valid([]byte(r.body)) },
		TooMany:       func(r reply) bool { return r.status == 429 },
		ResetBefore:   func(r reply) bool { return isCut(r.err) },
		ResetDuring:   func(r reply) bool { return isCut(r.err) },
		ResetAccepted: func(r reply) bool { return isCut(r.err) },
		CutAnswer:     func(r reply) bool { return isCut(r.err) && r.status == 200 },
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			u, c := newTestUpstream(t, always(OpPoll, fault))
			id := create(t, u, c, "job1")
			if r := get(t, c, u.URL()+paths[OpCreate]+"/"+id); !good(r) {
				t.Errorf("got %+v", r)
			}
			if len(u.Ledger()) != 1 || u.Polls() == 0 {
				t.Errorf("%d posts and %d polls", len(u.Ledger()), u.Polls())
			}
		})
	}
}

// TestPollsFollowTheKey proves that a seed gives the polls of the same job the same faults,
// although task IDs are random.
func TestPollsFollowTheKey(t *testing.T) {
	t.Parallel()
	statuses := func() string {
		u, c := newTestUpstream(t, Mix{OpPoll: {NotFound: 0.3, TooMany: 0.3}})
		var out []string
		for _, key := range []string{"a", "b", "c", "d"} {
			id := create(t, u, c, key)
			for range 20 {
				out = append(out, fmt.Sprint(get(t, c, u.URL()+paths[OpCreate]+"/"+id).status))
			}
		}
		return strings.Join(out, " ")
	}
	first := statuses()
	if second := statuses(); first != second || !strings.Contains(first, "404") || !strings.Contains(first, "429") {
		t.Errorf("the first run:  %s\nthe second run: %s", first, second)
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	for fault, good := range map[Fault]func(reply, Post) bool{
		None: func(r reply, p Post) bool {
			return r.err == nil && p.Answered && strings.HasSuffix(r.body, "data: [DONE]\n\n") && contentOf([]byte(r.body)) == p.Text
		},
		Drip: func(r reply, p Post) bool { return r.err == nil && p.Answered && contentOf([]byte(r.body)) == p.Text },
		CutAnswer: func(r reply, p Post) bool {
			got := contentOf([]byte(r.body))
			return isCut(r.err) && !p.Answered && len(got) < len(p.Text)+1 && strings.HasPrefix(p.Text, got)
		},
		HTML: func(r reply, p Post) bool { return r.err == nil && p.Answered && strings.Contains(r.body, "<html>") },
		OddEvents: func(r reply, p Post) bool {
			return p.Answered && strings.HasSuffix(r.body, "data: [DONE]\n\n"+oddEvents) && strings.Count(r.body, oddEvents) > 3 && contentOf([]byte(r.body)) == p.Text
		},
		NoChoice: func(r reply, p Post) bool {
			return p.Answered && strings.Contains(r.body, `"choices":[]`) && strings.HasSuffix(r.body, "data: [DONE]\n\n")
		},
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			u, c := newTestUpstream(t, always(OpChat, fault))
			r := post(t, c, u.URL()+paths[OpChat], "job1", streamBody)
			if p := only(t, u); !good(r, p) || !p.Accepted || p.Text == "" && fault != CutAnswer {
				t.Errorf("got %+v\nledger %+v", r, p)
			}
		})
	}
}

func TestStreamStalls(t *testing.T) {
	t.Parallel()
	for _, body := range []string{streamBody, chatBody} {
		u, c := newTestUpstream(t, always(OpChat, StreamStall))
		c.Timeout = time.Second
		r := post(t, c, u.URL()+paths[OpChat], "job1", body)
		for end := time.Now().Add(patience); r.status == 0 && time.Now().Before(end); { // the header came too late
			u, c = newTestUpstream(t, always(OpChat, StreamStall))
			c.Timeout = time.Second
			r = post(t, c, u.URL()+paths[OpChat], "job1", body)
		}
		if r.err == nil || isCut(r.err) || r.status != 200 {
			t.Errorf("a stalled answer ended by itself: %+v", r)
		}
		if p := only(t, u); p.Answered || !p.Accepted {
			t.Errorf("the ledger holds %+v", p)
		}
	}
}

func TestOversizedLines(t *testing.T) {
	t.Parallel()
	u, c := newTestUpstream(t, always(OpChat, OversizedLine))
	r := post(t, c, u.URL()+paths[OpChat], "job1", streamBody)
	longest := 0
	for line := range bytes.Lines([]byte(r.body)) {
		longest = max(longest, len(line))
	}
	if r.err != nil || longest < oversizedLine {
		t.Errorf("the longest line has %d bytes, %v", longest, r.err)
	}
	if r := post(t, c, u.URL()+paths[OpChat], "job2", chatBody); r.err != nil || len(r.body) < oversizedLine {
		t.Errorf("the JSON has %d bytes, %v", len(r.body), r.err)
	}
}

func TestOthersMeetNoFault(t *testing.T) {
	t.Parallel()
	u, c := newTestUpstream(t, Mix{OpCreate: {BadGateway: 1}, OpPoll: {BadGateway: 1}, OpChat: {BadGateway: 1}})
	if r := get(t, c, u.URL()+"/v1/models"); r.status != http.StatusOK {
		t.Errorf("the models: %+v", r)
	}
	if err := u.SetMix(nil); err != nil {
		t.Fatal(err)
	}
	id := create(t, u, c, "job1")
	await(t, "the file", func() bool {
		r := get(t, c, u.URL()+"/files/"+id+".mp4")
		return r.status == http.StatusOK && len(r.body) > 1000
	})
	if r := get(t, c, u.URL()+"/stats?keys=0"); r.status != http.StatusOK {
		t.Errorf("the counters: %+v", r)
	}
}
