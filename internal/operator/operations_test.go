package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/bulk"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// operations are those of the replica. A job is cancelled as any writer of its log does it.
func (r *replica) operations() Operations {
	return Operations{Jobs: r.Jobs, Letters: r.DeadLetterActions, Cancel: func(ctx context.Context, n subject.TaskName, holds func(joblog.Entry) bool) (genbusv1.JobStatus, error) {
		e, err := r.o.Log.Get(ctx, n)
		if err != nil || e.Terminal() || !holds(e) {
			return e.Job.GetStatus(), err
		}
		next, err := task.Cancelled(e.Job, time.Now(), errcode.New(errcode.Cancelled, "by an operator").TaskError())
		if err == nil {
			e, err = r.o.Log.Commit(ctx, next, e.Seq)
		}
		if err != nil {
			return 0, err
		}
		return e.Job.GetStatus(), nil
	}}
}

// do plans an operation and does it to its end.
func (r *replica) do(op *genbusv1.Operation) *genbusv1.OperationProgress {
	r.t.Helper()
	b := bulk.New(r.t.Context(), bulk.Options{Broker: r.o.Broker, Steps: r.operations().Steps, Self: "test", Logger: brokertest.Logger(r.t)})
	defer b.Close(r.t.Context())
	if _, err := b.Begin(r.t.Context(), op); err != nil {
		r.t.Fatal(err)
	}
	var now *genbusv1.Operation
	await(r.t, "the end of the operation", func() (is bool) {
		var err error
		now, err = b.Get(r.t.Context(), op.GetId())
		return err == nil && now.GetProgress().GetState() == genbusv1.OperationProgress_STATE_DONE
	})
	return now.GetProgress()
}

func (r *replica) plan(m *genbusv1.StartOperationRequest) *genbusv1.Operation {
	r.t.Helper()
	op, err := r.operations().Plan(r.t.Context(), m)
	if err != nil {
		r.t.Fatal(err)
	}
	return op
}

// half does the first half of the first steps of an operation, and stores nothing of it, as a
// replica that is killed.
func (r *replica) half(op *genbusv1.Operation) {
	r.t.Helper()
	steps, next, err := r.operations().Steps(r.t.Context(), op, "")
	if err != nil || len(steps) != maxPage || next == "" {
		r.t.Fatalf("%d steps, %q, %v", len(steps), next, err)
	}
	var all sync.WaitGroup
	for _, s := range steps[:maxPage/2] {
		all.Go(func() {
			if changed, err := s.Do(r.t.Context()); err != nil || !changed {
				r.t.Errorf("letter %d: %t, %v", s.Letter, changed, err)
			}
		})
	}
	all.Wait()
}

// poisoned is the letter of a job of its own.
func poisoned(i int) *genbusv1.DeadLetter {
	return &genbusv1.DeadLetter{
		Kind: "video", Tenant: "acme", Id: subject.JobID(subject.Video, "acme", fmt.Sprint("old", i)), Error: &genbusv1.TaskError{Code: "poisoned"},
		Data: []byte(videoBody), Work: &genbusv1.WorkItem{AcceptedAt: timestamppb.Now(), Model: "sandbox-video", Route: "sandbox-video", Protocol: "primary"},
	}
}

// TestManyLettersAreRedriven: each of those that there were becomes one job, wherever a replica
// was killed, and none that came later.
func TestManyLettersAreRedriven(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		r := newReplica(t, open(t), newSandbox(t))
		var old []string
		for i := range 130 {
			l := poisoned(i)
			store(t, r, l, l.GetId())
			old = append(old, l.GetId())
		}
		others := []*genbusv1.DeadLetter{poisoned(200), poisoned(201), poisoned(202)}
		others[0].Tenant, others[1].Error.Code = "globex", "log_lost"
		for _, l := range others[:2] {
			store(t, r, l, l.GetId())
		}
		spec := &genbusv1.OperationSpec{Work: &genbusv1.OperationSpec_RedriveDeadLetters{
			RedriveDeadLetters: &genbusv1.RedriveDeadLetters{Filter: &genbusv1.DeadLetterFilter{Tenant: "acme", Code: "poisoned"}},
		}}
		op := r.plan(&genbusv1.StartOperationRequest{Id: "a", Spec: spec})
		if op.GetTotal() != 130 || !op.GetTotalExact() {
			t.Fatalf("%v", op)
		}
		later := store(t, r, others[2], others[2].GetId())
		r.half(op)
		if p := r.do(op); p.GetDone() != 80 || p.GetChanged() != 80 || p.GetFailed() != 0 {
			t.Errorf("%v", p)
		}
		var repeated []string
		for _, j := range r.allJobs() {
			e, err := r.o.Log.Get(t.Context(), videoName(j.GetId()))
			if err != nil {
				t.Fatal(err)
			}
			repeated = append(repeated, videoOf(e).GetRetryOf())
		}
		slices.Sort(repeated)
		slices.Sort(old)
		if !slices.Equal(repeated, old) {
			t.Errorf("%d jobs were made of %d letters", len(repeated), len(old))
		}
		left := r.letters(Query{Size: 100})
		if len(left) != 3 || left[2].GetSequence() != later {
			t.Errorf("%d letters are left", len(left))
		}
	})
}

// allJobs are all that the index has, when it has all that the log has.
func (r *replica) allJobs() (out []*genbusv1.JobSummary) {
	r.t.Helper()
	from := time.Now()
	await(r.t, "the index", func() bool {
		page, err := r.Search(r.t.Context(), &genbusv1.ListJobsRequest{})
		return err == nil && page.GetAsOf().AsTime().After(from)
	})
	m := &genbusv1.ListJobsRequest{PageSize: 100}
	for {
		page, err := r.Search(r.t.Context(), m)
		if err != nil {
			r.t.Fatal(err)
		}
		out = append(out, page.GetJobs()...)
		if m.PageToken = page.GetNextPageToken(); m.GetPageToken() == "" {
			return out
		}
	}
}

// TestManyLettersAreDropped, of both streams, and none of those that came later.
func TestManyLettersAreDropped(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	for i := range 110 {
		l := poisoned(i)
		store(t, r, l, l.GetId())
	}
	refused := nats.NewMsg(r.o.Broker.Names().RejectedLetter(subject.Video, "acme", "1"))
	refused.Data = marshal(t, &genbusv1.DeadLetter{Kind: "video", Tenant: "acme", Error: &genbusv1.TaskError{Code: "invalid_request"}})
	if _, err := r.o.Broker.Publish(t.Context(), refused); err != nil {
		t.Fatal(err)
	}
	op := r.plan(&genbusv1.StartOperationRequest{Id: "a", Everything: true, Spec: &genbusv1.OperationSpec{
		Work: &genbusv1.OperationSpec_DropDeadLetters{DropDeadLetters: &genbusv1.DropDeadLetters{}},
	}})
	later := poisoned(300)
	seq := store(t, r, later, later.GetId())
	r.half(op)
	if p := r.do(op); p.GetChanged() != 61 || op.GetTotal() != 111 {
		t.Errorf("%v, %v", op, p)
	}
	if left := r.letters(Query{}); len(left) != 1 || left[0].GetSequence() != seq {
		t.Errorf("%v", left)
	}
}

// TestManyJobsAreCancelled: each that had not ended, although it leaves the filter, and none that
// came later.
func TestManyJobsAreCancelled(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		r := newReplica(t, open(t), newSandbox(t))
		for i := range 230 {
			r.admit(subject.Video, fmt.Sprint("v", i), videoBody)
		}
		chat := r.admit(subject.Chat, "c", `{"model":"sandbox-chat","messages":[{"role":"user","content":"hello"}]}`)
		r.allJobs() // the count has them all
		op := r.plan(&genbusv1.StartOperationRequest{Id: "a", Spec: &genbusv1.OperationSpec{
			Work: &genbusv1.OperationSpec_CancelJobs{CancelJobs: &genbusv1.CancelJobs{Filter: &genbusv1.ListJobsRequest{Kind: "video", Tenant: "acme"}}},
		}})
		if op.GetTotal() != 230 || !op.GetTotalExact() {
			t.Fatalf("%v", op)
		}
		later := r.admit(subject.Video, "later", videoBody)
		if p := r.do(op); p.GetDone() != 230 || p.GetChanged() != 230 || p.GetFailed() != 0 {
			t.Errorf("%v", p)
		}
		for _, j := range r.allJobs() {
			spared := j.GetId() == chat.Job.GetId() || j.GetId() == later.Job.GetId()
			if cancelled := j.GetStatus() == genbusv1.JobStatus_JOB_STATUS_CANCELLED; cancelled == spared {
				t.Errorf("%v", j)
			}
		}
	})
}

// TestOnlyJobsThatStillMatchAreCancelled: one is submitted after its page was listed. The upstream
// may charge for it, and it is queued no more.
func TestOnlyJobsThatStillMatchAreCancelled(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	left, stays := r.admit(subject.Video, "left", videoBody), r.admit(subject.Video, "stays", videoBody)
	r.allJobs()
	op := r.plan(&genbusv1.StartOperationRequest{Id: "a", Spec: &genbusv1.OperationSpec{
		Work: &genbusv1.OperationSpec_CancelJobs{CancelJobs: &genbusv1.CancelJobs{Filter: &genbusv1.ListJobsRequest{Tenant: "acme", Phase: "queued"}}},
	}})
	ahead := proto.CloneOf(op)
	ahead.AsOf = timestamppb.New(time.Now().Add(time.Hour))
	steps, _, err := r.operations().Steps(t.Context(), ahead, "")
	if errcode.CodeOf(err) != errcode.IndexCatchingUp {
		t.Errorf("%d steps before the index has what was accepted just before: %v", len(steps), err)
	}
	await(t, "the index", func() bool {
		steps, _, err = r.operations().Steps(t.Context(), op, "")
		return err == nil
	})
	if len(steps) != 2 || steps[0].JobID != left.Job.GetId() {
		t.Fatalf("%v", steps)
	}
	next, err := task.Submitting(videoOf(left), time.Now(), task.Submission{Upstream: "sandbox", Until: time.Now().Add(time.Minute), Deadline: time.Now().Add(time.Hour)})
	if err == nil {
		left, err = r.o.Log.Commit(t.Context(), next, left.Seq)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true} {
		if changed, err := steps[i].Do(t.Context()); err != nil || changed != want {
			t.Errorf("job %s: %t, %v", steps[i].JobID, changed, err)
		}
	}
	for e, want := range map[*joblog.Entry]genbusv1.JobPhase{&left: genbusv1.JobPhase_JOB_PHASE_SUBMITTING, &stays: genbusv1.JobPhase_JOB_PHASE_CANCELLED} {
		if now, err := r.o.Log.Get(t.Context(), e.Name()); err != nil || now.Job.GetExecution().GetPhase() != want {
			t.Errorf("%v, %v", now.Job, err)
		}
	}
}

func TestStillMatches(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	e := joblog.Entry{Event: task.Event{Job: &genbusv1.VideoTask{
		Status: genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS, UpdatedAt: timestamppb.New(at), Error: &genbusv1.TaskError{Code: "rate_limited"},
		Execution: &genbusv1.Execution{Phase: genbusv1.JobPhase_JOB_PHASE_SUBMITTED, Route: "film", Upstream: "main", UpstreamKey: "first"},
	}}}
	for _, c := range []struct {
		want bool
		f    *genbusv1.ListJobsRequest
	}{
		{true, &genbusv1.ListJobsRequest{}},
		{true, &genbusv1.ListJobsRequest{
			Status: "in_progress", Phase: "submitted", Route: "film", Upstream: "main", UpstreamKey: "first", ErrorCode: "rate_limited",
			UpdatedAfter: timestamppb.New(at), UpdatedBefore: timestamppb.New(at.Add(1)),
		}},
		{true, &genbusv1.ListJobsRequest{Status: "unfinished"}},
		{false, &genbusv1.ListJobsRequest{Status: "queued"}},
		{false, &genbusv1.ListJobsRequest{Phase: "queued"}},
		{false, &genbusv1.ListJobsRequest{Route: "wan"}},
		{false, &genbusv1.ListJobsRequest{Upstream: "other"}},
		{false, &genbusv1.ListJobsRequest{UpstreamKey: "second"}},
		{false, &genbusv1.ListJobsRequest{ErrorCode: "poisoned"}},
		{false, &genbusv1.ListJobsRequest{UpdatedAfter: timestamppb.New(at.Add(1))}},
		{false, &genbusv1.ListJobsRequest{UpdatedBefore: timestamppb.New(at)}},
	} {
		if got := stillMatches(c.f, e); got != c.want {
			t.Errorf("%v: %t", c.f, got)
		}
	}
}

// TestManyTasksAreAttached, each once, and those that cannot be are named.
func TestManyTasksAreAttached(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	attach := &genbusv1.AttachUpstreamTasks{}
	for i := range 130 {
		l := poisoned(i)
		l.Upstream, l.UpstreamTaskId = "sandbox", fmt.Sprint("task", i)
		if i == 3 {
			l.Upstream = ""
		}
		attach.Tasks = append(attach.Tasks, &genbusv1.LetterTask{Sequence: store(t, r, l, l.GetId())})
	}
	attach.Tasks[4].UpstreamTaskId = "another"
	op := r.plan(&genbusv1.StartOperationRequest{Id: "a", Spec: &genbusv1.OperationSpec{Work: &genbusv1.OperationSpec_AttachUpstreamTasks{AttachUpstreamTasks: attach}}})
	p := r.do(op)
	if op.GetTotal() != 130 || p.GetDone() != 130 || p.GetChanged() != 129 || p.GetFailedByCode()["letter_unusable"] != 1 || p.GetFailures()[0].GetLetter() != attach.GetTasks()[3].GetSequence() {
		t.Errorf("%v, %v", op, p)
	}
	tasks := map[string]int{}
	for _, j := range r.allJobs() {
		tasks[j.GetUpstreamTaskId()]++
	}
	if len(tasks) != 129 || tasks["another"] != 1 || tasks["task4"] != 0 {
		t.Errorf("%v", tasks)
	}
	if left := r.letters(Query{}); len(left) != 1 {
		t.Errorf("%v", left)
	}
}

// newer is what an operation of a newer version does: it knows one more field of the filter.
func newer() *genbusv1.OperationSpec {
	f := &genbusv1.DeadLetterFilter{Tenant: "acme"}
	f.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 99, protowire.BytesType), "only this route"))
	return &genbusv1.OperationSpec{Work: &genbusv1.OperationSpec_DropDeadLetters{DropDeadLetters: &genbusv1.DropDeadLetters{Filter: f}}}
}

// TestWrongOperations are refused before anything is counted.
func TestWrongOperations(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	cancel := func(f *genbusv1.ListJobsRequest) *genbusv1.OperationSpec {
		return &genbusv1.OperationSpec{Work: &genbusv1.OperationSpec_CancelJobs{CancelJobs: &genbusv1.CancelJobs{Filter: f}}}
	}
	attach := func(sequences ...uint64) *genbusv1.OperationSpec {
		m := &genbusv1.AttachUpstreamTasks{}
		for _, seq := range sequences {
			m.Tasks = append(m.Tasks, &genbusv1.LetterTask{Sequence: seq})
		}
		return &genbusv1.OperationSpec{Work: &genbusv1.OperationSpec_AttachUpstreamTasks{AttachUpstreamTasks: m}}
	}
	for field, m := range map[string]*genbusv1.StartOperationRequest{
		"spec":       {},
		"id":         {Id: "no token.>", Spec: attach(1)},
		"as_of":      {AsOf: timestamppb.New(time.Now().Add(time.Hour)), Spec: attach(1)},
		"everything": {Spec: cancel(&genbusv1.ListJobsRequest{Status: "unfinished"})},
		"kind":       {Spec: cancel(&genbusv1.ListJobsRequest{Kind: "audio"})},
		"spec ":      {Spec: cancel(&genbusv1.ListJobsRequest{Tenant: strings.Repeat("a", maxSpec)})},
		"spec  ":     {Spec: newer()},

		"spec.cancel_jobs.filter":                      {Spec: cancel(&genbusv1.ListJobsRequest{Tenant: "acme", PageSize: 5})},
		"spec.cancel_jobs.filter.status":               {Spec: cancel(&genbusv1.ListJobsRequest{Status: "completed"})},
		"spec.attach_upstream_tasks.tasks":             {Spec: attach()},
		"spec.attach_upstream_tasks.tasks[1].sequence": {Spec: attach(1, 0)},
		"spec.attach_upstream_tasks.tasks[2].sequence": {Spec: attach(1, 2, 1)},
	} {
		_, err := r.operations().Plan(t.Context(), m)
		if f := errcode.From(err); f == nil || f.Code != errcode.InvalidRequest || f.Violations[0].Field != strings.TrimSpace(field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if op := r.plan(&genbusv1.StartOperationRequest{CountOnly: true, Spec: cancel(nil)}); op.GetTotal() != 0 || op.GetId() != "" {
		t.Errorf("%v", op)
	}
}
