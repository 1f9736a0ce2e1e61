package joblog_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/joblog/joblogtest"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/test/faultinject"
)

// TestTwoWritersWithLostAnswers proves that exactly one of two competing writers believes that it
// won, and that the log has its event, even if the connection of one is reset during its write.
func TestTwoWritersWithLostAnswers(t *testing.T) {
	t.Parallel()
	t.Run("R1", func(t *testing.T) {
		t.Parallel()
		lanes(t, 1, brokertest.Alone(t).ClientURL())
	})
	t.Run("R3", func(t *testing.T) {
		t.Parallel()
		c := brokertest.NewCluster(t)
		c.Open(t) // creates the streams
		lanes(t, 3, c.Servers[0].ClientURL())
	})
}

// lanes runs pairs of writers in parallel, each with its own job and link, because a lost answer
// costs its writer seconds.
func lanes(t *testing.T, replicas int, url string) {
	t.Helper()
	for _, id := range []string{"video_a", "video_b", "video_c", "video_d", "video_e", "video_f", "video_g", "video_h"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			twoWriters(t, replicas, url, id)
		})
	}
}

// twoWriters runs a duel of several rounds.
func twoWriters(t *testing.T, replicas int, url, id string) {
	t.Helper()
	d := newDuel(t, replicas, url, id)
	const rounds = 12
	cuts, shakyWon := 0, 0
	begin := time.Now()
	for round := range rounds {
		var current joblog.Entry
		if round > 0 {
			current = must[joblog.Entry](t)(d.steady.Get(t.Context(), d.name))
		}
		cut := round%6 == 3
		if cut {
			cuts++
		}
		ofSteady, ofShaky := d.next(t, round, current, begin), d.next(t, round, current, begin)
		results := d.race(t, current.Seq, ofSteady, ofShaky, round%4 == 3, cut)
		won := winner(t, round, results)
		shakyWon += won
		d.hasWon(t, round, won)
	}
	t.Logf("%d rounds with %d cuts; the writer behind the link won %d", rounds, cuts, shakyWon)
	if history := must[[]joblog.Entry](t)(joblogtest.History(t.Context(), d.broker, d.name)); len(history) != rounds {
		t.Errorf("%d events", len(history))
	}
}

// duel is a job with two writers, one of them behind a faulty link.
type duel struct {
	name          subject.JobName
	link          *faultinject.Link
	broker        *broker.Broker // used by steady
	steady, shaky *joblog.Log
}

func newDuel(t *testing.T, replicas int, url, id string) *duel {
	t.Helper()
	link, err := faultinject.NewLink(strings.TrimPrefix(url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
	b := brokerAt(t, replicas, url)
	return &duel{
		name: subject.JobName{Kind: subject.Video, Tenant: "acme", ID: id}, link: link,
		broker: b, steady: newLog(t, b, ""), shaky: newLog(t, brokerAt(t, replicas, "nats://"+link.Addr()), ""),
	}
}

// brokerAt opens a separate connection.
func brokerAt(t *testing.T, replicas int, url string) *broker.Broker {
	t.Helper()
	b, err := broker.Open(t.Context(), broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: url, Replicas: replicas})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := b.Streams().Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// next returns a new event for a round; each writer needs its own.
func (d *duel) next(t *testing.T, round int, current joblog.Entry, begin time.Time) task.Event {
	t.Helper()
	switch {
	case round == 0:
		return task.FromWork(work(d.name.ID))
	case round%2 == 1:
		return must[task.Event](t)(task.Submitting(video(current), begin, task.Submission{Upstream: "u", Until: begin.Add(time.Minute), Deadline: begin.Add(time.Hour)}))
	default:
		return must[task.Event](t)(task.Requeued(video(current), begin, begin, "busy"))
	}
}

// race lets both writers write after the same event and returns their errors. With shakyFirst, the
// steady writer is nearly always too late.
func (d *duel) race(t *testing.T, after uint64, ofSteady, ofShaky task.Event, shakyFirst, cut bool) (results [2]error) {
	t.Helper()
	d.link.Delay(3 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { _, results[1] = d.shaky.Commit(ctx, ofShaky, after) })
	wg.Go(func() {
		if shakyFirst {
			_ = broker.Wait(ctx, 15*time.Millisecond)
		}
		_, results[0] = d.steady.Commit(ctx, ofSteady, after)
	})
	if cut {
		// Somewhere between the request and its answer.
		_ = broker.Wait(ctx, rand.N(9*time.Millisecond))
		d.link.Cut(faultinject.Reset)
		_ = broker.Wait(ctx, 5*time.Millisecond)
		d.link.Heal()
	}
	wg.Wait()
	return results
}

// winner returns the index of the writer that believes it won.
func winner(t *testing.T, round int, results [2]error) int {
	t.Helper()
	won := -1
	for i, err := range results {
		var lost *joblog.LostError
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
	return won
}

func (d *duel) hasWon(t *testing.T, round, won int) {
	t.Helper()
	stored := must[joblog.Entry](t)(d.steady.Get(t.Context(), d.name))
	if writer := []string{d.steady.Writer(), d.shaky.Writer()}[won]; stored.Version() != uint64(round+1) || stored.Job.GetExecution().GetWriter() != writer {
		t.Fatalf("round %d: version %d by %s, want it by %s", round, stored.Version(), stored.Job.GetExecution().GetWriter(), writer)
	}
}

// TestUncertainCommitIsKnownByItsNonce proves that a commit without a timely answer returns its
// event, whose nonce identifies it in the log.
func TestUncertainCommitIsKnownByItsNonce(t *testing.T) {
	t.Parallel()
	d := newDuel(t, 1, brokertest.Alone(t).ClientURL(), "video_a")
	d.link.Delay(time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	e, err := d.shaky.Commit(ctx, task.FromWork(work(d.name.ID)), 0)
	if !errors.Is(err, joblog.ErrUncertain) || e.Nonce == "" || e.Seq != 0 {
		t.Fatalf("got nonce %q, sequence %d, %v", e.Nonce, e.Seq, err)
	}
	for end := time.Now().Add(brokertest.Patience); ; {
		stored, err := d.steady.Get(t.Context(), d.name)
		if err == nil && stored.Nonce == e.Nonce {
			return
		}
		if !errors.Is(err, joblog.ErrNotFound) || broker.Wait(t.Context(), 10*time.Millisecond) != nil || time.Now().After(end) {
			t.Fatalf("the log has nonce %q, want %q: %v", stored.Nonce, e.Nonce, err)
		}
	}
}

// TestFollowersWithoutLiveMessages proves that followers see the complete log although live
// messages are lost.
func TestFollowersWithoutLiveMessages(t *testing.T) {
	t.Parallel()
	for name, share := range map[string]float64{"some": 0.3, "most": 0.8, "all": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokertest.Single(t)
			writer := newLog(t, b, publisher.Protobuf)
			reader := quick(t, b, time.Second)
			reader.DropLive(share)
			const jobs = 20
			var wg sync.WaitGroup
			for i := range jobs {
				e := must[joblog.Entry](t)(writer.Commit(t.Context(), task.FromWork(work("video_"+string(rune('a'+i)))), 0))
				following := make(chan struct{})
				wg.Go(func() { seesTheLog(t, reader, b, e.Name(), following) })
				wg.Go(func() {
					<-following
					if err := goesWell(t.Context(), writer, e); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		})
	}
}

// seesTheLog follows a job to its end and checks that it saw all events. It closes following after
// the first event.
func seesTheLog(t *testing.T, reader *joblog.Log, b *broker.Broker, n subject.JobName, following chan<- struct{}) {
	t.Helper()
	var seen []string
	for got, err := range reader.Follow(t.Context(), n, 0) {
		if err != nil {
			t.Errorf("%s: %v", n.ID, err)
			return
		}
		if seen = append(seen, got.ID()); len(seen) == 1 {
			close(following)
		}
	}
	history, err := joblogtest.History(t.Context(), b, n)
	if err != nil {
		t.Error(err)
		return
	}
	var want []string
	for _, h := range history {
		want = append(want, h.ID())
	}
	if strings.Join(seen, " ") != strings.Join(want, " ") {
		t.Errorf("%s: saw %v, the log has %v", n.ID, seen, want)
	}
}

// goesWell writes the remaining events of a successful job.
func goesWell(ctx context.Context, writer *joblog.Log, e joblog.Entry) error {
	now := time.Now()
	next, err := task.Submitting(video(e), now, task.Submission{Upstream: "u", Until: now.Add(time.Minute), Deadline: now.Add(time.Hour)})
	if err == nil {
		e, err = writer.Commit(ctx, next, e.Seq)
	}
	if err == nil {
		next, err = task.Submitted(video(e), now, task.Receipt{UpstreamID: "up_1", Status: "queued"})
	}
	if err == nil {
		e, err = writer.Commit(ctx, next, e.Seq)
	}
	if err == nil {
		next, err = task.Completed(video(e), time.Now(), task.Result{})
	}
	if err == nil {
		_, err = writer.Commit(ctx, next, e.Seq)
	}
	return err
}
