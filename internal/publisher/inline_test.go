package publisher_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestBlocksOfAnInlineChatShareAnEvent checks that blocks arriving within a moment share an event,
// and that Flush sends the last ones at once.
func TestBlocksOfAnInlineChatShareAnEvent(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		w := newWriter(t, b, "").Inline(nil)
		const blocks = 300
		for i := range blocks {
			w.Add(sample(i))
		}
		flush(t, w, blocks)
		chunks := stored(t, b)
		equal(t, read(t, chunks), blocks)
		if len(chunks) > 3 {
			t.Errorf("%d events hold %d blocks that came together", len(chunks), blocks)
		}
	})
}

// TestAddWaits checks that AddWait waits for capacity while the server is away, within the caller's
// limit.
func TestAddWaits(t *testing.T) {
	t.Parallel()
	s := newRestartable(t)
	b := s.open(t)
	metrics := telemetry.NewMetrics("test")
	w := publisher.NewChunks(t.Context(), b, publisher.Encoder{Names: b.Names()}, broker.NewBodies(b), metrics, tenant, chatID, 1).Inline(nil)
	defer w.Close()
	s.stop()
	block := bytes.Repeat([]byte("1"), 200<<10)
	for range 5 { // almost 1 MiB
		if !w.AcceptsNow(len(block)) {
			t.Error("it reports no capacity")
		}
		if waited := w.AddWait(t.Context(), block, anHour); waited > 0 {
			t.Errorf("waited %s despite capacity", waited)
		}
	}
	if w.AcceptsNow(len(block)) {
		t.Error("it reports capacity")
	}
	if waited := w.AddWait(t.Context(), block, func() time.Duration { return time.Millisecond }); waited < time.Millisecond {
		t.Errorf("waited %s without capacity", waited)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	w.AddWait(gone, block, anHour)
	if n := counter(t, metrics, "genbus_inline_events_dropped_total"); n != 2 {
		t.Errorf("%v dropped", n)
	}
	s.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	for { // the stream of chunks, in memory, is recreated after the reconnect
		if _, err := b.Stream(ctx, b.Names().Chunks()); err == nil {
			break
		}
		if err := broker.Wait(ctx, 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	w.AddWait(t.Context(), block, anHour)
	_, _ = w.Flush(ctx)
	if n := counter(t, metrics, "genbus_inline_events_dropped_total"); n != 2 {
		t.Errorf("%v dropped although the last block waited for the server", n)
	}
}

func anHour() time.Duration { return time.Hour }
