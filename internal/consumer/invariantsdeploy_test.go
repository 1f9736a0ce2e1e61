package consumer

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/faultinject"
)

// changes records requests that change streams, or durable consumers that carry jobs.
type changes struct {
	mu   sync.Mutex
	seen []string
}

func watchChanges(t testing.TB, b *broker.Broker) *changes {
	t.Helper()
	c := &changes{}
	n := b.Names()
	for _, pattern := range []string{
		"$JS.API.STREAM.UPDATE.>", "$JS.API.STREAM.CREATE.>", "$JS.API.STREAM.DELETE.>",
		"$JS.API.CONSUMER.CREATE." + n.Work() + ".>", "$JS.API.CONSUMER.CREATE." + n.Requests() + ".>",
		"$JS.API.CONSUMER.DELETE." + n.Work() + ".>", "$JS.API.CONSUMER.DELETE." + n.Requests() + ".>",
	} {
		sub, err := b.Conn().Subscribe(pattern, func(m *nats.Msg) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.seen = append(c.seen, m.Subject)
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *changes) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.seen
	c.seen = nil
	return seen
}

func maxAckPending(t testing.TB, b *broker.Broker, durable string) (limit int, exists bool) {
	t.Helper()
	cons, err := b.JetStream().Consumer(t.Context(), b.Names().Work(), durable)
	if err != nil {
		return 0, false
	}
	return cons.CachedInfo().Config.MaxAckPending, true
}

// TestTwoConfigurationsAtOnce proves that streams and consumers keep the configuration of the
// latest started replica while an older one with another limit or route name reconnects, and that
// all jobs complete.
func TestTwoConfigurationsAtOnce(t *testing.T) {
	t.Parallel()
	for name, rename := range map[string]bool{"another limit": false, "another name": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			link, through, direct := linked(t)
			up := newSlowUpstream(t)
			oldRoute, newRoute := config.SandboxVideoRoute, config.SandboxVideoRoute
			if rename {
				newRoute = "renamed"
			}
			older := newReplica(t, through, testConfig(t, up.url, takes(20)))
			ids := sendMore(t, older, direct, nil, 5)
			seen := watchChanges(t, direct)
			newer := newReplica(t, direct, testConfig(t, up.url, takes(30), renamedTo(newRoute)))
			// A start ensures every consumer, and the chat inbox is the last one.
			shortly(t, "the start was heard", func() bool {
				return slices.ContainsFunc(seen.take(), func(s string) bool { return strings.Contains(s, "intake-chat") })
			})
			for range 3 {
				before := reconnects(through)
				link.Cut(faultinject.Reset)
				link.Heal()
				shortly(t, "the older replica is back", func() bool { return reconnects(through) > before && through.Ready(t.Context()) == nil })
				ids = sendMore(t, newer, direct, ids, 3)
			}
			close(up.done)
			allCompleted(t, direct, newer.log, ids)
			up.askedOnceEach(t, ids)
			if changed := seen.take(); len(changed) != 0 {
				t.Errorf("changed: %v", changed)
			}
			if limit, ok := maxAckPending(t, direct, subject.WorkDurable(subject.Video, newRoute)); !ok || limit != 30 {
				t.Errorf("the limit is %d", limit)
			}
			if limit, ok := maxAckPending(t, direct, subject.WorkDurable(subject.Video, oldRoute)); rename && (!ok || limit != 20) {
				t.Errorf("the limit of the old route is %d", limit)
			}
		})
	}
}

// takes sets the limit of the video route, in a configuration as on a cluster: a start takes no
// messages back.
func takes(maxInFlight int) func(*config.Config) {
	return func(c *config.Config) {
		c.NATS.URL = "nats://127.0.0.1:4222"
		theVideoRoute(c).MaxInFlight = maxInFlight
	}
}

func renamedTo(name string) func(*config.Config) {
	return func(c *config.Config) {
		theVideoRoute(c).Name = name
	}
}

func theVideoRoute(c *config.Config) *config.Route {
	return &c.Routes[slices.IndexFunc(c.Routes, func(r config.Route) bool { return r.Name == config.SandboxVideoRoute })]
}

// sendMore publishes n more videos and waits until all are in progress.
func sendMore(t testing.TB, r *replica, b *broker.Broker, ids []string, n int) []string {
	t.Helper()
	for range n {
		request := fmt.Sprint("v", len(ids))
		ids = append(ids, publish(t, b, subject.Video, request, videoRequest(request, "sandbox-video", "a cat")))
	}
	for _, id := range ids {
		follow(t, r.log, id, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)
	}
	return ids
}

func reconnects(b *broker.Broker) uint64 { return b.Conn().Stats().Reconnects }

// TestRouteRemovedInARollingDeploy proves that jobs of a removed route end at the old replica that
// holds them, or after its stop at a replica that has the route.
func TestRouteRemovedInARollingDeploy(t *testing.T) {
	t.Parallel()
	for name, stops := range map[string]bool{"the old one finishes": false, "the old one stops": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, up := brokertest.Single(t), newSlowUpstream(t)
			older := newReplica(t, b, testConfig(t, up.url))
			var ids []string
			for i := range 5 {
				request := fmt.Sprint("v", i)
				ids = append(ids, publish(t, b, subject.Video, request, videoRequest(request, "sandbox-video", "a cat")))
			}
			for _, id := range ids {
				follow(t, older.log, id, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)
			}
			newReplica(t, b, testConfig(t, up.url, renamedTo("all")))
			ends := older
			if stops {
				older.stop(true)
				ends = newReplica(t, b, testConfig(t, up.url))
			}
			close(up.done)
			for _, id := range ids {
				end := last(follow(t, ends.log, id))
				if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || end.Job.GetExecution().GetWriter() != ends.log.Writer() {
					t.Errorf("%s ended %v, %v, by %s", id, end.Job.GetStatus(), end.Job.GetError(), end.Job.GetExecution().GetWriter())
				}
				doneOnce(t, b, end)
			}
			up.askedOnceEach(t, ids)
		})
	}
}

// TestRetriesOfAnOutageStayInTheirBudget proves that an upstream that refuses every create gets
// first attempts plus at most the retry budget.
func TestRetriesOfAnOutageStayInTheirBudget(t *testing.T) {
	t.Parallel()
	const videos, perSecond, share = 300, 5, 0.1
	b := brokertest.Single(t)
	var mu sync.Mutex
	var posts []time.Time
	up := newSandbox(t)
	outage := true
	up.Sandbox.SetBehaviour(func(r *http.Request, _ []byte) *sandbox.Behaviour {
		mu.Lock()
		defer mu.Unlock()
		if r.Method != http.MethodPost {
			return nil
		}
		posts = append(posts, time.Now())
		if outage {
			return &sandbox.Behaviour{Status: http.StatusTooManyRequests}
		}
		return nil
	})
	r := newReplica(t, b, testConfig(t, up.URL(), videoRoutes(func(r *config.Route) { r.MaxInFlight = videos }), func(c *config.Config) {
		c.Retry = config.Retry{Share: share, PerSecond: perSecond}
	}))
	var ids []string
	for i := range videos {
		request := fmt.Sprint("v", i)
		ids = append(ids, publish(t, b, subject.Video, request, videoRequest(request, "sandbox-video", "a cat")))
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(posts)
	}
	// How many go out before the first refusal varies.
	shortly(t, "the outage is met", func() bool { return count() >= 10 })
	if err := broker.Wait(t.Context(), 5*time.Second); err != nil { // a rate needs time
		t.Fatal(err)
	}
	for _, id := range ids[:5] { // while no job can end
		cancelJob(t, r.log, last(follow(t, r.log, id, genbusv1.JobPhase_JOB_PHASE_QUEUED)))
	}
	mu.Lock()
	outage = false
	began, ended, n := posts[0], time.Now(), len(posts)
	mu.Unlock()
	creates := up.Sandbox.Stats().CreatesPerKey
	firsts := len(creates)
	const saved = 10 * perSecond // of the floor, and as much as credit
	most := firsts + saved + int(share*float64(firsts)) + int(ended.Sub(began).Seconds()*perSecond) + 1
	t.Logf("%d POSTs for %d videos in %s, at most %d", n, firsts, ended.Sub(began), most)
	if n > most {
		t.Errorf("%d POSTs, want at most %d", n, most)
	}
	if s := up.Sandbox.Stats(); s.MaxAcceptsPerKey > 1 {
		t.Errorf("accepted %d times", s.MaxAcceptsPerKey)
	}
}
