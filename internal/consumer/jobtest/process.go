// Package jobtest provides test fixtures for package consumer and its subpackages. It does not
// import package consumer, so that tests in the subpackages can import it.
package jobtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/parts"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/test/faultinject"
)

// Patience is how long a test waits for an event before it fails.
const Patience = brokertest.Patience

// Shortly calls is repeatedly until it returns true.
func Shortly(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !is(); {
		if broker.Wait(t.Context(), 10*time.Millisecond) != nil || time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, Patience)
		}
	}
}

// Drained waits until left returns 0. It fails the test only if the number does not decrease for
// Patience, so neither the number nor the speed of the machine matters.
func Drained(t testing.TB, what string, left func() uint64) {
	t.Helper()
	least := left()
	for end := time.Now().Add(Patience); least > 0; {
		if broker.Wait(t.Context(), 20*time.Millisecond) != nil || time.Now().After(end) {
			t.Fatalf("%d %s are left, and none fewer for %s", least, what, Patience)
		}
		if now := left(); now < least {
			least, end = now, time.Now().Add(Patience)
		}
	}
}

// Config returns a configuration with fast polls, fast takeovers and one upstream at url.
func Config(t testing.TB, url string, change ...func(*config.Config)) *config.Config {
	t.Helper()
	cfg := config.Default()
	if err := cfg.AddSandbox(url); err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Routes {
		cfg.Routes[i].AckWait = 3 * time.Second
		if cfg.Routes[i].Kind == config.KindVideo {
			cfg.Routes[i].Poll.Interval = 100 * time.Millisecond
			cfg.Routes[i].Timeouts.Create = 2 * time.Second
		}
	}
	for _, f := range change {
		f(cfg)
	}
	if err := cfg.Prepare(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Process holds the parts of a replica that has no consumer.
type Process struct{ *parts.Parts }

// NewProcess builds the parts of a replica. It does not start the log, so that callers can register
// observers first.
func NewProcess(t testing.TB, b *broker.Broker, cfg *config.Config, change ...func(*parts.Options)) *Process {
	t.Helper()
	o := parts.Options{Config: config.NewLive(cfg), Broker: b, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(t)}
	for _, f := range change {
		f(&o)
	}
	var err error
	if o.Routes, err = routes.New(cfg, o.Metrics, o.Logger); err != nil {
		t.Fatal(err)
	}
	p := &Process{parts.New(o)}
	t.Cleanup(func() {
		p.Content.Close()
		p.Routes.Close()
	})
	return p
}

// Start runs the log and its index until the test ends.
func (p *Process) Start(t testing.TB) {
	t.Helper()
	end, err := p.StartLog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
}

// Holder returns a holder that fetches nothing. When the test ends, it stops the work on held jobs
// and waits for it.
func (p *Process) Holder(t testing.TB) *hold.Holder {
	fetching, stopFetching := context.WithCancelCause(t.Context())
	working, stopWorking := context.WithCancelCause(context.WithoutCancel(t.Context()))
	h := hold.New(fetching, working, hold.Options{
		Broker: p.Broker, Log: p.Log, Bodies: p.Bodies,
		DeadLetters: p.DeadLetters,
		Admitted:    p.Admission.First, Queue: p.Queue, Metrics: p.Metrics, Logger: p.Logger, Alone: p.Config.Now().NATS.Embedded(),
	})
	t.Cleanup(func() {
		stopFetching(hold.ErrShutdown)
		stopWorking(hold.ErrShutdown)
		h.Jobs.Wait()
	})
	return h
}

// Linked starts a NATS server and connects to it twice, once through a link and once directly.
func Linked(t testing.TB) (link *faultinject.Link, through, direct *broker.Broker) {
	t.Helper()
	s := brokertest.Alone(t)
	link, err := faultinject.NewLink(strings.TrimPrefix(s.ClientURL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
	return link, OpenAt(t, "nats://"+link.Addr()), OpenAt(t, s.ClientURL())
}

// OpenAt connects to the NATS server at url.
func OpenAt(t testing.TB, url string) *broker.Broker {
	t.Helper()
	return brokertest.Open(t, broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: url})
}
