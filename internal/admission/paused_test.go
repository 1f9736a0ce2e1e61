package admission_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// TestRunning checks that pausing and resuming are noticed, and that without JetStream the last
// known state applies without waiting.
func TestRunning(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		s := setup(t, open(t))
		js, work, durable := s.b.JetStream(), s.b.Names().Work(), subject.WorkDurable(subject.Chat, config.SandboxChatRoute)
		running := func(ctx context.Context) errcode.Code {
			return errcode.CodeOf(s.Running(ctx, subject.Chat, config.SandboxChatRoute))
		}
		becomes := func(want errcode.Code) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
			defer cancel()
			for running(ctx) != want {
				if broker.Wait(ctx, 50*time.Millisecond) != nil {
					t.Fatalf("the route did not become %q", want)
				}
			}
		}
		if code := running(t.Context()); code != "" {
			t.Errorf("a route without a consumer: %s", code)
		}
		if _, err := s.b.Streams().EnsureConsumer(t.Context(), work, jetstream.ConsumerConfig{
			Durable: durable, FilterSubject: s.b.Names().WorkRoutePattern(subject.Chat, config.SandboxChatRoute), AckPolicy: jetstream.AckExplicitPolicy,
		}); err != nil {
			t.Fatal(err)
		}
		until := time.Now().Add(time.Hour)
		if _, err := js.PauseConsumer(t.Context(), work, durable, until); err != nil {
			t.Fatal(err)
		}
		becomes(errcode.RoutePaused)
		if f := errcode.From(s.Running(t.Context(), subject.Chat, config.SandboxChatRoute)); f.RetryAfter != time.Minute || !strings.Contains(f.Message, " until "+until.UTC().Format(time.RFC3339)) {
			t.Errorf("refused with %v, retry after %s", f, f.RetryAfter)
		}

		noTime, end := context.WithCancel(t.Context())
		end()
		if s.b.Ready(noTime) == nil {
			t.Fatal("a look without time found JetStream ready")
		}
		looks, err := s.b.Conn().SubscribeSync("$JS.API.CONSUMER.INFO." + work + "." + durable)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if code := running(t.Context()); code != errcode.RoutePaused {
				t.Fatalf("without JetStream: %q", code)
			}
		}
		if err := s.b.Conn().Flush(); err != nil {
			t.Fatal(err)
		}
		if n, _, err := looks.Pending(); err != nil || n != 0 {
			t.Errorf("without JetStream it was asked %d times, %v", n, err)
		}
		if err := s.b.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := js.ResumeConsumer(t.Context(), work, durable); err != nil {
			t.Fatal(err)
		}
		becomes("")
	})
}
