package consumer

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/subject"
)

// TestPullsThatEndSwallowNothing: pull requests are ended again and again while messages
// come. Each message is handed on, and by its first delivery: none was sent to a request that
// had been given up. On one server that holds for long requests, too.
func TestPullsThatEndSwallowNothing(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		testPullsThatEnd(t, open(t), shortestPull)
	})
	t.Run("long", func(t *testing.T) {
		t.Parallel()
		testPullsThatEnd(t, brokertest.Single(t), longestPull)
	})
}

func testPullsThatEnd(t *testing.T, b *broker.Broker, wait time.Duration) {
	const messages = 300
	cons, err := b.JetStream().CreateConsumer(t.Context(), b.Names().Work(), jetstream.ConsumerConfig{Durable: "d", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	brokertest.Next(t, published(t, b, cons)) // all servers know the consumer
	var mu sync.Mutex
	seen := map[string]bool{}
	all := make(chan struct{})
	p := newPuller(b.Conn(), cons.CachedInfo().Stream, "d", wait)
	take := func(m hold.Msg, release func()) {
		defer release()
		p.quiet = time.Now().Add(-wait)
		meta, err := m.Metadata()
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if meta.NumDelivered > 1 || seen[m.Subject()] {
			t.Errorf("%s was delivered %d times", m.Subject(), meta.NumDelivered)
		}
		if seen[m.Subject()] = true; len(seen) == messages {
			close(all)
		}
	}
	p.quiet = time.Now().Add(-wait)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			if err := p.run(ctx, b.Down(), newSlots(10), take); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range messages {
		if _, err := b.JetStream().Publish(t.Context(), b.Names().WorkItem("video", "r", "acme", strconv.Itoa(i)), nil); err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			p.interrupt(0)
		}
	}
	select {
	case <-all:
	case <-time.After(patience):
		t.Errorf("%d of %d messages came", len(seen), messages)
	}
	stop()
	group.Wait()
}

// published has a message that the consumer can take.
func published(t testing.TB, b *broker.Broker, cons jetstream.Consumer) jetstream.Consumer {
	t.Helper()
	if _, err := b.JetStream().Publish(t.Context(), b.Names().WorkItem("video", "r", "acme", "first"), nil); err != nil {
		t.Fatal(err)
	}
	return cons
}

// TestPullsWaitLongerTheLessThereIs: for as long as no message came, within the limits.
func TestPullsWaitLongerTheLessThereIs(t *testing.T) {
	t.Parallel()
	p := newPuller(nil, "s", "d", time.Minute)
	for silence, want := range map[time.Duration]time.Duration{0: shortestPull, 20 * time.Second: 20 * time.Second, time.Hour: time.Minute} {
		p.quiet = time.Now().Add(-silence)
		got, batch := p.next()
		if got.Round(time.Second) != want || (batch == 1) != (want > shortestPull) {
			t.Errorf("after %s a request for %d waits for %s, want %s", silence, batch, got, want)
		}
	}
}

// TestStatusesOfPullRequests: what is no message of the stream ends the request, and only its
// time is no error.
func TestStatusesOfPullRequests(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]error{
		"404 No Messages": nil, "408 Request Timeout": nil, "503 ": nats.ErrNoResponders, "409 Consumer Deleted": jetstream.ErrConsumerDeleted,
		"409 Leadership Change": errRefusedPull, "409 Exceeded MaxWaiting": errRefusedPull,
	} {
		m := nats.NewMsg("inbox")
		m.Header.Set("Status", status[:3])
		m.Header.Set("Description", status[4:])
		if over, err := pullStatus(m); !over || !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, %v", status, over, err)
		}
	}
	m := nats.NewMsg("genbus.work.video.r.acme.1")
	m.Header.Set("Genbus-Recorded", "3")
	if over, err := pullStatus(m); over || err != nil {
		t.Errorf("a message without data: %v, %v", over, err)
	}
}

// TestJobsAreTakenAfterALostConnection: also those of a route that was idle before, for which
// the request of the lost connection would still wait.
func TestJobsAreTakenAfterALostConnection(t *testing.T) {
	t.Parallel()
	s := brokertest.Alone(t)
	b := brokertest.Open(t, broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: s.ClientURL()})
	up := newSandbox(t)
	r := newReplica(t, b, testConfig(t, up.URL()))
	for id := range r.running {
		shortly(t, "a long request waits", func() bool {
			p := r.running[id].puller
			p.mu.Lock()
			defer p.mu.Unlock()
			return time.Since(p.waits) > 2*shortestPull && !p.waits.IsZero()
		})
	}
	cid, err := b.Conn().GetClientID()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.DisconnectClientByID(cid); err != nil {
		t.Fatal(err)
	}
	shortly(t, "the connection is lost and back", func() bool {
		now, err := b.Conn().GetClientID()
		return err == nil && now != cid
	})
	begun := time.Now()
	publish(t, b, subject.Video, "v", videoRequest("v", "sandbox-video", "a cat"))
	allCompleted(t, b, r.log, []string{videoID("v")})
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("it took %s", took)
	}
}
