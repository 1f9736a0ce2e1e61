package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// bulk returns the Bulk of the replica, whose Cancel writes to the log.
func (r *replica) bulk() Bulk {
	return Bulk{Jobs: r.Jobs, DeadLetters: r.DeadLetterActions, Cancel: func(ctx context.Context, n subject.JobName, holds func(joblog.Entry) bool) (bool, error) {
		e, err := r.o.Log.Get(ctx, n)
		if err != nil || e.Terminal() || !holds(e) {
			return false, err
		}
		next, err := task.Cancelled(e.Job, time.Now(), errcode.New(errcode.Cancelled, "by an operator").TaskError())
		if err == nil {
			_, err = r.o.Log.Commit(ctx, next, e.Seq)
		}
		return err == nil, err
	}}
}

func (r *replica) must(a Action, err error) Action {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// count makes a dry run and returns its progress.
func (r *replica) count(a Action, err error) *genbusv1.BulkProgress {
	r.t.Helper()
	p, err := r.must(a, err).Run(r.t.Context(), brokertest.Logger(r.t), func(*genbusv1.BulkProgress) error { return nil })
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// do runs an action to its end and returns its progress.
func (r *replica) do(a Action, err error) *genbusv1.BulkProgress {
	r.t.Helper()
	var last *genbusv1.BulkProgress
	p, err := r.must(a, err).Run(r.t.Context(), brokertest.Logger(r.t), func(now *genbusv1.BulkProgress) error {
		last = now
		return nil
	})
	if err != nil || !proto.Equal(p, last) || !p.GetEnded() {
		r.t.Fatalf("%v, told %v: %v", p, last, err)
	}
	return p
}

// half runs an action whose caller leaves after about the given number of steps.
func (r *replica) half(steps int64, a Action, err error) *genbusv1.BulkProgress {
	r.t.Helper()
	ctx, leave := context.WithCancel(r.t.Context())
	defer leave()
	a = r.must(a, err)
	pages := a.steps
	var done atomic.Int64
	a.steps = func(ctx context.Context, existed deadletter.Extent, cursor string) ([]step, string, error) {
		list, next, err := pages(ctx, existed, cursor)
		for i, s := range list {
			list[i].do = func(ctx context.Context) (bool, error) {
				if done.Add(1) == steps {
					leave()
				}
				return s.do(ctx)
			}
		}
		return list, next, err
	}
	p, err := a.Run(ctx, brokertest.Logger(r.t), func(*genbusv1.BulkProgress) error { return nil })
	if !errors.Is(err, context.Canceled) || p.GetEnded() || p.GetDone() < steps || p.GetDone() > steps+parallel {
		r.t.Fatalf("%v, %v", p, err)
	}
	return p
}

// poisoned returns the i-th dead letter, each of a different job.
func poisoned(i int) *genbusv1.DeadLetter {
	return &genbusv1.DeadLetter{
		Kind: "video", Tenant: "acme", Id: subject.JobID(subject.Video, "acme", fmt.Sprint("old", i)), Error: &genbusv1.TaskError{Code: "poisoned"},
		Data: []byte(videoBody), Work: &genbusv1.WorkItem{AcceptedAt: timestamppb.Now(), Model: "sandbox-video", Route: "sandbox-video", Protocol: "primary"},
	}
}

// TestManyDeadLettersAreRedriven checks that each dead letter of the dry run makes one job, even
// over two runs, and later ones make none.
func TestManyDeadLettersAreRedriven(t *testing.T) {
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
		m := &genbusv1.RedriveDeadLettersRequest{Filter: &genbusv1.DeadLetterFilter{Tenant: "acme", Code: "poisoned"}, DryRun: true}
		counted := r.count(r.bulk().RedriveDeadLetters(m))
		if counted.GetTotal() != 130 || !counted.GetTotalExact() || counted.GetDone() != 0 {
			t.Fatalf("%v", counted)
		}
		later := store(t, r, others[2], others[2].GetId())
		m.DryRun, m.Token = false, counted.GetToken()
		a, err := r.bulk().RedriveDeadLetters(m)
		first := r.half(50, a, err)
		if p := r.do(r.bulk().RedriveDeadLetters(m)); p.GetChanged() != 130-first.GetChanged() || p.GetFailed() != 0 || first.GetFailed() != 0 {
			t.Errorf("%v, after %v", p, first)
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
			t.Errorf("%d jobs were made of %d dead letters", len(repeated), len(old))
		}
		left := r.deadLetters(Query{Size: 100})
		if len(left) != 3 || left[2].GetSequence() != later {
			t.Errorf("%d dead letters are left", len(left))
		}
	})
}

// allJobs waits until the index has caught up with the log and returns its jobs.
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

// TestManyDeadLettersAreDropped checks that the dead letters of the dry run are dropped from both
// streams, and later ones stay.
func TestManyDeadLettersAreDropped(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	for i := range 110 {
		l := poisoned(i)
		store(t, r, l, l.GetId())
	}
	refused := nats.NewMsg(r.o.Broker.Names().RejectedDeadLetter(subject.Video, "acme", "1"))
	refused.Data = marshal(t, &genbusv1.DeadLetter{Kind: "video", Tenant: "acme", Error: &genbusv1.TaskError{Code: "invalid_request"}})
	if _, err := r.o.Broker.Publish(t.Context(), refused); err != nil {
		t.Fatal(err)
	}
	m := &genbusv1.DropDeadLettersRequest{DryRun: true}
	counted := r.count(r.bulk().DropDeadLetters(m))
	later := poisoned(300)
	seq := store(t, r, later, later.GetId())
	m = &genbusv1.DropDeadLettersRequest{Token: counted.GetToken(), Everything: true}
	if p := r.do(r.bulk().DropDeadLetters(m)); p.GetChanged() != 111 || p.GetDone() != 111 || counted.GetTotal() != 111 {
		t.Errorf("%v, %v", counted, p)
	}
	if p := r.do(r.bulk().DropDeadLetters(m)); p.GetDone() != 0 {
		t.Errorf("once more: %v", p)
	}
	if left := r.deadLetters(Query{}); len(left) != 1 || left[0].GetSequence() != seq {
		t.Errorf("%v", left)
	}
}

// TestManyJobsAreCancelled checks that all unfinished jobs of the dry run are cancelled, and later
// ones stay.
func TestManyJobsAreCancelled(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		r := newReplica(t, open(t), newSandbox(t))
		for i := range 230 {
			r.admit(subject.Video, fmt.Sprint("v", i), videoBody)
		}
		chat := r.admit(subject.Chat, "c", `{"model":"sandbox-chat","messages":[{"role":"user","content":"hello"}]}`)
		r.allJobs() // so that the count includes all
		m := &genbusv1.CancelJobsRequest{Filter: &genbusv1.ListJobsRequest{Kind: "video", Tenant: "acme"}, DryRun: true}
		counted := r.count(r.bulk().CancelJobs(m))
		if counted.GetTotal() != 230 || !counted.GetTotalExact() {
			t.Fatalf("%v", counted)
		}
		later := r.admit(subject.Video, "later", videoBody)
		m.DryRun, m.Token = false, counted.GetToken()
		if p := r.do(r.bulk().CancelJobs(m)); p.GetDone() != 230 || p.GetChanged() != 230 || p.GetFailed() != 0 {
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

// TestOnlyJobsThatStillMatchAreCancelled checks that a job submitted after its page was listed
// stays, because the upstream may charge for it.
func TestOnlyJobsThatStillMatchAreCancelled(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	left, stays := r.admit(subject.Video, "left", videoBody), r.admit(subject.Video, "stays", videoBody)
	r.allJobs()
	m := &genbusv1.CancelJobsRequest{Filter: &genbusv1.ListJobsRequest{Tenant: "acme", Phase: "queued"}, DryRun: true}
	a := r.must(r.bulk().CancelJobs(m))
	steps, _, err := a.steps(t.Context(), deadletter.Extent{At: time.Now()}, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != 2 || steps[0].jobID != left.Job.GetId() {
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
		if changed, err := steps[i].do(t.Context()); err != nil || changed != want {
			t.Errorf("job %s: %t, %v", steps[i].jobID, changed, err)
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

// TestManyTasksAreAttached checks that each task is attached once and that failures are listed.
func TestManyTasksAreAttached(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	m := &genbusv1.AttachUpstreamTasksRequest{DryRun: true}
	for i := range 130 {
		l := poisoned(i)
		l.Upstream, l.UpstreamTaskId = "sandbox", fmt.Sprint("task", i)
		if i == 3 {
			l.Upstream = ""
		}
		m.Tasks = append(m.Tasks, &genbusv1.LetterTask{Sequence: store(t, r, l, l.GetId())})
	}
	m.Tasks[4].UpstreamTaskId = "another"
	counted := r.count(r.bulk().AttachUpstreamTasks(m))
	m.DryRun, m.Token = false, counted.GetToken()
	p := r.do(r.bulk().AttachUpstreamTasks(m))
	if counted.GetTotal() != 130 || counted.GetFailed() != 0 || p.GetDone() != 130 || p.GetChanged() != 129 || p.GetFailedByCode()["letter_unusable"] != 1 || p.GetFailures()[0].GetLetter() != m.GetTasks()[3].GetSequence() {
		t.Errorf("%v, %v", counted, p)
	}
	tasks := map[string]int{}
	for _, j := range r.allJobs() {
		tasks[j.GetUpstreamTaskId()]++
	}
	if len(tasks) != 129 || tasks["another"] != 1 || tasks["task4"] != 0 {
		t.Errorf("%v", tasks)
	}
	if left := r.deadLetters(Query{}); len(left) != 1 {
		t.Errorf("%v", left)
	}
}

// TestARunStopsWithoutABroker checks that a run stops without a broker and says how to continue,
// and that other failures are counted.
func TestARunStopsWithoutABroker(t *testing.T) {
	t.Parallel()
	fails := func(errs ...error) work {
		return work{
			count: func(_ context.Context, _ deadletter.Extent, p *genbusv1.BulkProgress) error {
				p.Total = int64(len(errs))
				return nil
			},
			steps: func(context.Context, deadletter.Extent, string) (steps []step, next string, err error) {
				for i, err := range errs {
					steps = append(steps, step{deadLetter: uint64(i), do: func(context.Context) (bool, error) { return err == nil, err }})
				}
				return steps, "", nil
			},
		}
	}
	run := func(w work) (*genbusv1.BulkProgress, error) {
		t.Helper()
		hash := [8]byte{1}
		a := Action{work: w, given: bulkToken{existed: deadletter.Extent{At: time.Unix(1, 0)}, request: hash}.String(), request: hash}
		return a.Run(t.Context(), brokertest.Logger(t), func(*genbusv1.BulkProgress) error { return nil })
	}
	away := errcode.New(errcode.BrokerUnavailable, "away")
	if p, err := run(fails(nil, away)); errcode.CodeOf(err) != errcode.BrokerUnavailable || !strings.Contains(err.Error(), "same token") || p.GetEnded() || p.GetFailed() != 0 {
		t.Errorf("%v, %v", p, err)
	}
	p, err := run(fails(nil, errcode.New(errcode.TenantFull, "full"), broker.ErrFull, errors.New("odd")))
	if err != nil || !p.GetEnded() || p.GetDone() != 4 || p.GetChanged() != 1 || p.GetFailed() != 3 || len(p.GetFailures()) != 3 ||
		p.GetFailedByCode()["tenant_full"] != 1 || p.GetFailedByCode()["storage_full"] != 1 || p.GetFailedByCode()["internal"] != 1 {
		t.Errorf("%v, %v", p, err)
	}
	panics := fails()
	panics.steps = func(context.Context, deadletter.Extent, string) ([]step, string, error) {
		return []step{{jobID: "j", do: func(context.Context) (bool, error) { panic("odd") }}}, "", nil
	}
	if p, err := run(panics); err != nil || p.GetFailedByCode()["internal"] != 1 {
		t.Errorf("%v, %v", p, err)
	}
}

// TestTheIndexIsAwaited checks that a run waits for jobs that were accepted just before the dry
// run.
func TestTheIndexIsAwaited(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	made := r.admit(subject.Video, "just before", videoBody)
	m := &genbusv1.CancelJobsRequest{Filter: &genbusv1.ListJobsRequest{Tenant: "acme"}, DryRun: true}
	counted := r.count(r.bulk().CancelJobs(m))
	m.DryRun, m.Token = false, counted.GetToken()
	if p := r.do(r.bulk().CancelJobs(m)); p.GetChanged() != 1 {
		t.Errorf("%v", p)
	}
	if e, err := r.o.Log.Get(t.Context(), made.Name()); err != nil || e.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_CANCELLED {
		t.Errorf("%v, %v", e.Job, err)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, _, err := r.must(r.bulk().CancelJobs(m)).steps(ctx, deadletter.Extent{At: time.Now().Add(time.Hour)}, ""); err == nil {
		t.Error("jobs were listed before the index had them")
	}
}

// newer returns the filter of a newer version, with an unknown field.
func newer() *genbusv1.DeadLetterFilter {
	f := &genbusv1.DeadLetterFilter{Tenant: "acme"}
	f.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 99, protowire.BytesType), "only this route"))
	return f
}

// TestWrongBulkActions checks that invalid requests are rejected before counting.
func TestWrongBulkActions(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	token := r.count(r.bulk().CancelJobs(&genbusv1.CancelJobsRequest{DryRun: true, Filter: &genbusv1.ListJobsRequest{Tenant: "acme"}})).GetToken()
	cancel := func(f *genbusv1.ListJobsRequest) func() (Action, error) {
		return func() (Action, error) {
			return r.bulk().CancelJobs(&genbusv1.CancelJobsRequest{Filter: f, Token: token})
		}
	}
	attach := func(sequences ...uint64) func() (Action, error) {
		m := &genbusv1.AttachUpstreamTasksRequest{DryRun: true}
		for _, seq := range sequences {
			m.Tasks = append(m.Tasks, &genbusv1.LetterTask{Sequence: seq})
		}
		return func() (Action, error) { return r.bulk().AttachUpstreamTasks(m) }
	}
	for field, begin := range map[string]func() (Action, error){
		"everything":    cancel(&genbusv1.ListJobsRequest{Status: "unfinished"}),
		"everything ":   cancel(nil),
		"kind":          cancel(&genbusv1.ListJobsRequest{Kind: "audio"}),
		"filter":        cancel(&genbusv1.ListJobsRequest{Tenant: "acme", PageSize: 5}),
		"filter.status": cancel(&genbusv1.ListJobsRequest{Status: "completed"}),
		"filter ": func() (Action, error) {
			return r.bulk().DropDeadLetters(&genbusv1.DropDeadLettersRequest{Filter: newer(), DryRun: true})
		},
		"token": func() (Action, error) {
			return r.bulk().RedriveDeadLetters(&genbusv1.RedriveDeadLettersRequest{Filter: &genbusv1.DeadLetterFilter{Tenant: "acme"}})
		},
		"tasks":             attach(),
		"tasks[1].sequence": attach(1, 0),
		"tasks[2].sequence": attach(1, 2, 1),
	} {
		_, err := begin()
		if f := errcode.From(err); f == nil || f.Code != errcode.InvalidRequest || f.Violations[0].Field != strings.TrimSpace(field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, other := range []func() (Action, error){
		cancel(&genbusv1.ListJobsRequest{Tenant: "globex"}),
		func() (Action, error) {
			return r.bulk().DropDeadLetters(&genbusv1.DropDeadLettersRequest{Filter: &genbusv1.DeadLetterFilter{Tenant: "acme"}, Token: token})
		},
		func() (Action, error) {
			return r.bulk().CancelJobs(&genbusv1.CancelJobsRequest{Filter: &genbusv1.ListJobsRequest{Tenant: "acme"}, Token: "odd"})
		},
	} {
		a, err := other()
		if _, err = r.must(a, err).Run(t.Context(), brokertest.Logger(t), func(*genbusv1.BulkProgress) error { return nil }); errcode.CodeOf(err) != errcode.InvalidRequest {
			t.Errorf("another request with the token: %v", err)
		}
	}
	if p := r.count(r.bulk().CancelJobs(&genbusv1.CancelJobsRequest{DryRun: true})); p.GetTotal() != 0 {
		t.Errorf("%v", p)
	}
}

// FuzzBulkToken checks that every accepted token survives a round trip.
func FuzzBulkToken(f *testing.F) {
	good := bulkToken{existed: deadletter.Extent{Dead: 3, Rejected: 4, At: time.Unix(5, 6)}, request: [8]byte{7}}.String()
	for _, seed := range []string{"", good, good[1:], good + "A", "====", strings.Repeat("_", 43)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		token, err := parseBulkToken(text)
		switch {
		case err != nil && token != (bulkToken{}):
			t.Fatalf("%v, and a token: %v", err, token)
		case err == nil && token.String() != text:
			t.Fatalf("%q is read back as %q", text, token)
		}
	})
}
