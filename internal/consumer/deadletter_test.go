package consumer

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

// checkDeadLetter checks that a dead letter has everything that a new job needs.
func checkDeadLetter(t testing.TB, b *broker.Broker, id, code, upstream string) {
	t.Helper()
	letters := deadLetters(t, b)
	if len(letters) != 1 {
		t.Fatalf("%d dead letters: %v", len(letters), letters)
	}
	l := letters[0]
	if l.GetError().GetCode() != code || l.GetId() != id || l.GetUpstream() != upstream || l.GetUpstreamTaskId() == "" || l.GetAttempt() != 1 {
		t.Errorf("the dead letter is %v", l)
	}
	w := l.GetWork()
	if w.GetModel() == "" || w.GetRoute() == "" || w.GetProtocol() != "primary" || w.GetAcceptedAt() == nil || len(w.GetBody()) != 0 || w.GetBodyRef() != nil || len(l.GetData()) == 0 {
		t.Errorf("its request is %v, with %d bytes", w, len(l.GetData()))
	}
}

// TestARemovedUpstreamLeavesADeadLetter proves that a removed upstream leaves a dead letter with
// which the task can be attached later.
func TestARemovedUpstreamLeavesADeadLetter(t *testing.T) {
	t.Parallel()
	first, second := newSandbox(t), newSandbox(t)
	both := func(c *config.Config) {
		withSecond(second.URL())(c)
		for i := range c.Routes {
			c.Routes[i].Upstreams = c.Routes[i].Upstreams[1:]
		}
	}
	b := brokertest.Single(t)
	one := newReplica(t, b, testConfig(t, first.URL(), both))
	id := publish(t, one.Broker, subject.Video, "v", videoRequest("v", "sandbox-video:duration_ms=60000", "a cat"))
	follow(t, one.log, id, genbusv1.JobPhase_JOB_PHASE_SUBMITTED)
	one.stop(true)
	two := newReplica(t, b, testConfig(t, first.URL()))
	end := last(follow(t, two.log, id))
	if code := end.Job.GetError().GetCode(); code != "upstream_removed" {
		t.Errorf("ended %v", end.Job.GetError())
	}
	checkDeadLetter(t, two.Broker, id, "upstream_removed", "second")
	doneOnce(t, two.Broker, end)
}

// TestARemovedRouteLeavesADeadLetter proves that failing the jobs of a removed route leaves a dead
// letter for submitted jobs only.
func TestARemovedRouteLeavesADeadLetter(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	one := newReplica(t, b, testConfig(t, up.URL(), func(c *config.Config) {
		r := config.NewRoute("going", config.KindVideo, config.SandboxUpstream, "going")
		r.UpstreamModel, r.MaxInFlight, r.AckWait = "sandbox-video:duration_ms=60000", 1, 3*time.Second
		c.Routes = append(c.Routes, r)
	}))
	id := publish(t, b, subject.Video, "v", videoRequest("v", "going", "a cat"))
	follow(t, one.log, id, genbusv1.JobPhase_JOB_PHASE_SUBMITTED)
	waits := publish(t, b, subject.Video, "w", videoRequest("w", "going", "a cat"))
	follow(t, one.log, waits, genbusv1.JobPhase_JOB_PHASE_QUEUED)
	one.stop(true)
	two := newReplica(t, b, testConfig(t, up.URL()))
	if s := two.failOrphans(t, subject.Video, "going"); s.GetEnded() != 2 {
		t.Errorf("settled %v", s)
	}
	for _, id := range []string{id, waits} {
		if end := last(follow(t, two.log, id)); end.Job.GetError().GetCode() != "upstream_removed" {
			t.Errorf("%s ended %v", id, end.Job.GetError())
		}
	}
	checkDeadLetter(t, b, id, "upstream_removed", config.SandboxUpstream)
}

// TestADeadlineThatPassedUnheld proves that a job whose deadline passed without a holder is polled
// once.
func TestADeadlineThatPassedUnheld(t *testing.T) {
	t.Parallel()
	for duration, want := range map[string]string{"1": "", "3600000": "deadline_exceeded"} {
		t.Run(duration+" ms", func(t *testing.T) {
			t.Parallel()
			up, b := newSandbox(t), brokertest.Single(t)
			short := videoRoutes(func(r *config.Route) { r.Timeouts.Deadline = time.Second })
			one := newReplica(t, b, testConfig(t, up.URL(), short, videoRoutes(func(r *config.Route) { r.Poll.Interval = time.Minute })))
			id := publish(t, b, subject.Video, "v", videoRequest("v", "sandbox-video:duration_ms="+duration, "a cat"))
			held := last(follow(t, one.log, id, genbusv1.JobPhase_JOB_PHASE_SUBMITTED))
			one.stop(true)
			if err := broker.Wait(t.Context(), time.Until(held.Job.GetExecution().GetDeadline().AsTime())+10*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			two := newReplica(t, b, testConfig(t, up.URL(), short))
			if end := last(follow(t, two.log, id)); end.Job.GetError().GetCode() != want {
				t.Errorf("ended %v", end.Job.GetError())
			}
		})
	}
}

// TestEndsWithADeadLetterAreWarnings proves that only ends with a dead letter are logged as
// warnings.
func TestEndsWithADeadLetterAreWarnings(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	var log bytes.Buffer
	r := idleReplica(t, b, testConfig(t, newSandbox(t).URL()))
	r.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r.holder.Logger = r.Logger
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, model := range []string{"sandbox-video", "sandbox-video:fail=end", "sandbox-video:drop=after_create"} {
		follow(t, r.log, publish(t, b, subject.Video, model, videoRequest(model, model, "a cat")))
	}
	refused := publish(t, b, subject.Video, "none", videoRequest("none", "none", "a cat"))
	r.eventually(t, "two dead letters", func() bool { return len(deadLetters(t, b)) == 2 })
	r.stop(true)
	for want, times := range map[string]int{
		` job_id=` + refused + ` code=model_not_found error="no video route serves the model`: 1,
		`level=INFO msg="job ended"`:      2,
		`level=WARN msg="job ended"`:      1,
		`code=submission_outcome_unknown`: 1,
		`level=WARN msg="refused request`: 1,
	} {
		if n := strings.Count(log.String(), want); n != times {
			t.Errorf("%s stands %d times in\n%s", want, n, log.String())
		}
	}
}
