package tasklog_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/faulttest"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
)

// TestTwoWritersWithLostAnswers: of two writers of one version, one reaches the
// broker through a link that is reset while its write or the answer is on its way.
// Whatever it hears, exactly one of the two believes that it won, and it is the one
// whose event the log has.
func TestTwoWritersWithLostAnswers(t *testing.T) {
	t.Parallel()
	t.Run("R1", func(t *testing.T) {
		t.Parallel()
		s, err := server.NewServer(&server.Options{
			ServerName: "alone", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), JetStreamMaxMemory: 512 << 20, JetStreamMaxStore: 100 << 30, MaxPayload: 8 << 20,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		if !s.ReadyForConnections(time.Minute) {
			t.Fatal("the NATS server did not start")
		}
		lanes(t, 1, s.ClientURL())
	})
	t.Run("R3", func(t *testing.T) {
		t.Parallel()
		c := brokertest.NewCluster(t)
		c.Open(t) // makes the streams
		lanes(t, 3, c.Servers[0].ClientURL())
	})
}

// lanes are pairs of writers, each pair with a job and a link of its own: a lost
// answer costs its writer seconds.
func lanes(t *testing.T, replicas int, url string) {
	t.Helper()
	for _, id := range []string{"video_a", "video_b", "video_c", "video_d"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			twoWriters(t, replicas, url, id)
		})
	}
}

func twoWriters(t *testing.T, replicas int, url, id string) {
	t.Helper()
	link, err := faulttest.NewLink(strings.TrimPrefix(url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
	open := func(url string) *tasklog.Log {
		b, err := broker.Open(t.Context(), broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: url, Replicas: replicas})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := b.EnsureStreams(t.Context()); err != nil {
			t.Fatal(err)
		}
		return newLog(t, b, "")
	}
	steady, shaky := open(url), open("nats://"+link.Addr())
	name := subject.TaskName{Kind: subject.Video, Tenant: "acme", ID: id}
	const rounds = 24
	last, cuts, shakyWon := uint64(0), 0, 0
	now := time.Now()
	for round := range rounds {
		var current tasklog.Entry
		if round > 0 {
			current = must[tasklog.Entry](t)(steady.Get(t.Context(), name))
			last = current.Seq
		}
		next := func() task.Event { // each writer has an event of its own
			switch {
			case round == 0:
				return task.FromWork(work(name.ID))
			case round%2 == 1:
				return must[task.Event](t)(task.Submitting(video(current), now, task.Submission{Upstream: "u", Until: now.Add(time.Minute), Deadline: now.Add(time.Hour)}))
			default:
				return must[task.Event](t)(task.Requeued(video(current), now, now, "busy"))
			}
		}
		ofSteady, ofShaky := next(), next()
		link.Delay(3 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var results [2]error
		var wg sync.WaitGroup
		wg.Go(func() { _, results[1] = shaky.Commit(ctx, ofShaky, last) })
		wg.Go(func() {
			if round%4 == 3 { // nearly always too late
				_ = broker.Wait(ctx, 15*time.Millisecond)
			}
			_, results[0] = steady.Commit(ctx, ofSteady, last)
		})
		if round%6 == 3 {
			// Somewhere between the request and its answer.
			_ = broker.Wait(ctx, rand.N(9*time.Millisecond))
			link.Cut(faulttest.Reset)
			_ = broker.Wait(ctx, 5*time.Millisecond)
			link.Heal()
			cuts++
		}
		wg.Wait()
		cancel()
		won := -1
		for i, err := range results {
			var lost *tasklog.LostError
			switch {
			case err == nil && won >= 0:
				t.Fatalf("round %d: both won", round)
			case err == nil:
				won = i
			case !errors.As(err, &lost):
				t.Fatalf("round %d: writer %d: %v", round, i, err)
			}
		}
		if won < 0 {
			t.Fatalf("round %d: nobody won: %v", round, results)
		}
		shakyWon += won
		stored := must[tasklog.Entry](t)(steady.Get(t.Context(), name))
		if writer := []string{steady.Writer(), shaky.Writer()}[won]; stored.Version() != uint64(round+1) || stored.Job.GetExecution().GetWriter() != writer {
			t.Fatalf("round %d: version %d by %s, want it by %s", round, stored.Version(), stored.Job.GetExecution().GetWriter(), writer)
		}
	}
	t.Logf("%d rounds with %d cuts; the writer behind the link won %d", rounds, cuts, shakyWon)
	if history := must[[]tasklog.Entry](t)(steady.History(t.Context(), name, 0)); len(history) != rounds {
		t.Errorf("%d events", len(history))
	}
}

// TestFollowersWithoutLiveMessages: live messages are dropped at random, up to all
// of them. What a follower saw is what the log has, the end included.
func TestFollowersWithoutLiveMessages(t *testing.T) {
	t.Parallel()
	for name, share := range map[string]float64{"some": 0.3, "most": 0.8, "all": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokertest.Single(t)
			writer, reader := newLog(t, b, publisher.Protobuf), newLog(t, b, publisher.Protobuf)
			reader.DropLive(share)
			const jobs = 20
			var wg sync.WaitGroup
			for i := range jobs {
				id := "video_" + string(rune('a'+i))
				e := must[tasklog.Entry](t)(writer.Commit(t.Context(), task.FromWork(work(id)), 0))
				following := make(chan struct{})
				wg.Go(func() {
					var seen []string
					for got, err := range reader.Follow(t.Context(), e.Name(), 0) {
						if err != nil {
							t.Errorf("%s: %v", id, err)
							return
						}
						if seen = append(seen, got.ID()); len(seen) == 1 {
							close(following)
						}
					}
					history, err := writer.History(t.Context(), e.Name(), 0)
					if err != nil {
						t.Error(err)
						return
					}
					var want []string
					for _, h := range history {
						want = append(want, h.ID())
					}
					if strings.Join(seen, " ") != strings.Join(want, " ") {
						t.Errorf("%s: saw %v, the log has %v", id, seen, want)
					}
				})
				wg.Go(func() {
					<-following
					now := time.Now()
					next, err := task.Submitting(video(e), now, task.Submission{Upstream: "u", Until: now.Add(time.Minute), Deadline: now.Add(time.Hour)})
					if err == nil {
						e, err = writer.Commit(t.Context(), next, e.Seq)
					}
					if err == nil {
						next, err = task.Submitted(video(e), now, task.Receipt{UpstreamID: "up_1", Status: "queued"})
					}
					if err == nil {
						e, err = writer.Commit(t.Context(), next, e.Seq)
					}
					if err == nil {
						next, err = task.Completed(video(e), time.Now(), task.Result{})
					}
					if err == nil {
						_, err = writer.Commit(t.Context(), next, e.Seq)
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		})
	}
}
