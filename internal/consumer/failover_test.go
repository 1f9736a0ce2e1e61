package consumer

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
)

// withSecond adds an upstream with the same models behind the sandbox, on every route.
func withSecond(url string) func(*config.Config) {
	return func(c *config.Config) {
		c.Upstreams["second"] = config.NewUpstream(url)
		for i := range c.Routes {
			c.Routes[i].Upstream = ""
			c.Routes[i].Upstreams = []config.Target{{Name: config.SandboxUpstream}, {Name: "second"}}
		}
	}
}

// refuseCreates makes a sandbox treat every create as b says.
func refuseCreates(s *sandbox.Server, b sandbox.Behaviour) {
	s.Sandbox.SetBehaviour(func(r *http.Request, _ []byte) *sandbox.Behaviour {
		if r.Method == http.MethodPost {
			return &b
		}
		return nil
	})
}

// TestVideoFailsOverOnlyWhenNotAccepted proves which refusals of the first upstream lead to the
// second one.
func TestVideoFailsOverOnlyWhenNotAccepted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first sandbox.Behaviour
		// upstream is where the job ends, and code its error.
		upstream, code string
	}{
		"model unknown there":   {sandbox.Behaviour{Status: 503, Code: "model_not_found"}, "second", ""},
		"overloaded":            {sandbox.Behaviour{Status: 503, Code: "system_cpu_overloaded"}, "second", ""},
		"key refused":           {sandbox.Behaviour{Status: 401}, "second", ""},
		"quota used up":         {sandbox.Behaviour{Status: 403, Code: "insufficient_user_quota"}, "second", ""},
		"rate limited":          {sandbox.Behaviour{Status: 429, RetryAfter: "30"}, "second", ""},
		"request refused":       {sandbox.Behaviour{Status: 400, Code: "invalid_request"}, config.SandboxUpstream, "upstream_refused"},
		"accepted, answer lost": {sandbox.Behaviour{Drop: sandbox.DropAfterCreate}, config.SandboxUpstream, "submission_outcome_unknown"},
		"unlisted 500":          {sandbox.Behaviour{Status: 500, Code: "oops"}, config.SandboxUpstream, "submission_outcome_unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second, b := newSandbox(t), newSandbox(t), brokertest.Single(t)
			refuseCreates(first, c.first)
			r := newReplica(t, b, testConfig(t, first.URL(), withSecond(second.URL())))
			id := publish(t, b, subject.Video, "v", videoRequest("v", "sandbox-video", "a cat"))
			end := last(follow(t, r.log, id))
			x := end.Job.GetExecution()
			if x.GetUpstream() != c.upstream || end.Job.GetError().GetCode() != c.code {
				t.Errorf("ended at %q with %v", x.GetUpstream(), end.Job.GetError())
			}
			asked := second.Sandbox.Stats().Creates
			if want := int64(0); c.upstream == "second" {
				if asked != 1 || second.Sandbox.Stats().Polls == 0 {
					t.Errorf("the second upstream got %d creates and %d polls", asked, second.Sandbox.Stats().Polls)
				}
			} else if asked != want {
				t.Errorf("the second upstream got %d creates", asked)
			}
			doneOnce(t, b, end)
		})
	}
}

// TestACreateAtAnUnknownPath proves that a create whose answer is a 404 without an error goes to the
// other upstream, or waits until the path is there.
func TestACreateAtAnUnknownPath(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]bool{"another upstream": true, "no other": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var creates atomic.Int64
			url := scripted(t, map[string]http.HandlerFunc{
				createPath: func(w http.ResponseWriter, r *http.Request) {
					if creates.Add(1) <= 2 {
						http.NotFound(w, r)
						return
					}
					respond(`{"task_id":"up_1","status":"queued"}`)(w, r)
				},
				pollPath: respond(`{"task_id":"up_1","status":"completed","url":"https://example.com/v.mp4"}`),
			})
			b, change, want := brokertest.Single(t), func(*config.Config) {}, config.SandboxUpstream
			if second {
				change, want = withSecond(newSandbox(t).URL()), "second"
			}
			r := newReplica(t, b, testConfig(t, url, change))
			end := last(follow(t, r.log, publish(t, b, subject.Video, "v", videoRequest("v", "sandbox-video", "a cat"))))
			if at := end.Job.GetExecution().GetUpstream(); at != want || end.Job.GetError() != nil {
				t.Errorf("ended at %q with %v", at, end.Job.GetError())
			}
			if n := creates.Load(); second != (n == 1) || !second && n != 3 {
				t.Errorf("the first upstream got %d creates", n)
			}
			doneOnce(t, b, end)
		})
	}
}

// TestAFailingUpstreamEatsFewJobs proves that an upstream which fails all creates costs only the
// first jobs and one after each wait of its breaker.
func TestAFailingUpstreamEatsFewJobs(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{1, 2} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			t.Parallel()
			brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
				const jobs = 200
				first, second, b := newSandbox(t), newSandbox(t), open(t)
				refuseCreates(first, sandbox.Behaviour{Status: 500, Code: "oops"})
				cfg := testConfig(t, first.URL(), withSecond(second.URL()))
				r := newReplica(t, b, cfg)
				for range replicas - 1 {
					newReplica(t, open(t), cfg)
				}
				begin := time.Now()
				lost := 0
				var ids []string
				for i := range jobs {
					request := fmt.Sprint("v", i)
					ids = append(ids, publish(t, b, subject.Video, request, videoRequest(request, "sandbox-video:duration_ms=1", "a cat")))
					if i == 0 {
						last(follow(t, r.log, ids[0])) // none is at the upstream when the others come
					}
				}
				for _, id := range ids {
					switch end := last(follow(t, r.log, id)); {
					case end.Job.GetError().GetCode() == "submission_outcome_unknown":
						lost++
					case end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || end.Job.GetExecution().GetUpstream() != "second":
						t.Errorf("%s ended %v", id, end.Job.GetError())
					}
				}
				waits := int(time.Since(begin) / cfg.Upstreams[config.SandboxUpstream].Breaker.OpenFor)
				if lost < 1 || lost > 3+waits || len(deadLetters(t, b)) != lost {
					t.Errorf("%d of %d jobs were lost in %v, with %d dead letters", lost, jobs, time.Since(begin), len(deadLetters(t, b)))
				}
				t.Logf("%d of %d jobs were lost in %v", lost, jobs, time.Since(begin))
			})
		})
	}
}

// TestASlipInRetryAfterDoesNotParkATask proves that a job with an excessive Retry-After is retried
// within minutes.
func TestASlipInRetryAfterDoesNotParkATask(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	refuseCreates(up, sandbox.Behaviour{Status: 429, RetryAfter: "86400"})
	r := newReplica(t, b, testConfig(t, up.URL()))
	id := publish(t, b, subject.Video, "v", videoRequest("v", "sandbox-video", "a cat"))
	name := subject.JobName{Kind: subject.Video, Tenant: "acme", ID: id}
	var notBefore *timestamppb.Timestamp
	r.eventually(t, "it is refused", func() bool {
		e, err := r.log.Get(t.Context(), name)
		if err == nil {
			notBefore = e.Job.GetExecution().GetNotBefore()
		}
		return notBefore != nil
	})
	if wait := time.Until(notBefore.AsTime()); wait > 15*time.Minute || wait < time.Minute {
		t.Errorf("it is tried again in %s", wait)
	}
}

// TestKeysTakeTurnsAndRest proves that jobs use the keys in turn, and that a refused key rests and
// costs no job.
func TestKeysTakeTurnsAndRest(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	up.Sandbox.SetBehaviour(func(r *http.Request, _ []byte) *sandbox.Behaviour {
		if r.Method == http.MethodPost && r.Header.Get("Authorization") == "Bearer key-bad" {
			return &sandbox.Behaviour{Status: 401}
		}
		return nil
	})
	r := newReplica(t, b, testConfig(t, up.URL(), func(c *config.Config) {
		u := c.Upstreams[config.SandboxUpstream]
		for _, name := range []string{"a", "bad", "c"} {
			u.Keys = append(u.Keys, config.UpstreamKey{Name: name, Key: config.NewSecret("key-" + name), KeyEnv: "KEY"})
		}
		c.Upstreams[config.SandboxUpstream] = u
	}))
	var used []string
	for _, request := range []string{"1", "2", "3", "4", "5", "6"} {
		end := last(follow(t, r.log, publish(t, b, subject.Video, request, videoRequest(request, "sandbox-video:duration_ms=1", "a cat"))))
		if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
			t.Errorf("ended %v", end.Job.GetError())
		}
		used = append(used, end.Job.GetExecution().GetUpstreamKey())
	}
	if !slices.Contains(used, "a") || !slices.Contains(used, "c") || slices.Contains(used, "bad") {
		t.Errorf("keys used: %v", used)
	}
	if n := up.Sandbox.Stats().CreatesPerAuthorization[sandbox.Fingerprint("key-bad")]; n > 1 {
		t.Errorf("the refused key was tried %d times", n)
	}
}

// TestTaskStaysWithItsKey proves that another replica, whose route prefers another upstream, polls
// where the task is.
func TestTaskStaysWithItsKey(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		first, second := newSlowUpstream(t), newSlowUpstream(t)
		polls := func(u *slowUpstream) int { return u.number(func() int { return u.reads }) }
		one := newReplica(t, open(t), testConfig(t, first.url, withSecond(second.url)))
		id := publish(t, one.Broker, subject.Video, "v", videoRequest("v", "sandbox-video", "a cat"))
		follow(t, one.log, id, genbusv1.JobPhase_JOB_PHASE_SUBMITTED)
		one.stop(true)
		before := polls(first)
		two := newReplica(t, open(t), testConfig(t, first.url, withSecond(second.url), func(c *config.Config) {
			for i := range c.Routes {
				slices.Reverse(c.Routes[i].Upstreams)
			}
		}))
		two.eventually(t, "a poll", func() bool { return polls(first)+polls(second) > before })
		close(first.done)
		end := last(follow(t, two.log, id))
		if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || end.Job.GetExecution().GetUpstream() != config.SandboxUpstream {
			t.Errorf("ended %v at %s", end.Job.GetError(), end.Job.GetExecution().GetUpstream())
		}
		if polls(first) == before || polls(second) != 0 {
			t.Errorf("polls: first %d, second %d", polls(first)-before, polls(second))
		}
	})
}

// TestAFreeSlotIsTakenAtOnce proves that the end of a job wakes the next one that waits for the
// upstream.
func TestAFreeSlotIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	for kind, request := range map[subject.Kind]func(id string) proto.Message{
		subject.Video: func(id string) proto.Message { return videoRequest(id, "sandbox-video:duration_ms=50", "a cat") },
		subject.Chat:  func(id string) proto.Message { return chatRequest(id, "sandbox-chat", true) },
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			up, b := newSandbox(t), brokertest.Single(t)
			r := newReplica(t, b, testConfig(t, up.URL(), func(c *config.Config) {
				u := c.Upstreams[config.SandboxUpstream]
				u.MaxConcurrent = 1
				c.Upstreams[config.SandboxUpstream] = u
			}))
			var ids []string
			for i := range 5 {
				name := strconv.Itoa(i)
				ids = append(ids, publish(t, b, kind, name, request(name)))
			}
			var ends []time.Time
			for _, id := range ids {
				end := last(follow(t, r.log, id))
				if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
					t.Errorf("%s ended %v", id, end.Job.GetError())
				}
				ends = append(ends, end.Time)
			}
			slices.SortFunc(ends, time.Time.Compare)
			for i := range len(ends) - 1 {
				if gap := ends[i+1].Sub(ends[i]); gap > 20*time.Second {
					t.Errorf("end %d came %s after the one before", i+1, gap)
				}
			}
		})
	}
}
