package operator

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

func keepRequests(c *config.Config) {
	c.OperatorsReadBodies = true
	for i := range c.Routes {
		c.Routes[i].KeepRequests = true
	}
}

func readBodies(c *config.Config) { c.OperatorsReadBodies = true }

// failing is a request whose task fails at the upstream.
const failing = `{"model":"sandbox-video:statuses=in_progress|failed","prompt":"a cat"}`

// retry retries a job in its state in the log.
func (r *replica) retry(n subject.JobName, edited, key string) (joblog.Entry, error) {
	r.t.Helper()
	e, err := r.o.Log.Get(r.t.Context(), n)
	if err != nil {
		return joblog.Entry{}, err
	}
	return r.requests.Retry(r.t.Context(), e, &genbusv1.RetryJobRequest{RequestJson: []byte(edited), IdempotencyKey: key})
}

// letGo waits until no replica holds an ended job. A retry waits for that only briefly.
func (r *replica) letGo(n subject.JobName) {
	r.t.Helper()
	if err := r.o.Queue.Items.AwaitRemoved(r.t.Context(), n, patience); err != nil {
		r.t.Fatal(err)
	}
}

func (r *replica) read(n subject.JobName) *genbusv1.GetJobBodiesResponse {
	r.t.Helper()
	e, err := r.o.Log.Get(r.t.Context(), n)
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := r.requests.Read(r.t.Context(), e)
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

// removeItem cancels a job and removes it from the queue.
func (r *replica) removeItem(e joblog.Entry) {
	r.t.Helper()
	r.cancel(e)
	end, err := r.o.Log.Get(r.t.Context(), e.Name())
	if err == nil {
		err = r.o.Queue.RemoveEnded(r.t.Context(), end)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestRetryMakesOneJobOfAKey checks that concurrent calls with one key make one job, which is
// submitted once and keeps the old job's properties, and that another key makes another job.
func TestRetryMakesOneJobOfAKey(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up := newSandbox(t)
		one, two := newReplica(t, open(t), up, keepRequests).start(), newReplica(t, open(t), up, keepRequests)
		old := one.admit(subject.Video, "r", failing)
		if end := one.end(old.Name()); end.Job.GetError().GetCode() != string(errcode.UpstreamFailed) {
			t.Fatalf("ended %v", end.Job)
		}
		one.letGo(old.Name())
		before := up.Sandbox.Stats().Creates
		ids, codes := together(8, func(i int) (joblog.Entry, error) {
			return []*replica{one, two}[i%2].retry(old.Name(), "", "")
		})
		if len(ids) != 1 || len(codes) != 0 || ids[old.Job.GetId()] != 0 {
			t.Fatalf("jobs %v, errors %v", ids, codes)
		}
		v := videoOf(one.end(videoName(first(ids))))
		if v.GetRetryOf() != old.Job.GetId() || v.GetLabels()["team"] != "a" || v.GetProtocol() != "primary" || v.GetRequestId() != "" || v.GetModel() != old.Job.GetModel() {
			t.Errorf("the new job is %v", v)
		}
		if creates := up.Sandbox.Stats().Creates - before; creates != 1 {
			t.Errorf("%d creates", creates)
		}
		if m := one.read(videoName(v.GetId())); string(m.GetRequestJson()) != failing || m.GetRequestFrom() != fromKept {
			t.Errorf("kept is %v", m)
		}

		edited, err := one.retry(old.Name(), videoBody, "second")
		if err != nil || edited.Job.GetId() == v.GetId() {
			t.Fatalf("another key: %v, %v", edited.Job, err)
		}
		if end := one.end(edited.Name()); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
			t.Errorf("the edited one ended %v", end.Job.GetError())
		}
		if m := one.read(edited.Name()); string(m.GetRequestJson()) != videoBody || m.GetRequestFrom() != fromKept {
			t.Errorf("kept is %v", m)
		}
		if _, err := two.retry(old.Name(), videoBody, ""); errcode.CodeOf(err) != errcode.IdempotencyKeyReused || errcode.From(err).JobID != v.GetId() {
			t.Errorf("a key with another request: %v", err)
		}
		ended, err := one.o.Log.Get(t.Context(), old.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []*replica{one, two} {
			await(t, "the old job names both", func() bool {
				m, err := r.Describe(t.Context(), ended)
				return err == nil && slices.Equal(m.GetReplacedBy(), []string{v.GetId(), edited.Job.GetId()})
			})
		}
		// The calls may have left copies of the request. An erasure removes all of them.
		for _, n := range []subject.JobName{videoName(v.GetId()), edited.Name()} {
			one.letGo(n)
			if err := one.Erase(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			one.nothingIsLeft(n)
		}
		if m, err := one.Describe(t.Context(), ended); err != nil || m.GetReplacedBy() != nil {
			t.Errorf("after the erasure, the old job names %v, %v", m.GetReplacedBy(), err)
		}
	})
}

// TestRetryIsRefused checks that a retry is refused if both jobs could be charged, or its request
// is invalid or missing.
func TestRetryIsRefused(t *testing.T) {
	t.Parallel()
	up := newSandbox(t)
	r := newReplica(t, brokertest.Single(t), up, readBodies)
	waits := r.admit(subject.Video, "w", videoBody)
	if _, err := r.retry(waits.Name(), "", ""); errcode.CodeOf(err) != errcode.NotTerminal {
		t.Errorf("a job that waits: %v", err)
	}
	if m := r.read(waits.Name()); string(m.GetRequestJson()) != videoBody || m.GetRequestFrom() != fromWorkItem {
		t.Errorf("of a job that waits: %v", m)
	}
	r.removeItem(waits)
	if _, err := r.retry(waits.Name(), "", ""); errcode.CodeOf(err) != errcode.RequestNotKept || !strings.Contains(err.Error(), waits.Job.GetId()) {
		t.Errorf("a request that is not kept: %v", err)
	}
	if m := r.read(waits.Name()); len(m.GetRequestJson()) != 0 || m.GetRequestFrom() != "" {
		t.Errorf("of a job that was not kept: %v", m)
	}
	for edited, want := range map[string]errcode.Code{
		`{"model":`:                     errcode.InvalidJSON,
		`{"prompt":"a cat"}`:            errcode.InvalidRequest,
		`{"model":"none","prompt":"x"}`: errcode.ModelNotFound,
	} {
		if _, err := r.retry(waits.Name(), edited, ""); errcode.CodeOf(err) != want {
			t.Errorf("%s: %v", edited, err)
		}
	}
	if _, err := r.retry(waits.Name(), videoBody, strings.Repeat("k", maxRetryKey+1)); errcode.CodeOf(err) != errcode.InvalidRequest {
		t.Errorf("a long key: %v", err)
	}
	if e, err := r.retry(waits.Name(), videoBody, ""); err != nil || e.Job.GetRetryOf() != waits.Job.GetId() {
		t.Errorf("with the whole request: %v, %v", e.Job, err)
	}
	other := waits.Name()
	other.Tenant = "globex"
	if _, err := r.retry(other, videoBody, ""); !errors.Is(err, joblog.ErrNotFound) {
		t.Errorf("by another tenant's name: %v", err)
	}
}

// TestADeadLetterDecidesOnARetry checks that a job with a dead letter is not retried, and that
// erasing the job keeps the dead letter's request.
func TestADeadLetterDecidesOnARetry(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up := newSandbox(t)
		r := newReplica(t, open(t), up, keepRequests).start()
		l := r.unknownDeadLetter(up, "u", videoBody)
		n := videoName(l.GetLetter().GetId())
		if string(l.GetLetter().GetData()) != videoBody {
			t.Errorf("the dead letter has %q", l.GetLetter().GetData())
		}
		for _, edited := range []string{"", videoBody} {
			if _, err := r.retry(n, edited, ""); errcode.CodeOf(err) != errcode.DeadLetterUnresolved || !strings.Contains(err.Error(), "submission_outcome_unknown") {
				t.Errorf("with a dead letter: %v", err)
			}
		}
		r.loseKept(n)
		if m := r.read(n); string(m.GetRequestJson()) != videoBody || m.GetRequestFrom() == fromKept {
			t.Errorf("without what is kept: %v", m)
		}
		await(t, "the job is let go", func() bool { return r.read(n).GetRequestFrom() == fromDeadLetter })
		if err := r.Drop(t.Context(), l.GetSequence()); err != nil {
			t.Fatal(err)
		}
		if _, err := r.retry(n, "", ""); errcode.CodeOf(err) != errcode.RequestNotKept {
			t.Errorf("without a request: %v", err)
		}
		if e, err := r.retry(n, videoBody, ""); err != nil || e.Job.GetRetryOf() != n.ID {
			t.Errorf("when the dead letter is gone: %v, %v", e.Job, err)
		}
	})
}

// TestADeadLetterThatIsToComeDecidesToo checks that a cancelled job is not retried while its holder
// waits for the answer to a create, nor after that answer made a dead letter.
func TestADeadLetterThatIsToComeDecidesToo(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up := newSandbox(t)
		begun, answer := make(chan struct{}, 10), make(chan struct{})
		up.Sandbox.SetBehaviour(func(r *http.Request, _ []byte) *sandbox.Behaviour {
			if r.Method == http.MethodPost {
				begun <- struct{}{}
				<-answer
			}
			return nil
		})
		r := newReplica(t, open(t), up, keepRequests, func(c *config.Config) {
			for i := range c.Routes {
				if c.Routes[i].Kind == config.KindVideo {
					c.Routes[i].Timeouts.Create = time.Minute
				}
			}
		}).start()
		e := r.admit(subject.Video, "u", videoBody)
		<-begun
		r.cancel(r.until(e.Name(), genbusv1.JobPhase_JOB_PHASE_SUBMITTING))
		r.stillHeld(e.Name())
		close(answer)
		r.unresolved(e.Name(), errcode.OrphanedSubmission)
		if creates := up.Sandbox.Stats().Creates; creates != 1 {
			t.Errorf("%d creates", creates)
		}
	})
}

// TestTheDeadLetterOfACancelledSubmissionDecidesToo checks that a job whose holder died during a
// create, and which was then cancelled, is not retried until its dead letter is resolved.
func TestTheDeadLetterOfACancelledSubmissionDecidesToo(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up := newSandbox(t)
		r := newReplica(t, open(t), up, keepRequests)
		e := r.admit(subject.Video, "u", videoBody)
		submitting, err := task.Submitting(videoOf(e), time.Now(), task.Submission{Upstream: config.SandboxUpstream, Until: time.Now(), Deadline: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		if e, err = r.o.Log.Commit(t.Context(), submitting, e.Seq); err != nil {
			t.Fatal(err)
		}
		r.cancel(e)
		r.stillHeld(e.Name())
		r.start()
		r.unresolved(e.Name(), errcode.SubmissionUnknown)
		if err := r.Drop(t.Context(), r.deadLetterOf(e.Job.GetId()).GetSequence()); err != nil {
			t.Fatal(err)
		}
		made, err := r.retry(e.Name(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if end := r.end(made.Name()); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || up.Sandbox.Stats().Creates != 1 {
			t.Errorf("ended %v after %d creates", end.Job.GetError(), up.Sandbox.Stats().Creates)
		}
	})
}

// TestADeadLetterThatIsPutBackDecidesToo checks that an attached job cancelled before any replica
// took it is not retried: the next holder writes its dead letter again.
func TestADeadLetterThatIsPutBackDecidesToo(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up := newSandbox(t)
		r := newReplica(t, open(t), up, keepRequests).start()
		l := r.unknownDeadLetter(up, "u", videoBody)
		r.stop()
		idle := newReplica(t, open(t), up, keepRequests)
		e := idle.attach(l, "wrong")
		idle.cancel(e)
		idle.stillHeld(e.Name())
		idle.start()
		idle.unresolved(e.Name(), errcode.SubmissionUnknown)
	})
}

// stillHeld checks that an ended job is not retried while a replica holds it.
func (r *replica) stillHeld(n subject.JobName) {
	r.t.Helper()
	for _, edited := range []string{"", videoBody} {
		if _, err := r.retry(n, edited, ""); errcode.CodeOf(err) != errcode.StillHeld {
			r.t.Errorf("while it is held: %v", err)
		}
	}
}

// unresolved checks that a job is not retried because of its dead letter, once no replica holds it.
func (r *replica) unresolved(n subject.JobName, code errcode.Code) {
	r.t.Helper()
	r.letGo(n)
	if _, err := r.retry(n, "", ""); errcode.CodeOf(err) != errcode.DeadLetterUnresolved || !strings.Contains(err.Error(), string(code)) {
		r.t.Errorf("when it is let go: %v", err)
	}
}

// TestTheSameCallAnswersWithItsJob checks that a repeated retry returns its job even if the request
// is lost.
func TestTheSameCallAnswersWithItsJob(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t), keepRequests)
	old := r.admit(subject.Video, "r", videoBody)
	r.removeItem(old)
	made, err := r.retry(old.Name(), "", "k")
	if err != nil {
		t.Fatal(err)
	}
	r.loseKept(old.Name())
	if second, err := r.retry(old.Name(), "", "k"); err != nil || second.Job.GetId() != made.Job.GetId() {
		t.Errorf("the same call: %v, %v", second.Job, err)
	}
	if same, err := r.retry(old.Name(), videoBody, "k"); err != nil || same.Job.GetId() != made.Job.GetId() {
		t.Errorf("with the request that it had: %v, %v", same.Job, err)
	}
	if _, err := r.retry(old.Name(), failing, "k"); errcode.CodeOf(err) != errcode.IdempotencyKeyReused {
		t.Errorf("with another request: %v", err)
	}
	if _, err := r.retry(old.Name(), "", "another"); errcode.CodeOf(err) != errcode.RequestNotKept {
		t.Errorf("another key: %v", err)
	}
}

// loseKept removes the kept request of a job.
func (r *replica) loseKept(n subject.JobName) {
	r.t.Helper()
	e, err := r.o.Log.Get(r.t.Context(), n)
	if err == nil {
		err = r.o.Bodies.Delete(r.t.Context(), publisher.BodyOf(e.Job.GetExecution().GetInput()))
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestAKeptRequestIsNotNeededToRun checks that a job runs without its kept request, because the
// work item has it too.
func TestAKeptRequestIsNotNeededToRun(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t), keepRequests)
	e := r.admit(subject.Video, "", videoBody)
	r.loseKept(e.Name())
	r.start()
	if end := r.end(e.Name()); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		t.Errorf("ended %v", end.Job.GetError())
	}
}

// TestAnErasureRemovesTheKeptRequest checks that erasing a video or chat removes its kept request
// and no other.
func TestAnErasureRemovesTheKeptRequest(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		r := newReplica(t, open(t), newSandbox(t), keepRequests).start()
		const chat = `{"model":"sandbox-chat","messages":[{"role":"user","content":"hello"}]}`
		other := r.admit(subject.Video, "other", videoBody)
		r.end(other.Name())
		for _, e := range []joblog.Entry{r.admit(subject.Video, "v", videoBody), r.admit(subject.Chat, "c", chat)} {
			n := e.Name()
			r.end(n)
			r.letGo(n)
			m := r.read(n)
			if want := map[subject.Kind]string{subject.Video: videoBody, subject.Chat: chat}[n.Kind]; string(m.GetRequestJson()) != want || m.GetRequestFrom() != fromKept || len(m.GetReplyJson()) == 0 != (n.Kind == subject.Video) {
				t.Errorf("of a %s: %v", n.Kind, m)
			}
			made, err := r.retry(n, "", "")
			if err != nil {
				t.Fatal(err)
			}
			r.end(made.Name())
			if err := r.Erase(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			r.nothingIsLeft(n)
			r.stored(made.Job.GetId()+"-request", 1)
		}
		r.stored(other.Job.GetId()+"-request", 1)
	})
}

// TestBodiesArePrivate checks that operators read bodies only if the configuration allows it, and
// get long ones by reference.
func TestBodiesArePrivate(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	e := r.admit(subject.Video, "", large("a"))
	if _, err := r.requests.Read(t.Context(), e); errcode.CodeOf(err) != errcode.BodiesPrivate {
		t.Errorf("read: %v", err)
	}
	small := *r.o.Config.Now()
	small.OperatorsReadBodies, small.GRPC.MaxMessageBytes = true, 1<<10
	r.o.Config.Set(&small)
	if m := r.read(e.Name()); len(m.GetRequestJson()) != 0 || m.GetRequestFrom() != fromKept || m.GetRequestRef().GetName() != e.Job.GetExecution().GetInput().GetName() {
		t.Errorf("a long one: %v", m)
	}
}
