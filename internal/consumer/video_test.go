package consumer

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/clock"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

func TestVideoFromTheInboxToTheFeed(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{config.EncodingProtobuf, config.EncodingJSON} {
		for _, model := range []string{"sandbox-video", "sandbox-video-enveloped"} {
			t.Run(encoding+" "+model, func(t *testing.T) {
				t.Parallel()
				up, b := newSandbox(t), brokertest.Single(t)
				r := newReplica(t, b, testConfig(t, up.URL(), func(c *config.Config) { c.Events.Encoding = encoding }))
				id := publish(t, b, subject.Video, "one", videoRequest("one", model, "a cat"))
				events := follow(t, r.log, id)
				if got := phases(events); !sameOrFaster(got, "queued submitting submitted in_progress completed") {
					t.Errorf("phases: %s", got)
				}
				end := last(events)
				v, _ := end.Job.(*genbusv1.VideoTask)
				if len(v.GetVideos()) != 1 || !strings.HasSuffix(v.GetVideos()[0].GetUrl(), ".mp4") || v.GetProgress() != 100 || v.GetUpstreamTaskId() == "" {
					t.Errorf("the result is %v", v)
				}
				doneOnce(t, b, end)
			})
		}
	}
}

// TestAPollThatNamesTheEnd proves that an error that names the end of a task ends the job at once,
// and that other errors, with the same status or the same words, do not.
func TestAPollThatNamesTheEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status     int
		body, want string // want is the upstream's code; "" if the task goes on
	}{
		"moderation":        {400, `{"error":{"code":"moderation_blocked","message":"no"}}`, "moderation_blocked"},
		"expired":           {410, `{"error":{"code":"task_expired","message":"gone"}}`, "task_expired"},
		"a state in 500":    {500, `{"task_id":"up_1","status":"failed","error":{"code":"oom","message":"no"}}`, "oom"},
		"moderation as 401": {401, `{"error":{"code":"moderation_blocked","message":"no"}}`, ""},
		"another 400":       {400, `{"error":{"code":"bad_version","message":"no"}}`, ""},
		"missing":           {404, `{"error":{"message":"Video not found"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var polls atomic.Int64
			url := scripted(t, map[string]http.HandlerFunc{
				createPath: respond(`{"task_id":"up_1","status":"queued"}`),
				pollPath: func(w http.ResponseWriter, r *http.Request) {
					if polls.Add(1) <= 3 {
						respondWith(c.status, c.body)(w, r)
						return
					}
					respond(`{"task_id":"up_1","status":"completed","url":"https://example.com/v.mp4"}`)(w, r)
				},
			})
			b := brokertest.Single(t)
			r := newReplica(t, b, testConfig(t, url))
			end := last(follow(t, r.log, publish(t, b, subject.Video, "v", videoRequest("v", "sandbox-video", "a cat"))))
			status, n := task.StatusWord(end.Job.GetStatus()), int64(4)
			want := "completed"
			if c.want != "" {
				want, n = "failed", 1
			}
			if e := end.Job.GetError(); status != want || e.GetUpstreamCode() != c.want || polls.Load() != n {
				t.Errorf("%s after %d polls, %v", status, polls.Load(), e)
			}
		})
	}
}

func TestSubmissionOutcomes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, model, phases, code string
		letters                   int
	}{
		{"refused for good", "sandbox-video:status=400,code=invalid_request", "queued submitting failed", "upstream_refused", 0},
		{"key refused", "sandbox-video:status=401", "queued submitting failed", "upstream_key_refused", 0},
		{"key not permitted", "sandbox-video:status=403,code=permission_denied", "queued submitting failed", "upstream_key_refused", 0},
		{"unpaid", "sandbox-video:status=402", "queued submitting failed", "upstream_quota", 0},
		{"quota used up", "sandbox-video:status=429,code=insufficient_quota", "queued submitting failed", "upstream_quota", 0},
		{"refused for now, then accepted", "sandbox-video:status=429,times=2,retry_after=1", "queued submitting queued submitting queued submitting submitted in_progress completed", "", 0},
		{"cut off after the create", "sandbox-video:drop=after_create", "queued submitting failed", "submission_outcome_unknown", 1},
		{"cut off before the create", "sandbox-video:drop=before_answer", "queued submitting failed", "submission_outcome_unknown", 1},
		{"no answer", "sandbox-video:hang", "queued submitting failed", "submission_outcome_unknown", 1},
		{"no id", "sandbox-video:no_id", "queued submitting failed", "submission_outcome_unknown", 1},
		{"fails upstream", "sandbox-video:fail=boom", "queued submitting submitted in_progress failed", "upstream_failed", 0},
		{"words nobody knows", "sandbox-video:statuses=NOT_START|rendering|SUCCESS", "queued submitting submitted in_progress completed", "", 0},
		{"polls fail for a while", "sandbox-video:poll_status=500,poll_fail_times=3", "queued submitting submitted in_progress completed", "", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			up, b := newSandbox(t), brokertest.Single(t)
			cfg := testConfig(t, up.URL())
			if row.name == "no answer" {
				cfg = testConfig(t, up.URL(), createsSoon)
			}
			r := newReplica(t, b, cfg)
			id := publish(t, b, subject.Video, "one", videoRequest("one", row.model, "a cat"))
			events := follow(t, r.log, id)
			end := last(events)
			if got := phases(events); !sameOrFaster(got, row.phases) || end.Job.GetError().GetCode() != row.code {
				t.Errorf("got %s with %v, want %s with %q", got, end.Job.GetError(), row.phases, row.code)
			}
			doneOnce(t, b, end)
			letters := deadLetters(t, b)
			if len(letters) != row.letters {
				t.Errorf("%d dead letters: %v", len(letters), letters)
			}
			for _, l := range letters {
				if l.GetError().GetCode() != row.code || !strings.Contains(string(l.GetData()), "a cat") {
					t.Errorf("the dead letter is not the request: %v", l)
				}
			}
			if n := up.Sandbox.Stats().MaxAcceptsPerKey; n > 1 {
				t.Errorf("accepted %d times", n)
			}
		})
	}
}

// sameOrFaster allows a job to end before a poll saw it in progress.
func sameOrFaster(got, want string) bool {
	return got == want || got == strings.Replace(want, "in_progress ", "", 1)
}

func TestResubmitWhereTheUpstreamHonoursTheKey(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, up.URL(), func(c *config.Config) {
		for i := range c.Routes {
			if c.Routes[i].Kind == config.KindVideo {
				c.Routes[i].OnUnknownOutcome = config.OnUnknownResubmit
			}
		}
	}))
	id := publish(t, b, subject.Video, "one", videoRequest("one", "sandbox-video:drop=after_create,times=1", "a cat"))
	end := last(follow(t, r.log, id))
	if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || end.Job.GetExecution().GetAttempt() != 2 {
		t.Errorf("ended %v after %d attempts", end.Job.GetStatus(), end.Job.GetExecution().GetAttempt())
	}
	if s := up.Sandbox.Stats(); s.Tasks != 1 {
		t.Errorf("the upstream has %d tasks", s.Tasks)
	}
}

// cancelJob ends a job as a client's call does.
func cancelJob(t testing.TB, l *joblog.Log, e joblog.Entry) joblog.Entry {
	t.Helper()
	for {
		next, err := task.Cancelled(e.Job, time.Now(), errcode.New(errcode.Cancelled, "cancelled").TaskError())
		if err != nil {
			t.Fatal(err)
		}
		out, err := l.Commit(t.Context(), next, e.Seq)
		var lost *joblog.LostError
		if errors.As(err, &lost) {
			e = lost.Current
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

func TestCancelStopsTheHolder(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up, b := newSandbox(t), open(t)
		r := newReplica(t, b, testConfig(t, up.URL()))
		id := publish(t, b, subject.Video, "one", videoRequest("one", "sandbox-video:duration_ms=3600000", "a cat"))
		events := follow(t, r.log, id, genbusv1.JobPhase_JOB_PHASE_SUBMITTED, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)
		doneOnce(t, b, cancelJob(t, r.log, last(events)))
	})
}

// TestCancelDuringTheCreate proves that the upstream ID of a job cancelled during its create is
// kept.
func TestCancelDuringTheCreate(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	inCreate, goOn := make(chan struct{}), make(chan struct{})
	up.Sandbox.SetBehaviour(func(r *http.Request, _ []byte) *sandbox.Behaviour {
		if r.Method == http.MethodPost {
			close(inCreate)
			<-goOn
		}
		return nil
	})
	r := newReplica(t, b, testConfig(t, up.URL()))
	id := publish(t, b, subject.Video, "one", videoRequest("one", "sandbox-video", "a cat"))
	<-inCreate
	end := cancelJob(t, r.log, last(follow(t, r.log, id, genbusv1.JobPhase_JOB_PHASE_SUBMITTING)))
	close(goOn)
	doneOnce(t, b, end)
	letters := deadLetters(t, b)
	if len(letters) != 1 || letters[0].GetError().GetCode() != "orphaned_submission" || letters[0].GetUpstreamTaskId() == "" {
		t.Errorf("dead letters: %v", letters)
	}
}

// TestCleanStopHandsOver proves that all jobs of a stopped replica continue at another one at once,
// without another create.
func TestCleanStopHandsOver(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up := newSandbox(t)
		cfg := testConfig(t, up.URL(), func(c *config.Config) {
			c.NATS.URL = "nats://127.0.0.1:4222" // as on a cluster: nothing is taken back at the start
			for i := range c.Routes {
				c.Routes[i].AckWait = 10 * time.Minute // nothing comes back by itself
			}
		})
		first := newReplica(t, open(t), cfg)
		b := open(t)
		const n = 20
		ids := make([]string, 0, n)
		for i := range n {
			request := fmt.Sprint("r", i)
			ids = append(ids, publish(t, b, subject.Video, request, videoRequest(request, "sandbox-video:duration_ms=1500", "a cat")))
		}
		for _, id := range ids[:n/2] {
			follow(t, first.log, id, genbusv1.JobPhase_JOB_PHASE_SUBMITTED)
		}
		first.stop(true)
		second := newReplica(t, b, cfg)
		for _, id := range ids {
			end := last(follow(t, second.log, id))
			if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
				t.Errorf("%s ended %v", id, end.Job.GetError())
			}
			doneOnce(t, b, end)
		}
		if s := up.Sandbox.Stats(); s.MaxCreatesPerKey != 1 || s.Tasks != n {
			t.Errorf("%d creates for one key, %d tasks", s.MaxCreatesPerKey, s.Tasks)
		}
	})
}

// TestCrashIsTakenOver proves that a dead replica's jobs resume at another one after AckWait.
func TestCrashIsTakenOver(t *testing.T) {
	t.Parallel()
	brokertest.EachCAS(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up := newSlowUpstream(t)
		cfg := testConfig(t, up.url)
		first := newReplica(t, open(t), cfg)
		b := open(t)
		id := publish(t, b, subject.Video, "one", videoRequest("one", "sandbox-video", "a cat"))
		follow(t, first.log, id, genbusv1.JobPhase_JOB_PHASE_SUBMITTED)
		first.stop(false)
		close(up.done)
		second := newReplica(t, b, cfg)
		end := last(follow(t, second.log, id))
		if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || end.Job.GetExecution().GetWriter() != second.log.Writer() {
			t.Errorf("ended %v by %s", end.Job.GetError(), end.Job.GetExecution().GetWriter())
		}
		up.askedOnce(t, 1, 0)
	})
}

func TestTwoReplicasShareOneQueue(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up := newSandbox(t)
		cfg := testConfig(t, up.URL(), func(c *config.Config) {
			for i := range c.Routes {
				c.Routes[i].MaxInFlight = 6
			}
		})
		b := open(t)
		replicas := []*replica{newReplica(t, b, cfg), newReplica(t, open(t), cfg)}
		const n = 40
		ids := make([]string, 0, n)
		for i := range n {
			request := fmt.Sprint("r", i)
			ids = append(ids, publish(t, b, subject.Video, request, videoRequest(request, "sandbox-video:duration_ms=1", "a cat")))
		}
		var byWriter [2]atomic.Int32
		for _, id := range ids {
			end := last(follow(t, replicas[0].log, id))
			if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
				t.Errorf("%s ended %v", id, end.Job.GetError())
			}
			for i, r := range replicas {
				if end.Job.GetExecution().GetWriter() == r.log.Writer() {
					byWriter[i].Add(1)
				}
			}
			doneOnce(t, b, end)
		}
		if s := up.Sandbox.Stats(); s.MaxCreatesPerKey != 1 || s.Tasks != n {
			t.Errorf("%d creates for one key, %d tasks", s.MaxCreatesPerKey, s.Tasks)
		}
		if byWriter[0].Load()+byWriter[1].Load() != n {
			t.Errorf("ended by the replicas: %d and %d of %d", byWriter[0].Load(), byWriter[1].Load(), n)
		}
	})
}

func TestTakenOverSubmissionIsUnknown(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	cfg := testConfig(t, up.URL(), videoRoutes(func(r *config.Route) { r.Timeouts.Create = 5 * time.Second }))
	arrived := make(chan struct{}, 1)
	up.Sandbox.SetBehaviour(func(*http.Request, []byte) *sandbox.Behaviour {
		arrived <- struct{}{}
		return nil // as the request asks
	})
	first := newReplica(t, b, cfg)
	id := publish(t, b, subject.Video, "one", videoRequest("one", "sandbox-video:hang", "a cat"))
	submitting := last(follow(t, first.log, id, genbusv1.JobPhase_JOB_PHASE_SUBMITTING))
	<-arrived
	first.stop(false) // dies during the create
	second := newReplica(t, b, cfg)
	end := last(follow(t, second.log, id))
	if end.Job.GetError().GetCode() != "submission_outcome_unknown" || len(deadLetters(t, b)) != 1 {
		t.Errorf("ended %v with %d dead letters", end.Job.GetError(), len(deadLetters(t, b)))
	}
	if up.Sandbox.Stats().Creates != 1 {
		t.Error("it was submitted again")
	}
	until := submitting.Job.GetExecution().GetSubmitUntil().AsTime()
	if margin := end.Time.Sub(until); margin < 2*clock.Limit || end.Job.GetExecution().GetWriter() != second.log.Writer() {
		t.Errorf("decided %s after submit_until, by %s", margin, end.Job.GetExecution().GetWriter())
	}
}

// TestAnAnswerJustAfterTheCreateTimeout proves that a late answer to a request sent in time is
// recorded.
func TestAnAnswerJustAfterTheCreateTimeout(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	arrived, answer := make(chan struct{}, 1), make(chan struct{})
	up.Sandbox.SetBehaviour(func(r *http.Request, _ []byte) *sandbox.Behaviour {
		if r.Method == http.MethodPost {
			arrived <- struct{}{}
			select {
			case <-answer:
			case <-r.Context().Done():
			}
		}
		return nil
	})
	r := newReplica(t, b, testConfig(t, up.URL(), createsSoon))
	id := publish(t, b, subject.Video, "one", videoRequest("one", "sandbox-video", "a cat"))
	await(t, "the request", arrived)
	var until time.Time
	if e, err := r.log.Get(t.Context(), subject.JobName{Kind: subject.Video, Tenant: "acme", ID: id}); err == nil {
		until = e.Job.GetExecution().GetSubmitUntil().AsTime()
	}
	if err := broker.Wait(t.Context(), time.Until(until)+10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	close(answer)
	for _, e := range follow(t, r.log, id) {
		switch x := e.Job.GetExecution(); x.GetPhase() {
		case genbusv1.JobPhase_JOB_PHASE_SUBMITTING:
			until = x.GetSubmitUntil().AsTime()
		case genbusv1.JobPhase_JOB_PHASE_SUBMITTED:
			if !e.Time.After(until) {
				t.Errorf("the answer came %s before submit_until: this test tests nothing", until.Sub(e.Time))
			}
		case genbusv1.JobPhase_JOB_PHASE_COMPLETED:
			return
		case genbusv1.JobPhase_JOB_PHASE_FAILED:
			t.Errorf("ended %v", e.Job.GetError())
		default:
		}
	}
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, up.URL(), videoRoutes(func(r *config.Route) { r.Timeouts.Deadline = 2 * time.Second })))
	id := publish(t, b, subject.Video, "one", videoRequest("one", "sandbox-video:duration_ms=3600000", "a cat"))
	end := last(follow(t, r.log, id))
	v, _ := end.Job.(*genbusv1.VideoTask)
	if v.GetError().GetCode() != "deadline_exceeded" || v.GetUpstreamTaskId() == "" {
		t.Errorf("ended %v, upstream id %q", v.GetError(), v.GetUpstreamTaskId())
	}
	doneOnce(t, b, end)
}
