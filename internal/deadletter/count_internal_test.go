package deadletter

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/telemetry"
)

func putDeadLetters(t *testing.T, b *broker.Broker, letters, size int) {
	t.Helper()
	store := Store{Broker: b, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(t)}
	for i := range letters {
		letter := &genbusv1.DeadLetter{Kind: "video", Tenant: "acme", Data: make([]byte, size), Error: &genbusv1.TaskError{Code: "submission_outcome_unknown"}}
		if err := store.Put(t.Context(), letter, fmt.Sprint(i), "1"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDeadLettersThatWereLookedAtCount proves that an interrupted look counts the dead letters that
// it read, and that the next one is delayed.
func TestDeadLettersThatWereLookedAtCount(t *testing.T) {
	t.Parallel()
	const letters, cutAt = 400, 10
	b := brokertest.Single(t)
	putDeadLetters(t, b, letters, 0)
	ctx, cut := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cut()
	var reads atomic.Int64
	sub, err := b.Conn().Subscribe("$JS.API.STREAM.MSG.GET."+b.Names().Dead(), func(*nats.Msg) {
		if reads.Add(1) == cutAt {
			cut()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Conn().FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	c, began := Counter{Streams: Streams{Broker: b}, within: time.Minute}, time.Now()
	got, err := c.Count(ctx)
	if err != nil || got.OutcomeUnknown < cutAt-1 || got.Uncounted == 0 || got.OutcomeUnknown+got.Uncounted != letters {
		t.Fatalf("%+v, %v", got, err)
	}
	if !c.until.After(began) {
		t.Error("looks again at once")
	}
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	c.until = time.Now().Add(time.Hour)
	if again, err := c.Count(t.Context()); err != nil || again != got {
		t.Errorf("%+v, %v before the pause is over", again, err)
	}
	c.until = time.Time{}
	if got, err = c.Count(t.Context()); err != nil || got != (Counts{OutcomeUnknown: letters}) {
		t.Errorf("%+v, %v after it", got, err)
	}
}

// TestFewLargeDeadLettersAreLookedAt proves that the bytes of a look are limited.
func TestFewLargeDeadLettersAreLookedAt(t *testing.T) {
	t.Parallel()
	const size = publisher.ClaimCheck // largest inline body
	const most = maxLookedAtBytes / size
	const letters = most + 3
	b := brokertest.Single(t)
	putDeadLetters(t, b, letters, size)
	c := Counter{Streams: Streams{Broker: b}, within: time.Minute}
	if got, err := c.Count(t.Context()); err != nil || got != (Counts{OutcomeUnknown: most, Uncounted: letters - most}) {
		t.Errorf("%+v, %v", got, err)
	}
}
