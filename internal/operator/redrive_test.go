package operator

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// together calls f concurrently and counts the ids of the jobs and the codes of the errors.
func together(n int, f func(i int) (joblog.Entry, error)) (ids, codes map[string]int) {
	ids, codes = map[string]int{}, map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			e, err := f(i)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				codes[string(errcode.CodeOf(err))]++
				return
			}
			ids[e.Job.GetId()]++
		})
	}
	wg.Wait()
	return ids, codes
}

// TestRedriveMakesOneJob checks that concurrent calls on two replicas make one job of a dead
// letter, which is submitted once and keeps the request's properties.
func TestRedriveMakesOneJob(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up := newSandbox(t)
		one, two := newReplica(t, open(t), up).start(), newReplica(t, open(t), up)
		l := one.unknownDeadLetter(up, "r", videoBody)
		before := up.Sandbox.Stats().Creates
		ids, codes := together(8, func(i int) (joblog.Entry, error) {
			return []*replica{one, two}[i%2].Redrive(t.Context(), l.GetSequence())
		})
		if len(ids) != 1 || len(codes) > 1 || codes[string(errcode.DeadLetterNotFound)]+ids[first(ids)] != 8 {
			t.Fatalf("jobs %v, errors %v", ids, codes)
		}
		end := one.end(videoName(first(ids)))
		v := videoOf(end)
		if v.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || v.GetRetryOf() != l.GetLetter().GetId() || v.GetLabels()["team"] != "a" || v.GetProtocol() != "primary" {
			t.Errorf("the new job is %v", v)
		}
		if creates := up.Sandbox.Stats().Creates - before; creates != 1 || up.Sandbox.Stats().CreatesPerKey[v.GetId()] != 1 {
			t.Errorf("%d creates", creates)
		}
		one.isRemoved(l.GetSequence())
	})
}

// TestARedrivenRequestIsKept proves that a redrive during an outage does not lose the request.
func TestARedrivenRequestIsKept(t *testing.T) {
	t.Parallel()
	up := newSandbox(t)
	r := newReplica(t, brokertest.Single(t), up).start()
	l := r.unknownDeadLetter(up, "r", videoBody)
	up.Sandbox.SetBehaviour(func(*http.Request, []byte) *sandbox.Behaviour {
		return &sandbox.Behaviour{Status: http.StatusUnauthorized}
	})
	e, err := r.Redrive(t.Context(), l.GetSequence())
	if err != nil {
		t.Fatal(err)
	}
	if end := r.end(e.Name()); end.Job.GetError().GetCode() != string(errcode.UpstreamKeyRefused) {
		t.Fatalf("redriven: %v", end.Job)
	}
	r.isRemoved(l.GetSequence())
	up.Sandbox.SetBehaviour(nil)
	r.letGo(e.Name())
	again, err := r.retry(e.Name(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if end := r.end(again.Name()); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		t.Errorf("retried: %v", end.Job)
	}
}

// TestAJobThatGoesOnIsNotRedriven checks that a dead letter is not redriven while its job continues
// on another replica, nor after it completed.
func TestAJobThatGoesOnIsNotRedriven(t *testing.T) {
	t.Parallel()
	up := newSandbox(t)
	r := newReplica(t, brokertest.Single(t), up)
	e := r.admit(subject.Video, "r", videoBody)
	items, err := r.o.Queue.Items.All(t.Context(), e.Name())
	if err != nil || len(items) != 1 {
		t.Fatal(items, err)
	}
	item, err := items[0].Decode()
	if err != nil {
		t.Fatal(err)
	}
	dead := deadletter.Store{Broker: r.o.Broker, Bodies: r.o.Bodies, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(t)}
	if err := dead.PutJob(t.Context(), item, e.Job, errcode.New(errcode.UpstreamRemoved, "its route is gone")); err != nil {
		t.Fatal(err)
	}
	l := r.deadLetterOf(e.Job.GetId())
	r.until(e.Name(), genbusv1.JobPhase_JOB_PHASE_QUEUED)
	if _, err := r.Redrive(t.Context(), l.GetSequence()); errcode.CodeOf(err) != errcode.NotTerminal {
		t.Errorf("redriven before its end: %v", err)
	}
	r.start()
	r.end(e.Name())
	creates := up.Sandbox.Stats().Creates
	if _, err := r.Redrive(t.Context(), l.GetSequence()); errcode.CodeOf(err) != errcode.DeadLetterResolved || errcode.From(err).JobID != e.Job.GetId() {
		t.Errorf("redriven: %v", err)
	}
	if n := up.Sandbox.Stats().Creates; n != creates {
		t.Errorf("%d creates more", n-creates)
	}
}

func first(ids map[string]int) string {
	for id := range ids {
		return id
	}
	return ""
}

// crashes simulates the points at which a redrive or an attachment may be cut off.
var crashes = map[string]func(t *testing.T, r *replica, e joblog.Entry){
	"before the dead letter was removed": func(*testing.T, *replica, joblog.Entry) {},
	"before the first event": func(t *testing.T, r *replica, e joblog.Entry) {
		s, err := r.o.Broker.JetStream().Stream(t.Context(), r.o.Broker.Names().Tasks())
		if err == nil {
			err = s.Purge(t.Context(), jetstream.WithPurgeSubject(r.o.Broker.Names().Task(subject.Video, "acme", e.Job.GetId())))
		}
		if err != nil {
			t.Fatal(err)
		}
	},
}

// TestRedriveAfterACrash checks that after a crash at any point a second call continues the same
// job.
func TestRedriveAfterACrash(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		for name, crash := range crashes {
			up := newSandbox(t)
			one := newReplica(t, open(t), up).start()
			l := one.unknownDeadLetter(up, name, videoBody)
			one.stop()
			before := up.Sandbox.Stats().Creates
			e := one.redriveWithoutRemoval(l.GetSequence())
			crash(t, one, e)

			two := newReplica(t, open(t), up)
			again, err := two.Redrive(t.Context(), l.GetSequence())
			if err != nil || again.Job.GetId() != e.Job.GetId() {
				t.Fatalf("%s: %v, %v", name, again.Job, err)
			}
			two.start()
			if end := two.end(e.Name()); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
				t.Errorf("%s: ended %v", name, end.Job.GetError())
			}
			if creates := up.Sandbox.Stats().Creates - before; creates != 1 {
				t.Errorf("%s: %d creates", name, creates)
			}
			two.isRemoved(l.GetSequence())
			two.stop()
		}
	})
}

// redriveWithoutRemoval redrives like an operator whose replica crashes after the acceptance.
func (r *replica) redriveWithoutRemoval(seq uint64) joblog.Entry {
	r.t.Helper()
	l, err := r.deadLetter(r.t.Context(), seq)
	if err != nil {
		r.t.Fatal(err)
	}
	request, release, err := r.requestOf(r.t.Context(), l)
	defer release()
	if err != nil {
		r.t.Fatal(err)
	}
	return r.accept(l, request.Request)
}

func (r *replica) accept(l deadLetter, request admission.Request) joblog.Entry {
	r.t.Helper()
	source := l.source()
	request.Source, request.RequestID = &source, ""
	e, err := r.o.Admission.Admit(r.t.Context(), request)
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

func withRoute(model string) func(*config.Config) {
	return func(c *config.Config) {
		r := config.NewRoute(model, config.KindVideo, config.SandboxUpstream, model)
		r.UpstreamModel, r.Poll.Interval = "sandbox-video", 50*time.Millisecond
		c.Routes = append(c.Routes, r)
	}
}

// TestRedriveOfAMessage checks that a rejected inbox message is admitted once a route serves it,
// without its request id.
func TestRedriveOfAMessage(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, up).start()
	const body = `{"model":"later","prompt":"a dog"}`
	for name, m := range map[string]*nats.Msg{
		"JSON with headers": {
			Data:   []byte(body),
			Header: nats.Header{"content-type": {"application/json"}, "genbus-labels": {"x=y"}, "genbus-request-id": {"spent"}},
		},
		"Protobuf": {Data: marshal(t, &genbusv1.VideoRequest{
			Labels: map[string]string{"x": "y"}, Body: &genbusv1.VideoRequest_RawJson{RawJson: []byte(body)}, ExpiresAt: timestamppb.New(time.Unix(1, 0)),
		})},
	} {
		m.Subject = b.Names().Request(subject.Video, "acme")
		r.request(m)
		await(t, name, func() bool { return len(r.deadLetters(Query{})) == 1 })
		l := r.deadLetters(Query{})[0]
		if l.GetLetter().GetWork() != nil {
			t.Errorf("%s: the dead letter has a work item: %v", name, l.GetLetter().GetWork())
		}
		if e, err := r.Redrive(t.Context(), l.GetSequence()); errcode.CodeOf(err) != errcode.ModelNotFound {
			t.Fatalf("%s: without a route: %v, %v", name, e.Job, err)
		}
		later := newReplica(t, b, up, withRoute("later")).start()
		e, err := later.Redrive(t.Context(), l.GetSequence())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if e.Job.GetLabels()["x"] != "y" || e.Job.GetRequestId() != "" || videoOf(e).GetRetryOf() != l.GetLetter().GetId() {
			t.Errorf("%s: the new job is %v", name, e.Job)
		}
		if end := later.end(e.Name()); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
			t.Errorf("%s: ended %v", name, end.Job.GetError())
		}
		later.stop()
		r.isRemoved(l.GetSequence())
	}
}

func store(t *testing.T, r *replica, l *genbusv1.DeadLetter, token string) uint64 {
	t.Helper()
	m := nats.NewMsg(r.o.Broker.Names().DeadLetter(subject.Kind(l.GetKind()), l.GetTenant(), token))
	m.Data = marshal(t, l)
	ack, err := r.o.Broker.Publish(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return ack.Seq
}

// TestRedriveIsRefused checks which dead letters Redrive rejects.
func TestRedriveIsRefused(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, up)
	for name, row := range map[string]struct {
		change func(*genbusv1.DeadLetter)
		code   errcode.Code
	}{
		"no work item": {func(l *genbusv1.DeadLetter) { l.Work = nil }, errcode.DeadLetterUnusable},
		"no request":   {func(l *genbusv1.DeadLetter) { l.Data = nil }, errcode.DeadLetterUnusable},
		"request lost": {func(l *genbusv1.DeadLetter) { l.Data, l.DataRef = nil, lostBody }, errcode.InputLost},
	} {
		l := poisoned(1)
		row.change(l)
		seq := store(t, r, l, l.GetId())
		if _, err := r.Redrive(t.Context(), seq); errcode.CodeOf(err) != row.code {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := r.DeadLetter(t.Context(), seq); err != nil {
			t.Errorf("%s: a dead letter that could not be redriven is gone: %v", name, err)
		}
	}
	if _, err := r.Redrive(t.Context(), 1<<40); errcode.CodeOf(err) != errcode.DeadLetterNotFound {
		t.Errorf("a dead letter that never was: %v", err)
	}
}

// TestRemovalThatFails checks that the error names the accepted job if the dead letter cannot be
// removed, and that the next call continues it.
func TestRemovalThatFails(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, up)
	seq := store(t, r, poisoned(1), poisoned(1).GetId())
	s, err := b.JetStream().Stream(t.Context(), b.Names().Dead())
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.DenyDelete = true
	if _, err := b.JetStream().UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for range 2 {
		_, err = r.Redrive(t.Context(), seq)
		var f *errcode.Error
		if !errors.As(err, &f) || f.Code != errcode.BrokerUnavailable || f.JobID == "" {
			t.Fatalf("got %v", err)
		}
		ids = append(ids, f.JobID)
	}
	if ids[0] != ids[1] {
		t.Errorf("two jobs: %v", ids)
	}
}

// TestADeadLetterThatComesBackMakesNoSecondJob checks that a dead letter rewritten after it was
// resolved makes no second job, and that each additional upstream task makes another one.
func TestADeadLetterThatComesBackMakesNoSecondJob(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	deadLetterOf := func(code errcode.Code, task string) *genbusv1.DeadLetter {
		id := subject.JobID(subject.Video, "acme", "x")
		return &genbusv1.DeadLetter{
			Id: id, Kind: "video", Tenant: "acme", Data: []byte(videoBody), Error: &genbusv1.TaskError{Code: string(code)},
			Upstream: config.SandboxUpstream, UpstreamTaskId: task,
			Work: &genbusv1.WorkItem{Id: id, Kind: "video", Tenant: "acme", Route: config.SandboxVideoRoute, Protocol: "primary", AcceptedAt: timestamppb.New(time.Unix(1e9, 0))},
		}
	}
	made := map[string]string{}
	for _, c := range []struct {
		code      errcode.Code
		task, job string
	}{
		{errcode.SubmissionUnknown, "", "the job's own"},
		{errcode.SubmissionUnknown, "", "the job's own"},
		{errcode.Poisoned, "", "the job's own"},
		{errcode.OrphanedSubmission, "one", "of one"},
		{errcode.OrphanedSubmission, "another", "of another"},
		{errcode.OrphanedSubmission, "one", "of one"},
	} {
		seq := store(t, r, deadLetterOf(c.code, c.task), subject.JobID(subject.Video, "acme", "x"))
		e, err := r.Redrive(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		if was := made[c.job]; was != "" && was != e.Job.GetId() {
			t.Errorf("%s %q made %s, and then %s", c.code, c.task, was, e.Job.GetId())
		}
		made[c.job] = e.Job.GetId()
		r.isRemoved(seq)
	}
	if made["of one"] == made["of another"] || made["of one"] == made["the job's own"] {
		t.Errorf("the jobs are %v", made)
	}
}
