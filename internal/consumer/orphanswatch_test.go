package consumer

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/faultinject"
)

// removes makes a configuration one whose routes all have other names.
func removes(orphans string) func(*config.Config) {
	return func(c *config.Config) {
		c.Orphans = orphans
		for i := range c.Routes {
			c.Routes[i].Name = "new-" + c.Routes[i].Name
		}
	}
}

// slotsOf bounds what the routes of a configuration hold.
func slotsOf(videos, chats int) func(*config.Config) {
	return func(c *config.Config) {
		for i := range c.Routes {
			c.Routes[i].MaxInFlight = videos
			if c.Routes[i].Kind == config.KindChat {
				c.Routes[i].MaxInFlight = chats
			}
		}
	}
}

// modes are what may become of orphans.
var modes = []string{config.OrphansFail, config.OrphansReroute}

// heard counts the requests about a route's consumer that have all the words.
func heard(t testing.TB, b *broker.Broker, api string, kind subject.Kind, route string, words ...string) *atomic.Int64 {
	t.Helper()
	var n atomic.Int64
	subj := fmt.Sprintf("$JS.API.CONSUMER.%s.%s.%s", api, b.Names().Work(), subject.WorkDurable(kind, route))
	sub, err := b.Conn().Subscribe(subj, func(m *nats.Msg) {
		for _, word := range words {
			if !strings.Contains(string(m.Data), word) {
				return
			}
		}
		n.Add(1)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	return &n
}

// questions counts how often somebody has asked for all that a route's replicas hold.
func questions(t testing.TB, b *broker.Broker, kind subject.Kind, route string) *atomic.Int64 {
	t.Helper()
	return heard(t, b, "MSG.NEXT", kind, route, `"batch":1,`, `"no_wait":true`)
}

// enoughQuestions is more than it takes to adopt what nobody holds.
const enoughQuestions = 3

// TestRemovedRouteOfALivingReplica: it keeps what it holds. These tests run beside each
// other, and beside no others of the package: a replica that gets no processor for
// AckWait extends nothing, and is as good as dead.
func TestRemovedRouteOfALivingReplica(t *testing.T) {
	t.Run("that is full", testRemovedRouteOfAFullReplica)
	t.Run("that was away", testRemovedRouteOfAReplicaThatWasAway)
	t.Run("that has places left", testRemovedRouteWithPlacesLeft)
}

// testRemovedRouteOfAFullReplica: the old replica has no free slot on the routes that
// the new one does not have, so that no pull of it waits, and nothing ends for long.
// What it holds, and what is queued behind that, is left to it, whatever is to become
// of orphans: nobody asks before there are any.
func testRemovedRouteOfAFullReplica(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b, up := open(t), newSlowUpstream(t)
		older := newReplica(t, b, testConfig(t, up.url, slotsOf(3, 1), videoRoutes(func(r *config.Route) { r.ReadyJobs = 1 })))
		ids := inFlight(t, b, older.log, up, 3)
		queued := []string{publish(t, b, subject.Chat, "queued", chatRequest("queued", "sandbox-chat", true))}
		for _, request := range []string{"in line", "behind it"} {
			queued = append(queued, publish(t, b, subject.Video, request, videoRequest(request, "sandbox-video", "a cat")))
		}
		for _, id := range queued {
			follow(t, older.log, id, genbusv1.JobPhase_JOB_PHASE_QUEUED)
		}
		if n := items(t, b, b.Names().Wait(), b.Names().WaitPattern()); n != 1 {
			t.Errorf("%d jobs wait behind the line", n)
		}
		videos := questions(t, b, subject.Video, config.SandboxVideoRoute)
		chats := questions(t, b, subject.Chat, config.SandboxChatRoute)
		newReplica(t, b, testConfig(t, up.url, removes(config.OrphansReroute)))
		shortly(t, "the new replica asks for the jobs", func() bool { return videos.Load() >= enoughQuestions && chats.Load() >= enoughQuestions })
		close(up.done)
		allCompleted(t, b, older.log, append(ids, queued...))
		up.askedOnce(t, 5, 2)
		for _, id := range append(ids, queued...) {
			if end := last(follow(t, older.log, id)); end.Job.GetExecution().GetWriter() != older.log.Writer() {
				t.Errorf("%s was ended by the new replica", id)
			}
		}
		if n := up.number(func() int { return up.cut }); n != 0 {
			t.Errorf("%d chats were cut", n)
		}
	})
}

// testRemovedRouteOfAReplicaThatWasAway: the broker was away for longer than AckWait.
// All that the full old replica holds would be delivered to whoever asks.
func testRemovedRouteOfAReplicaThatWasAway(t *testing.T) {
	t.Parallel()
	link, through, direct := linked(t)
	up := newSlowUpstream(t)
	const videos = 3
	cfg := testConfig(t, up.url, slotsOf(videos, 1))
	older := newReplica(t, through, cfg)
	l := directLog(t, direct, cfg)
	ids := inFlight(t, direct, l, up, videos)
	before := reconnects(through)
	link.Cut(faultinject.Reset)
	if err := broker.Wait(t.Context(), cfg.Routes[0].AckWait*5/4); err != nil { // time is what is tested
		t.Fatal(err)
	}
	link.Heal()
	shortly(t, "the old replica is back", func() bool { return reconnects(through) > before && through.Ready(t.Context()) == nil })
	asked := questions(t, direct, subject.Video, config.SandboxVideoRoute)
	newReplica(t, direct, testConfig(t, up.url, removes(config.OrphansFail)))
	shortly(t, "the new replica was given them", func() bool { return redelivered(t, direct) >= videos })
	shortly(t, "it asks for them again", func() bool { return asked.Load() >= enoughQuestions })
	if n := heldJobs(older.held); n != videos+1 {
		t.Errorf("the old replica holds %d jobs, want %d", n, videos+1)
	}
	close(up.done)
	allCompleted(t, direct, l, ids)
	up.askedOnce(t, videos, 1)
}

// testRemovedRouteWithPlacesLeft: its consumer would deliver more than the old
// replica, which is older than that limit, has slots for. What the new one is given is
// no sign that nobody lives, and the old one gets it after all.
func testRemovedRouteWithPlacesLeft(t *testing.T) {
	t.Parallel()
	b, up := brokertest.Single(t), newSlowUpstream(t)
	older := newReplica(t, b, testConfig(t, up.url, slotsOf(3, 1)))
	ids := inFlight(t, b, older.log, up, 3)
	cons, err := b.Consumer(t.Context(), b.Names().Work(), subject.WorkDurable(subject.Video, config.SandboxVideoRoute))
	if err != nil {
		t.Fatal(err)
	}
	raised := cons.CachedInfo().Config
	raised.MaxAckPending = 10
	if _, err := b.EnsureConsumer(t.Context(), b.Names().Work(), raised); err != nil {
		t.Fatal(err)
	}
	for _, request := range []string{"one", "two"} {
		ids = append(ids, publish(t, b, subject.Video, request, videoRequest(request, "sandbox-video", "a cat")))
		follow(t, older.log, ids[len(ids)-1], genbusv1.JobPhase_JOB_PHASE_QUEUED)
	}
	asked := questions(t, b, subject.Video, config.SandboxVideoRoute)
	newReplica(t, b, testConfig(t, up.url, removes(config.OrphansFail)))
	shortly(t, "the new replica was given one", func() bool { return redelivered(t, b) > 0 })
	shortly(t, "it asks again", func() bool { return asked.Load() >= 2 })
	close(up.done)
	allCompleted(t, b, older.log, ids)
	up.askedOnce(t, 5, 1)
}

// TestRemovedRouteOfADeadReplica: it held as much as it may, and gives nothing back.
// Three new replicas want to adopt it all at the same time; one of them does.
func TestRemovedRouteOfADeadReplica(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
				b, up := open(t), newSlowUpstream(t)
				older := newReplica(t, b, testConfig(t, up.url, slotsOf(3, 1)))
				var ids []string
				for i := range 5 {
					request := fmt.Sprint("v", i)
					ids = append(ids, publish(t, b, subject.Video, request, videoRequest(request, "sandbox-video", "a cat")))
					until := genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS
					if i >= 3 {
						until = genbusv1.JobPhase_JOB_PHASE_QUEUED
					}
					follow(t, older.log, ids[i], until)
				}
				older.stop(false)
				replicas := make([]*replica, 3)
				for i := range replicas {
					replicas[i] = newReplica(t, b, testConfig(t, up.url, removes(mode)))
				}
				close(up.done)
				if mode == config.OrphansReroute {
					allCompleted(t, b, replicas[0].log, ids)
					up.askedOnce(t, 5, 0)
					return
				}
				for _, id := range ids {
					end := last(follow(t, replicas[0].log, id))
					if end.Job.GetError().GetCode() != "upstream_removed" {
						t.Errorf("%s ended %v with %v", id, end.Job.GetStatus(), end.Job.GetError())
					}
					doneOnce(t, b, end)
				}
				if letters := deadLetters(t, b); len(letters) != 3 || letters[0].GetUpstreamTaskId() == "" {
					t.Errorf("dead letters: %v", letters)
				}
				up.askedOnce(t, 3, 0)
			})
		})
	}
}

// TestPausedRemovedRoute: JetStream delivers nothing of it to anybody, so that nobody
// can tell whether it has a holder. Its jobs wait until the pause is over.
func TestPausedRemovedRoute(t *testing.T) {
	t.Parallel()
	b, up := brokertest.Single(t), newSandbox(t)
	newReplica(t, b, testConfig(t, up.URL())).stop(true)
	pause := func(until time.Time) {
		t.Helper()
		if _, err := b.JetStream().PauseConsumer(t.Context(), b.Names().Work(), subject.WorkDurable(subject.Video, config.SandboxVideoRoute), until); err != nil {
			t.Fatal(err)
		}
	}
	pause(time.Now().Add(time.Hour))
	item := storeItem(t, b, config.SandboxVideoRoute, videoID("v"), 0)
	looked := heard(t, b, "INFO", subject.Video, config.SandboxVideoRoute)
	r := newReplica(t, b, testConfig(t, up.URL(), removes(config.OrphansFail)))
	shortly(t, "the new replica looks", func() bool { return looked.Load() >= 3 })
	if _, err := r.Queue.Find(t.Context(), nameOf(item)); err != nil {
		t.Errorf("the item: %v", err)
	}
	pause(time.Time{})
	if end := last(follow(t, r.log, item.GetId())); end.Job.GetError().GetCode() != "upstream_removed" {
		t.Errorf("ended %v", end.Job.GetError())
	}
}
