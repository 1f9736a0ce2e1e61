package consumer

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

// deliver fetches and returns a work item, like holders that died with it.
func deliver(t *testing.T, b *broker.Broker, times int) {
	t.Helper()
	deliverOf(t, b, "video-sandbox-video", times)
}

func deliverOf(t *testing.T, b *broker.Broker, durable string, times int) {
	t.Helper()
	c, err := b.JetStream().Consumer(t.Context(), b.Names().Work(), durable)
	if err != nil {
		t.Fatal(err)
	}
	for range times {
		if err := brokertest.Next(t, c).Nak(); err != nil {
			t.Fatal(err)
		}
	}
}

// submittedVideo returns a video that its upstream never ends and no replica holds.
func submittedVideo(t *testing.T, b *broker.Broker) (id, url string) {
	t.Helper()
	url = newSlowUpstream(t).url
	r := newReplica(t, b, testConfig(t, url))
	id = publish(t, b, subject.Video, "v", videoRequest("v", "sandbox-video", "a cat"))
	follow(t, r.log, id, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)
	r.stop(true)
	return id, url
}

// TestManyCrashesDoNotPoisonWhatIsHandled proves that many deaths of holders do not poison a job if
// a step finishes in between.
func TestManyCrashesDoNotPoisonWhatIsHandled(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	id, url := submittedVideo(t, b)
	for range 3 {
		deliver(t, b, 10-2)
		before, err := forerunner(t, b).Get(t.Context(), subject.JobName{Kind: subject.Video, Tenant: "acme", ID: id})
		if err != nil {
			t.Fatal(err)
		}
		r := newReplica(t, b, testConfig(t, url))
		// The event after the first poll resets the poison count.
		for e, err := range r.log.Follow(t.Context(), before.Name(), before.Version()) {
			if err != nil || e.Terminal() {
				t.Fatalf("%v, %v", e.Job.GetError(), err)
			}
			break
		}
		r.stop(true)
	}
	if letters := deadLetters(t, b); len(letters) != 0 {
		t.Errorf("dead letters: %v", letters)
	}
}

// TestASecondSendDoesNotPoisonItsJob proves that deliveries of a second item of the same request do
// not poison the job after its holder's death.
func TestASecondSendDoesNotPoisonItsJob(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		var taken atomic.Bool // no poll ends the task before that
		url := scripted(t, map[string]http.HandlerFunc{createPath: acceptsByPrompt, pollPath: func(w http.ResponseWriter, r *http.Request) {
			if taken.Load() {
				respondCompleted(w, r)
				return
			}
			respond(`{"task_id":"cat","status":"processing"}`)(w, r)
		}})
		holder := newReplica(t, b, testConfig(t, url, onCluster))
		item := itemOf("v", config.SandboxVideoRoute, "cat")
		putItemAt(t, b, b.Names().WorkItem(subject.Video, item.GetRoute(), "acme", item.GetId()), item)
		follow(t, holder.log, item.GetId(), genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)
		cfg := testConfig(t, url, onCluster, otherRoute(config.KindVideo))
		next := idleReplica(t, b, cfg)
		if _, err := next.ensureRoute(t.Context(), cfg.Routes[len(cfg.Routes)-1], b.Streams().EnsureConsumer); err != nil {
			t.Fatal(err)
		}
		putSecondSend(t, b, item)
		deliverOf(t, b, subject.WorkDurable(subject.Video, "other"), 10+2)
		holder.stop(false)
		taken.Store(true)
		c, err := b.JetStream().Consumer(t.Context(), b.Names().Work(), "video-sandbox-video")
		if err != nil {
			t.Fatal(err)
		}
		brokertest.Next(t, c) // by a replica that dies with it, so that the second item comes first
		if err := next.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		end := last(follow(t, next.log, item.GetId()))
		if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
			t.Errorf("the task, which its upstream works on, ended %v", end.Job.GetError())
		}
		next.noItems(t, end.Name())
	})
}

// TestWhatKillsItsHoldersIsPoisoned proves that a poisoned video leaves a dead letter with which
// its task can be attached.
func TestWhatKillsItsHoldersIsPoisoned(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	id, url := submittedVideo(t, b)
	deliver(t, b, 10+2)
	r := newReplica(t, b, testConfig(t, url))
	end := last(follow(t, r.log, id))
	if code := end.Job.GetError().GetCode(); code != "poisoned" {
		t.Errorf("ended %v", end.Job.GetError())
	}
	checkDeadLetter(t, b, id, "poisoned", "sandbox")
	doneOnce(t, b, end)
}

// TestWhatKillsItsHoldersDuringASubmissionIsUnknown proves that a video that kills its holders
// during a submission ends as unknown.
func TestWhatKillsItsHoldersDuringASubmissionIsUnknown(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	url, begun := silent(t)
	e := abandon(t, b, url, subject.Video, genbusv1.JobPhase_JOB_PHASE_SUBMITTING, begun, createsSoon)
	deliver(t, b, 10+2)
	r := newReplica(t, b, testConfig(t, url))
	end := last(follow(t, r.log, e.Job.GetId()))
	if f := end.Job.GetError(); f.GetCode() != "submission_outcome_unknown" || !strings.Contains(f.GetMessage(), "without progress") {
		t.Errorf("ended %v", f)
	}
	if letters := deadLetters(t, b); len(letters) != 1 || letters[0].GetError().GetCode() != "submission_outcome_unknown" || len(letters[0].GetData()) == 0 {
		t.Errorf("dead letters: %v", letters)
	}
	doneOnce(t, b, end)
}

// TestAChatThatKillsItsHoldersIsPoisoned proves the same for a chat before its first attempt.
func TestAChatThatKillsItsHoldersIsPoisoned(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	cfg := testConfig(t, newSandbox(t).URL())
	r := idleReplica(t, b, cfg)
	for _, route := range cfg.Routes {
		if _, err := r.ensureRoute(t.Context(), route, b.Streams().EnsureConsumer); err != nil {
			t.Fatal(err)
		}
	}
	e, err := r.Admission.Admit(t.Context(), admission.Request{
		Kind: subject.Chat, Tenant: "acme", Body: body.Parse([]byte(`{"model":"sandbox-chat","messages":[{"role":"user","content":"hi"}]}`)),
	})
	if err != nil {
		t.Fatal(err)
	}
	deliverOf(t, b, subject.WorkDurable(subject.Chat, config.SandboxChatRoute), 10)
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	end := last(follow(t, r.log, e.Job.GetId()))
	if end.Job.GetError().GetCode() != "poisoned" || end.Job.GetExecution().GetAttempt() != 0 {
		t.Errorf("ended with %v", end.Job)
	}
	letters := deadLetters(t, b)
	if len(letters) != 1 || letters[0].GetError().GetCode() != "poisoned" || len(letters[0].GetData()) == 0 {
		t.Errorf("dead letters: %v", letters)
	}
	doneOnce(t, b, end)
}
