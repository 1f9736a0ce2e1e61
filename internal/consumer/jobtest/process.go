// Package jobtest has what the tests of package consumer and of its rooms share: the parts
// of a process without its consumer, jobs with a past, and what the streams say of them.
// It does not import package consumer, so that the rooms' own tests can import it.
package jobtest

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/test/faultinject"
)

// Patience is how long a test waits for an event before it fails.
const Patience = brokertest.Patience

// Shortly asks again until it is so.
func Shortly(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !is(); {
		if broker.Wait(t.Context(), 10*time.Millisecond) != nil || time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, Patience)
		}
	}
}

// Drained waits until none is left. It fails when none fewer are left for as long as a test
// waits for one event: how many there are, and how fast the machine is, do not matter.
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

// Config polls fast and takes over fast. Its only upstream is at url.
func Config(t testing.TB, url string, change ...func(*config.Config)) *config.Config {
	t.Helper()
	cfg := config.Default()
	if err := cfg.AddSandbox(url); err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Routes {
		cfg.Routes[i].AckWait = 3 * time.Second
		cfg.Routes[i].Poll.Interval = 100 * time.Millisecond
		cfg.Routes[i].Timeouts.Create = 2 * time.Second
	}
	for _, f := range change {
		f(cfg)
	}
	if err := cfg.Prepare(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Process has the parts of a process that a consumer works with.
type Process struct {
	Config    *config.Live
	Broker    *broker.Broker
	Log       *joblog.Log
	Index     *jobindex.Index
	Encoder   publisher.Encoder
	Bodies    *broker.Bodies
	Uploads   *natsreq.Uploads
	Content   *content.Reader
	Routes    *routes.Table
	Admission *admission.Admission
	Queue     *queue.Queue
	Quota     *quota.DeadLetterQuota
	Letters   deadletter.Store
	Metrics   *telemetry.Metrics
	Logger    *slog.Logger
}

// NewProcess makes the parts. The log is not started, so that it can be observed first.
func NewProcess(t testing.TB, b *broker.Broker, cfg *config.Config, metrics *telemetry.Metrics) *Process {
	t.Helper()
	logger := brokertest.Logger(t)
	table, err := routes.New(cfg, metrics, logger)
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{
		Config: config.NewLive(cfg), Broker: b, Encoder: publisher.Encoder{Names: b.Names(), Encoding: publisher.Encoding(cfg.Events.Encoding)},
		Bodies: broker.NewBodies(b), Content: content.NewReader(content.Options{}), Routes: table, Metrics: metrics, Logger: logger,
	}
	t.Cleanup(p.Content.Close)
	p.Log = joblog.New(joblog.Options{Broker: b, Encoder: p.Encoder, Metrics: metrics, Logger: logger})
	p.Index = jobindex.New(jobindex.Options{Log: p.Log, Metrics: metrics, Logger: logger})
	p.Uploads = natsreq.NewUploads(p.Bodies, logger)
	p.Quota = quota.NewDeadLetterQuota(p.Config, b)
	p.Letters = deadletter.Store{Broker: b, Bodies: p.Bodies, Metrics: metrics, Logger: p.Logger}
	p.Queue = queue.New(p.Config, b, p.Log, p.Quota)
	p.Admission = admission.New(admission.Options{
		Config: p.Config, Broker: b, Log: p.Log, Index: p.Index, Bodies: p.Bodies, Queue: p.Queue, Letters: p.Quota, Metrics: metrics,
	})
	return p
}

// Start starts the log and its index, which its observers hear, until the test ends.
func (p *Process) Start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	wait := p.StartLog(ctx, t)
	t.Cleanup(func() {
		cancel(hold.ErrShutdown)
		wait()
		p.Routes.Close()
	})
}

// StartLog starts the log and its index, until ctx ends; wait returns after that.
func (p *Process) StartLog(ctx context.Context, t testing.TB) (wait func()) {
	t.Helper()
	endLog, err := p.Log.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	endIndex, err := p.Index.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		endIndex()
		endLog()
	}
}

// Holder makes a holder of the process, which fetches nothing. At the test's end none of
// its jobs is worked on any more.
func (p *Process) Holder(t testing.TB) *hold.Holder {
	fetching, stopFetching := context.WithCancelCause(t.Context())
	working, stopWorking := context.WithCancelCause(context.WithoutCancel(t.Context()))
	h := hold.New(fetching, working, hold.Options{
		Broker: p.Broker, Log: p.Log, Bodies: p.Bodies,
		Letters:  p.Letters,
		Admitted: p.Admission.First, Queue: p.Queue, Metrics: p.Metrics, Logger: p.Logger, Alone: p.Config.Now().NATS.Embedded(),
	})
	t.Cleanup(func() {
		stopFetching(hold.ErrShutdown)
		stopWorking(hold.ErrShutdown)
		h.Jobs.Wait()
	})
	return h
}

// Linked is one NATS server, with a connection that goes through a link and one that does
// not.
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

// OpenAt connects to a server.
func OpenAt(t testing.TB, url string) *broker.Broker {
	t.Helper()
	return brokertest.Open(t, broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: url})
}
