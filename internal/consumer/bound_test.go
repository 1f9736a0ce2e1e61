package consumer

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

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

// videoRoutes changes every video route.
func videoRoutes(change func(*config.Route)) func(*config.Config) {
	return func(c *config.Config) {
		for i := range c.Routes {
			if c.Routes[i].Kind == config.KindVideo {
				change(&c.Routes[i])
			}
		}
	}
}

func resubmits(r *config.Route) { r.OnUnknownOutcome = config.OnUnknownResubmit }

func withKeys(names ...string) func(*config.Config) {
	return func(c *config.Config) {
		u := c.Upstreams[config.SandboxUpstream]
		for _, name := range names {
			u.Keys = append(u.Keys, config.UpstreamKey{Name: name, Key: config.NewSecret("key-" + name), KeyEnv: "KEY"})
		}
		c.Upstreams[config.SandboxUpstream] = u
	}
}

// inherit makes the replica take a job with a past, from the sandbox's route.
func inherit(t testing.TB, r *replica, request string, past ...transition) {
	t.Helper()
	pastOf(t, r.log, pastItem(request), past...)
	storeItem(t, r.Broker, config.SandboxVideoRoute, videoID(request), 0)
}

func submittingTo(upstream string) transition {
	return func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
		return task.Submitting(v, now, task.Submission{Upstream: upstream, Until: now, Deadline: now.Add(time.Hour)})
	}
}

func requeued(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
	return task.Requeued(v, now, now, "rate_limit")
}

// boundTo returns the past of a job whose first submission to an upstream has an unknown outcome
// and whose second one was refused for now.
func boundTo(upstream string) []transition {
	return []transition{submittingTo(upstream), submittingTo(upstream), requeued}
}

// unknownEnd checks that a job ended with an unknown outcome and that a dead letter keeps its
// request.
func unknownEnd(t testing.TB, b *broker.Broker, end joblog.Entry) {
	t.Helper()
	if code := end.Job.GetError().GetCode(); code != "submission_outcome_unknown" {
		t.Errorf("ended %v", end.Job.GetError())
	}
	letters := deadLetters(t, b)
	if len(letters) != 1 || letters[0].GetError().GetCode() != "submission_outcome_unknown" || !strings.Contains(string(letters[0].GetData()), "a cat") {
		t.Errorf("dead letters: %v", letters)
	}
}

// TestAfterAnUnknownOutcomeOnlyTheSameKeyIsUsed proves that a refused resubmission sends the job to
// no other key or upstream: it does not show whether the first submission was accepted.
func TestAfterAnUnknownOutcomeOnlyTheSameKeyIsUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// refusal answers the second create, and later ones if always is set.
		refusal sandbox.Behaviour
		always  bool
		// expires and deadline limit the job; 0 means no limit.
		expires, deadline time.Duration
		completes         bool
	}{
		"rate limited":       {refusal: sandbox.Behaviour{Status: 429, RetryAfter: "1"}, completes: true},
		"overloaded":         {refusal: sandbox.Behaviour{Status: 503, Code: "system_cpu_overloaded"}, completes: true},
		"key refused":        {refusal: sandbox.Behaviour{Status: 401}},
		"quota used up":      {refusal: sandbox.Behaviour{Status: 403, Code: "insufficient_user_quota"}},
		"model unknown":      {refusal: sandbox.Behaviour{Status: 503, Code: "model_not_found"}},
		"until expires_at":   {refusal: sandbox.Behaviour{Status: 429, RetryAfter: "60"}, always: true, expires: 4 * time.Second},
		"until its deadline": {refusal: sandbox.Behaviour{Status: 429, RetryAfter: "60"}, always: true, deadline: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second, b := newSandbox(t), newSandbox(t), brokertest.Single(t)
			var creates atomic.Int64
			first.Sandbox.SetBehaviour(func(r *http.Request, _ []byte) *sandbox.Behaviour {
				if r.Method != http.MethodPost {
					return nil
				}
				switch n := creates.Add(1); {
				case n == 1:
					return &sandbox.Behaviour{Drop: sandbox.DropAfterCreate}
				case n == 2 || c.always:
					return &c.refusal
				default:
					return nil
				}
			})
			r := newReplica(t, b, testConfig(t, first.URL(), withKeys("a", "b"), withSecond(second.URL()), videoRoutes(resubmits), videoRoutes(func(r *config.Route) {
				if c.deadline > 0 {
					r.Timeouts.Deadline = c.deadline
				}
			})))
			var end joblog.Entry
			for try := range 5 {
				id := fmt.Sprint("v", try)
				request := videoRequest(id, "sandbox-video", "a cat")
				if c.expires > 0 {
					request.ExpiresAt = timestamppb.New(time.Now().Add(c.expires))
				}
				end = last(follow(t, r.log, publish(t, b, subject.Video, id, request)))
				if end.Job.GetError().GetCode() != string(errcode.Expired) || creates.Load() > 0 {
					break
				}
				c.expires *= 2 // a busy machine did not start it
			}
			if c.completes {
				if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || len(deadLetters(t, b)) != 0 {
					t.Errorf("ended %v, dead letters %v", end.Job.GetError(), deadLetters(t, b))
				}
			} else {
				unknownEnd(t, b, end)
			}
			doneOnce(t, b, end)
			if s := first.Sandbox.Stats(); s.Tasks != 1 || len(s.CreatesPerAuthorization) != 1 || second.Sandbox.Stats().Creates != 0 {
				t.Errorf("%d tasks, creates by key %v, at the second upstream %d", s.Tasks, s.CreatesPerAuthorization, second.Sandbox.Stats().Creates)
			}
		})
	}
}

// TestNextHolderOfABoundTaskSubmitsItWhereItWas proves that a bound job stays with its upstream
// although its route now prefers another one.
func TestNextHolderOfABoundTaskSubmitsItWhereItWas(t *testing.T) {
	t.Parallel()
	first, second, b := newSandbox(t), newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, first.URL(), withSecond(second.URL()), videoRoutes(resubmits)))
	inherit(t, r, "v", boundTo("second")...)
	end := last(follow(t, r.log, videoID("v")))
	if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || end.Job.GetExecution().GetUpstream() != "second" {
		t.Errorf("ended %v at %s", end.Job.GetError(), end.Job.GetExecution().GetUpstream())
	}
	if n := first.Sandbox.Stats().Creates; n != 0 || second.Sandbox.Stats().Creates != 1 {
		t.Errorf("creates: first %d, second %d", n, second.Sandbox.Stats().Creates)
	}
}

// TestBoundTaskThatCannotGoOnIsUnknown proves that a bound job ends as unknown if its upstream is
// no longer configured or its route changed the protocol.
func TestBoundTaskThatCannotGoOnIsUnknown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		upstream string
		change   func(*config.Config)
	}{
		"the upstream is gone": {"gone", func(*config.Config) {}},
		"another protocol":     {config.SandboxUpstream, func(c *config.Config) { speaks(c, "kling") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up, b := newSandbox(t), brokertest.Single(t)
			r := newReplica(t, b, testConfig(t, up.URL(), videoRoutes(resubmits), c.change))
			inherit(t, r, "v", boundTo(c.upstream)...)
			end := last(follow(t, r.log, videoID("v")))
			unknownEnd(t, b, end)
			doneOnce(t, b, end)
			if n := up.Sandbox.Stats().Creates; n != 0 {
				t.Errorf("%d creates", n)
			}
		})
	}
}

// TestTakenOverSubmissionThatCannotBeRepeatedIsUnknown proves that a create cut off by its holder's
// death ends as unknown if the route resubmits but cannot resubmit this one.
func TestTakenOverSubmissionThatCannotBeRepeatedIsUnknown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		upstream string
		left     time.Duration // until the deadline
		change   func(*config.Config)
	}{
		"the upstream is gone": {"gone", time.Hour, func(*config.Config) {}},
		"the deadline is over": {config.SandboxUpstream, -time.Second, func(*config.Config) {}},
		"another protocol":     {config.SandboxUpstream, time.Hour, func(c *config.Config) { speaks(c, "kling") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up, b := newSandbox(t), brokertest.Single(t)
			r := newReplica(t, b, testConfig(t, up.URL(), videoRoutes(resubmits), c.change))
			pastOf(t, forerunner(t, b), pastItem("v"), func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
				return task.Submitting(v, now, task.Submission{Upstream: c.upstream, Until: now.Add(-2 * clock.Limit), Deadline: now.Add(c.left)})
			})
			storeItem(t, b, config.SandboxVideoRoute, videoID("v"), 0)
			end := last(follow(t, r.log, videoID("v")))
			unknownEnd(t, b, end)
			doneOnce(t, b, end)
			if n := up.Sandbox.Stats().Creates; n != 0 {
				t.Errorf("%d creates", n)
			}
		})
	}
}

// TestTaskWithoutItsBodyMayBeAccepted proves that a job whose body is lost ends as unknown if an
// earlier submission may have been accepted.
func TestTaskWithoutItsBodyMayBeAccepted(t *testing.T) {
	t.Parallel()
	for name, past := range map[string][]transition{
		"bound": boundTo(config.SandboxUpstream),
		"taken over": {func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
			return task.Submitting(v, now, task.Submission{Upstream: config.SandboxUpstream, Until: now.Add(-2 * clock.Limit), Deadline: now.Add(time.Hour)})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up, b := newSandbox(t), brokertest.Single(t)
			r := newReplica(t, b, testConfig(t, up.URL(), videoRoutes(resubmits)))
			item := pastItem("v")
			item.BodyRef = &genbusv1.BlobRef{Bucket: b.Names().Bodies("acme"), Name: "lost", Size: 1, Sha256: make([]byte, 32)}
			pastOf(t, forerunner(t, b), item, past...)
			putItem(t, b, item)
			end := last(follow(t, r.log, item.GetId()))
			if letters := deadLetters(t, b); end.Job.GetError().GetCode() != "submission_outcome_unknown" || len(letters) != 1 || letters[0].GetDataRef().GetName() != "lost" {
				t.Errorf("ended %v, dead letters %v", end.Job.GetError(), letters)
			}
			doneOnce(t, b, end)
		})
	}
}

func putItem(t testing.TB, b *broker.Broker, item *genbusv1.WorkItem) {
	t.Helper()
	data, err := proto.Marshal(item)
	if err != nil {
		t.Fatal(err)
	}
	m := nats.NewMsg(b.Names().WorkItem(subject.Video, item.GetRoute(), item.GetTenant(), item.GetId()))
	m.Data = data
	if _, err := b.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func TestBoundOrphanEndsAsUnknown(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, up.URL()))
	item := pastItem("v")
	item.Route = "gone"
	pastOf(t, r.log, item, boundTo(config.SandboxUpstream)...)
	storeItem(t, b, "gone", videoID("v"), 0)
	r.failRemoved(t)
	end := last(follow(t, r.log, videoID("v")))
	unknownEnd(t, b, end)
	doneOnce(t, b, end)
	if n := up.Sandbox.Stats().Creates; n != 0 {
		t.Errorf("%d creates", n)
	}
}

// speaks changes the protocol of the sandbox's first route, so that no route has the old one.
func speaks(c *config.Config, protocol string) {
	for i := range c.Routes {
		if c.Routes[i].Name == config.SandboxVideoRoute {
			c.Routes[i].Protocol = protocol
		}
	}
}

// TestTaskIsReadInItsOwnProtocol proves that a job whose route changed the protocol is polled
// through another route with the old protocol, and otherwise ends with its task ID.
func TestTaskIsReadInItsOwnProtocol(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*config.Config)
		code   string
	}{
		"another route has it": {func(c *config.Config) {
			c.Routes = append(c.Routes, config.NewRoute("old", config.KindVideo, config.SandboxUpstream, "old"))
		}, ""},
		"no route has it": {func(*config.Config) {}, "upstream_removed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokertest.Single(t)
			url := scripted(t, map[string]http.HandlerFunc{pollPath: respondCompleted})
			r := newReplica(t, b, testConfig(t, url, func(cfg *config.Config) { speaks(cfg, "kling") }, c.change))
			inherit(t, r, "v", submittingTo(config.SandboxUpstream), func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
				return task.Submitted(v, now, task.Receipt{UpstreamID: "up_1", Status: "queued"})
			})
			end := last(follow(t, r.log, videoID("v")))
			if end.Job.GetError().GetCode() != c.code || c.code != "" && !strings.Contains(end.Job.GetError().GetMessage(), "up_1") {
				t.Errorf("ended %v", end.Job.GetError())
			}
			doneOnce(t, b, end)
		})
	}
}

// TestQueuedTaskOfAnotherProtocolEnds proves that a queued job ends if its route changed the
// protocol.
func TestQueuedTaskOfAnotherProtocolEnds(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, up.URL(), func(c *config.Config) { speaks(c, "kling") }))
	inherit(t, r, "v")
	end := last(follow(t, r.log, videoID("v")))
	if end.Job.GetError().GetCode() != "upstream_removed" || up.Sandbox.Stats().Creates != 0 {
		t.Errorf("ended %v after %d creates", end.Job.GetError(), up.Sandbox.Stats().Creates)
	}
	doneOnce(t, b, end)
}
