package task

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

var start = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

func work(kind string) *genbusv1.WorkItem {
	return &genbusv1.WorkItem{
		Id: kind + "_1", Kind: kind, Tenant: "acme", Route: "r", Model: "m", Body: []byte(`{"prompt":"secret"}`),
		Fingerprint: []byte("fp"), RequestId: "req", Labels: map[string]string{"a": "b"}, RetryOf: "old",
		AcceptedAt: timestamppb.New(start), QueueDeadline: timestamppb.New(start.Add(48 * time.Hour)), Protocol: "primary", Stream: kind == "chat",
	}
}

func TestFromWorkLeavesTheBodyOut(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"video", "chat"} {
		e := FromWork(work(kind))
		data, err := proto.Marshal(e.Job)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) == 0 || string(data) == "" || containsBytes(data, "secret") {
			t.Errorf("%s: the first event holds the body", kind)
		}
		if e.Version() != 1 || e.Previous != 0 || e.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_QUEUED || Kind(e.Job) != kind {
			t.Errorf("%s: %v", kind, e.Job)
		}
		if diff := cmp.Diff(FromWork(work(kind)).Job, e.Job, protocmp.Transform()); diff != "" {
			t.Errorf("%s: two writers of the first event differ:\n%s", kind, diff)
		}
	}
}

// TestUnfound checks that an attached job reports its task as unfound only if it ended before any
// poll found the task.
func TestUnfound(t *testing.T) {
	t.Parallel()
	item := work("video")
	item.Attached = &genbusv1.AttachedTask{Upstream: "u", UpstreamTaskId: "up_1", Code: "poisoned"}
	first := FromWork(item).Job
	v, ok := first.(*genbusv1.VideoTask)
	if _, unfound := Unfound(first); unfound || !ok {
		t.Error("a job that has not ended is unfound")
	}
	found, _, err := Observed(v, start, Observation{Started: true})
	if err != nil {
		t.Fatal(err)
	}
	reason := &genbusv1.TaskError{Code: "x"}
	for name, row := range map[string]struct {
		end     func() (Event, error)
		unfound bool
	}{
		"failed":              {func() (Event, error) { return Failed(first, start, reason) }, true},
		"cancelled":           {func() (Event, error) { return Cancelled(first, start, reason) }, true},
		"cancelled when seen": {func() (Event, error) { return Cancelled(found.Job, start, reason) }, false},
		"failed there":        {func() (Event, error) { return FailedUpstream(v, start, Failure{Status: "failed", Err: reason}) }, false},
		"unknown there": {func() (Event, error) {
			return FailedUpstream(v, start, Failure{Unknown: true, Status: "not_found", Err: reason})
		}, true},
		"completed":   {func() (Event, error) { return Completed(v, start, Result{}) }, false},
		"another job": {func() (Event, error) { return Failed(FromWork(work("video")).Job, start, reason) }, false},
	} {
		e, err := row.end()
		if err != nil {
			t.Fatal(err)
		}
		if code, unfound := Unfound(e.Job); unfound != row.unfound || unfound != (code == "poisoned") {
			t.Errorf("%s: %q, %v", name, code, unfound)
		}
	}
}

// TestFromWorkOfAnAttachedTask checks that an attached job starts as submitted, and that clients
// see it as queued.
func TestFromWorkOfAnAttachedTask(t *testing.T) {
	t.Parallel()
	item := work("video")
	item.QueueDeadline = nil
	item.Attached = &genbusv1.AttachedTask{
		Upstream: "u", UpstreamKey: "k", UpstreamTaskId: "up_1", UpstreamTicket: "text2video", Attempt: 2, Code: "poisoned", Named: "up_0",
		Deadline: timestamppb.New(start.Add(time.Hour)),
	}
	e := FromWork(item)
	v, ok := e.Job.(*genbusv1.VideoTask)
	if !ok || v.GetStatus() != genbusv1.JobStatus_JOB_STATUS_QUEUED || v.GetUpstreamTaskId() != "up_1" || e.Version() != 1 {
		t.Fatalf("the first event is %v", e.Job)
	}
	want := &genbusv1.Execution{
		Phase: submitted, Route: "r", Fingerprint: []byte("fp"), Upstream: "u", UpstreamKey: "k", UpstreamTicket: "text2video", Attempt: 2, Unconfirmed: "poisoned", UnconfirmedNamed: "up_0",
		FirstSubmitAt: timestamppb.New(start), Deadline: timestamppb.New(start.Add(time.Hour)),
	}
	if diff := cmp.Diff(want, v.GetExecution(), protocmp.Transform()); diff != "" {
		t.Errorf("execution (-want +got):\n%s", diff)
	}
	if _, err := Submitting(v, start, Submission{Upstream: "u"}); err == nil {
		t.Error("an attached task may be submitted")
	}
	if next, made, err := Observed(v, start, Observation{}); err != nil || !made || next.Job.GetExecution().GetUnconfirmed()+next.Job.GetExecution().GetUnconfirmedNamed() != "" {
		t.Errorf("the first poll that found it: %v, %v", next, err)
	}
	if next, _, err := Observed(v, start, Observation{Started: true}); err != nil || next.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS {
		t.Errorf("the first poll: %v, %v", next.Job, err)
	}
}

func containsBytes(data []byte, s string) bool {
	for i := range len(data) - len(s) + 1 {
		if string(data[i:i+len(s)]) == s {
			return true
		}
	}
	return false
}

// step tries a random transition and reports whether it made an event.
func step(t *rapid.T, job Job, now time.Time) (Event, bool) {
	errOf := &genbusv1.TaskError{Code: "upstream_failed", Message: "m"}
	var e Event
	var err error
	made := true
	which := rapid.SampledFrom([]string{"failed", "cancelled", "1", "2", "3", "4", "5", "6", "7"}).Draw(t, "transition")
	switch j := job.(type) {
	case *genbusv1.VideoTask:
		switch which {
		case "1":
			e, err = Submitting(j, now, Submission{Upstream: "u", Until: now.Add(time.Minute), Deadline: now.Add(time.Hour)})
		case "2":
			e, err = Requeued(j, now, now.Add(time.Second), "429")
		case "3":
			e, err = Submitted(j, now, Receipt{UpstreamID: "up_1", Ticket: "text2video", Status: "NOT_START"})
		case "4":
			o := Observation{Started: rapid.Bool().Draw(t, "started"), Status: rapid.String().Draw(t, "word"), Progress: rapid.IntRange(-5, 200).Draw(t, "progress")}
			e, made, err = Observed(j, now, o)
		case "5":
			e, err = Archiving(j, now, now.Add(time.Minute), "done", nil)
		case "6":
			e, err = Completed(j, now, Result{Videos: []*genbusv1.Video{{Url: "http://x/y.mp4"}}})
		case "7":
			e, err = ResetPoisonCount(j, now)
		}
	case *genbusv1.Chat:
		switch which {
		case "1", "2", "3":
			e, err = Started(j, now, Attempt{Upstream: "u", Deadline: now.Add(time.Hour)})
		case "4":
			e, err = FailedChat(j, now, 3, errOf)
		case "5", "6", "7":
			e, err = Replied(j, now, Reply{JSON: []byte("{}"), Chunks: 7})
		}
	}
	switch which {
	case "failed":
		e, err = Failed(job, now, errOf)
	case "cancelled":
		e, err = Cancelled(job, now, errOf)
	}
	var refused *TransitionError
	if err != nil && !errors.As(err, &refused) {
		t.Fatalf("%s: %v", which, err)
	}
	return e, err == nil && made
}

// TestAnyHistoryKeepsTheRules checks the invariants of random histories of both kinds.
func TestAnyHistoryKeepsTheRules(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"video", "chat"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				last, now := FromWork(work(kind)), start
				for range rapid.IntRange(1, 30).Draw(t, "steps") {
					now = now.Add(time.Duration(rapid.IntRange(1, 60_000).Draw(t, "ms")) * time.Millisecond)
					before := proto.Clone(last.Job)
					e, made := step(t, last.Job, now)
					if !proto.Equal(before, last.Job) {
						t.Fatal("a transition changed the job it started from")
					}
					if !made {
						continue
					}
					checkStep(t, last, e)
					last = e
				}
			})
		})
	}
}

func checkStep(t *rapid.T, last, e Event) {
	was, is := last.Job.GetExecution().GetPhase(), e.Job.GetExecution().GetPhase()
	switch {
	case Terminal(was):
		t.Fatalf("%s follows the terminal %s", is, was)
	case e.Version() != last.Version()+1:
		t.Fatalf("version %d follows %d", e.Version(), last.Version())
	case e.Previous != last.Job.GetStatus():
		t.Fatalf("previous is %s, was %s", e.Previous, last.Job.GetStatus())
	case e.Job.GetStatus() < e.Previous:
		t.Fatalf("status went back from %s to %s", e.Previous, e.Job.GetStatus())
	case e.Job.GetStatus() != Status(is):
		t.Fatalf("status %s in phase %s", e.Job.GetStatus(), is)
	case (e.Job.GetCompletedAt() != nil) != Terminal(is):
		t.Fatalf("completed_at %v in phase %s", e.Job.GetCompletedAt(), is)
	case (e.Job.GetError() != nil) != (is == failed || is == cancelled):
		t.Fatalf("error %v in phase %s", e.Job.GetError(), is)
	case (e.Job.GetExecution().GetSubmitUntil() != nil) != (is == submitting):
		t.Fatalf("submit_until in phase %s", is)
	case !proto.Equal(e.Job.GetCreatedAt(), last.Job.GetCreatedAt()) || string(e.Job.GetExecution().GetFingerprint()) != "fp" || e.Job.GetId() != last.Job.GetId():
		t.Fatal("what never changes changed")
	}
	// Only a submission after one with an unknown outcome binds a task, and permanently.
	if bound := last.Job.GetExecution().GetBound() || was == submitting && is == submitting; e.Job.GetExecution().GetBound() != bound {
		t.Fatalf("bound is %t in phase %s after %s", !bound, is, was)
	}
	if unknown := Terminal(is) && OutcomeUnknown(last.Job); e.Job.GetExecution().GetSubmissionOutcomeUnknown() != unknown {
		t.Fatalf("submission_outcome_unknown is %t in phase %s after %s", !unknown, is, was)
	}
	if v, ok := e.Job.(*genbusv1.VideoTask); ok {
		if w, _ := last.Job.(*genbusv1.VideoTask); v.GetProgress() < w.GetProgress() || w.GetUpstreamTaskId() != "" && v.GetUpstreamTaskId() != w.GetUpstreamTaskId() {
			t.Fatalf("progress or the upstream's id went back: %v after %v", v, w)
		}
	}
}

// TestEndsDuringASubmission checks that ending a task during its submission leaves a dead letter,
// unless the upstream refused it or a dead letter was stored before.
func TestEndsDuringASubmission(t *testing.T) {
	t.Parallel()
	v, _ := FromWork(work("video")).Job.(*genbusv1.VideoTask)
	begun, err := Submitting(v, start, Submission{Upstream: "u", OwnID: OwnID(v), Until: start, Deadline: start})
	if err != nil {
		t.Fatal(err)
	}
	sent, _ := begun.Job.(*genbusv1.VideoTask)
	for name, row := range map[string]struct {
		end     func() (Event, error)
		unknown bool
		leaves  bool
	}{
		"cancelled": {func() (Event, error) { return Cancelled(sent, start, &genbusv1.TaskError{Code: "cancelled"}) }, true, true},
		"expired":   {func() (Event, error) { return Failed(sent, start, &genbusv1.TaskError{Code: "expired"}) }, true, true},
		"kept before": {func() (Event, error) {
			return Failed(sent, start, &genbusv1.TaskError{Code: "submission_outcome_unknown"})
		}, true, false},
		"refused":       {func() (Event, error) { return Refused(sent, start, &genbusv1.TaskError{Code: "upstream_refused"}) }, false, false},
		"not submitted": {func() (Event, error) { return Cancelled(v, start, &genbusv1.TaskError{Code: "cancelled"}) }, false, false},
	} {
		e, err := row.end()
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Job.GetExecution().GetSubmissionOutcomeUnknown(); got != row.unknown || LeavesDeadLetter(e.Job) != row.leaves {
			t.Errorf("%s: unknown %t, leaves a dead letter %t", name, got, LeavesDeadLetter(e.Job))
		}
	}
	if id := OwnID(v); id != "video_1-"+strconv.FormatInt(start.UnixMicro(), 36) || id != sent.GetExecution().GetOwnTaskId() {
		t.Errorf("the own ID is %q", id)
	}
}

func TestObservedEvents(t *testing.T) {
	t.Parallel()
	base := &genbusv1.VideoTask{
		Id: "video_1", Version: 4, Progress: 20, UpstreamStatus: "running", UpdatedAt: timestamppb.New(start),
		Status: genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS, Execution: &genbusv1.Execution{Phase: inProgress},
	}
	for _, row := range []struct {
		name  string
		after time.Duration
		o     Observation
		want  bool
	}{
		{"nothing new", time.Hour, Observation{Started: true, Status: "running", Progress: 20}, false},
		{"a little progress, early", time.Second, Observation{Started: true, Status: "running", Progress: 29}, false},
		{"a little progress, late", 30 * time.Second, Observation{Started: true, Status: "running", Progress: 21}, true},
		{"ten percent", time.Second, Observation{Started: true, Status: "running", Progress: 30}, true},
		{"progress goes back", time.Hour, Observation{Started: true, Status: "running", Progress: 5}, false},
		{"no progress told", time.Hour, Observation{Started: true, Status: "running", Progress: -1}, false},
		{"another word, early", time.Second, Observation{Started: true, Status: "rendering", Progress: 20}, false},
		{"another word, late", time.Minute, Observation{Started: true, Status: "rendering", Progress: 20}, true},
		{"queued again", time.Second, Observation{Started: false, Status: "running", Progress: 20}, false},
	} {
		e, made, err := Observed(base, start.Add(row.after), row.o)
		if err != nil || made != row.want {
			t.Errorf("%s: made %v, %v", row.name, made, err)
		}
		if made && e.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS {
			t.Errorf("%s: status %s", row.name, e.Job.GetStatus())
		}
	}
}

// TestBoundStays checks that a submission after one with an unknown outcome binds the task
// permanently.
func TestBoundStays(t *testing.T) {
	t.Parallel()
	submit := func(v *genbusv1.VideoTask) (Event, error) { return Submitting(v, start, Submission{Upstream: "u"}) }
	refuse := func(v *genbusv1.VideoTask) (Event, error) { return Requeued(v, start, start, "429") }
	accept := func(v *genbusv1.VideoTask) (Event, error) { return Submitted(v, start, Receipt{UpstreamID: "up_1"}) }
	type steps []func(*genbusv1.VideoTask) (Event, error)
	for name, row := range map[string]struct {
		steps steps
		want  bool
	}{
		"refused each time":     {steps{submit, refuse, submit, refuse, submit, accept}, false},
		"submitted again":       {steps{submit, submit}, true},
		"refused after that":    {steps{submit, submit, refuse}, true},
		"submitted after that":  {steps{submit, submit, refuse, submit}, true},
		"accepted in the end":   {steps{submit, submit, refuse, submit, accept}, true},
		"unknown a second time": {steps{submit, submit, refuse, submit, submit, refuse}, true},
	} {
		v, _ := FromWork(work("video")).Job.(*genbusv1.VideoTask)
		for _, step := range row.steps {
			e, err := step(v)
			if err != nil {
				t.Fatal(err)
			}
			v, _ = e.Job.(*genbusv1.VideoTask)
		}
		if v.GetExecution().GetBound() != row.want {
			t.Errorf("%s: bound is %t", name, v.GetExecution().GetBound())
		}
	}
}

func TestAttemptsAreCounted(t *testing.T) {
	t.Parallel()
	c, _ := FromWork(work("chat")).Job.(*genbusv1.Chat)
	for attempt := range uint32(3) {
		e, err := Started(c, start, Attempt{Deadline: start.Add(time.Duration(attempt+1) * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		c, _ = e.Job.(*genbusv1.Chat)
		if c.GetAttempt() != attempt+1 || !c.GetExecution().GetDeadline().AsTime().Equal(start.Add(time.Hour)) {
			t.Errorf("attempt %d, deadline %v", c.GetAttempt(), c.GetExecution().GetDeadline().AsTime())
		}
	}
}

func TestStatusWord(t *testing.T) {
	t.Parallel()
	want := []string{"unknown", "queued", "in_progress", "completed", "failed", "cancelled", "unknown"}
	for status, word := range want {
		if got := StatusWord(genbusv1.JobStatus(status)); got != word {
			t.Errorf("%d: got %s, want %s", status, got, word)
		}
	}
}
