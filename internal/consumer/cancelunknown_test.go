package consumer

import (
	"io"
	"net/http"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// checkUnknown checks that the only dead letter is for a submission with an unknown outcome.
func checkUnknown(t *testing.T, b *broker.Broker, end joblog.Entry) {
	t.Helper()
	if !end.Job.GetExecution().GetSubmissionOutcomeUnknown() {
		t.Errorf("the end does not say that the outcome is unknown: %v", end.Job)
	}
	letters := deadLetters(t, b)
	if len(letters) != 1 {
		t.Fatalf("dead letters: %v", letters)
	}
	l := letters[0]
	if l.GetError().GetCode() != "submission_outcome_unknown" || l.GetUpstream() != config.SandboxUpstream || l.GetAttempt() != 1 || l.GetId() != end.Job.GetId() {
		t.Errorf("the dead letter is %v", l)
	}
}

// TestACancelKeepsAnUnknownOutcome proves that a job cancelled after its holder died during the
// create leaves a dead letter.
func TestACancelKeepsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up, b := newSandbox(t), open(t)
		arrived := make(chan struct{}, 1)
		up.Sandbox.SetBehaviour(func(*http.Request, []byte) *sandbox.Behaviour {
			arrived <- struct{}{}
			return nil // as the request asks
		})
		cfg := testConfig(t, up.URL())
		first := newReplica(t, b, cfg)
		id := publish(t, b, subject.Video, "one", videoRequest("one", "sandbox-video:hang", "a cat"))
		submitting := last(follow(t, first.log, id, genbusv1.JobPhase_JOB_PHASE_SUBMITTING))
		await(t, "the create", arrived)
		first.stop(false)
		second := idleReplica(t, b, cfg)
		end := cancelJob(t, second.log, submitting)
		if err := second.Queue.RemoveEnded(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		if err := second.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		second.noItems(t, end.Name())
		doneOnce(t, b, end)
		checkUnknown(t, b, end)
		if n := up.Sandbox.Stats().Creates; n != 1 {
			t.Errorf("%d creates", n)
		}
	})
}

// beingSubmitted is the past of a job whose holder died during the create.
func beingSubmitted(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
	return task.Submitting(v, now, task.Submission{Upstream: config.SandboxUpstream, Until: now, Deadline: now.Add(time.Hour)})
}

func cancelled(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
	return task.Cancelled(v, now, &genbusv1.TaskError{Code: "cancelled"})
}

// TestACancelledOrphanKeepsItsUnknownOutcome proves the same for a job of an unconfigured route
// that an operator fails.
func TestACancelledOrphanKeepsItsUnknownOutcome(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := idleReplica(t, b, testConfig(t, newSandbox(t).URL()))
	item := itemOf("v", "gone", "a cat")
	end := pastOf(t, forerunner(t, b), item, beingSubmitted, cancelled)
	putItemAt(t, b, b.Names().WorkItem(subject.Video, "gone", "acme", item.GetId()), item)
	r.failRemoved(t)
	checkUnknown(t, b, end)
}

func respondWith(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// TestARefusalAfterACancelIsRecorded proves that a refusal after the cancel leaves no dead letter.
func TestARefusalAfterACancelIsRecorded(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"for good": respondWith(http.StatusBadRequest, `{"error":{"code":"invalid_request","message":"no"}}`),
		"for now":  respondWith(http.StatusTooManyRequests, `{"error":{"code":"rate_limit_exceeded","message":"later"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, arrived, goOn := brokertest.Single(t), make(chan struct{}, 1), make(chan struct{})
			r := newReplica(t, b, testConfig(t, scripted(t, map[string]http.HandlerFunc{createPath: func(w http.ResponseWriter, req *http.Request) {
				arrived <- struct{}{}
				<-goOn
				answer(w, req)
			}}), videoRoutes(func(r *config.Route) { r.Timeouts.Create = patience })))
			id := publish(t, b, subject.Video, "one", videoRequest("one", "sandbox-video", "a cat"))
			submitting := last(follow(t, r.log, id, genbusv1.JobPhase_JOB_PHASE_SUBMITTING))
			await(t, "the create", arrived)
			end := cancelJob(t, r.log, submitting)
			close(goOn)
			r.noItems(t, end.Name())
			doneOnce(t, b, end)
			if letters := deadLetters(t, b); len(letters) != 0 {
				t.Errorf("dead letters: %v", letters)
			}
		})
	}
}
