package inline_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/chatlog"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/inline"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/parts"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

const tenant = "acme"

// bundle is a runner with an upstream, and a subscriber's view of its events.
type bundle struct {
	t       testing.TB
	cfg     *config.Config
	b       *broker.Broker
	tasks   *joblog.Log
	chats   *chatlog.Log
	bodies  *broker.Bodies
	metrics *telemetry.Metrics
	runner  *inline.Runner
}

// setup returns a runner in front of the upstream at url. The route is the sandbox's: it accepts
// every model that begins with "sandbox-".
func setup(t testing.TB, b *broker.Broker, url string, change func(*config.Config)) *bundle {
	t.Helper()
	x := setupWithoutNotifications(t, b, url, never, change)
	x.tasks.OnPeerNotification(x.runner.HandlePeerNotification)
	return x
}

// setupWithoutNotifications is setup without peer notifications and with the given check interval.
func setupWithoutNotifications(t testing.TB, b *broker.Broker, url string, checkEvery time.Duration, change func(*config.Config)) *bundle {
	t.Helper()
	return setupWith(t, b, url, func(o inline.Options) inline.Options { return o.CheckedEvery(checkEvery) }, change)
}

// setupSecondLook is setupWithoutNotifications without periodic checks and with a shorter delay
// before rereads.
func setupSecondLook(t testing.TB, b *broker.Broker, url string, wait time.Duration) *bundle {
	t.Helper()
	return setupWith(t, b, url, func(o inline.Options) inline.Options { return o.CheckedEvery(never).LooksAgainAfter(wait) }, nil)
}

// setupWith is setup with changed options and without peer notifications.
func setupWith(t testing.TB, b *broker.Broker, url string, options func(inline.Options) inline.Options, change func(*config.Config)) *bundle {
	t.Helper()
	cfg := config.Default()
	if err := cfg.AddSandbox(url); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(cfg)
		if err := cfg.Prepare(); err != nil {
			t.Fatal(err)
		}
	}
	metrics := telemetry.NewMetrics("test")
	table, err := routes.New(cfg, metrics, brokertest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Close)
	p := parts.New(parts.Options{Config: config.NewLive(cfg), Broker: b, Routes: table, Metrics: metrics, Logger: brokertest.Logger(t)})
	x := &bundle{t: t, cfg: cfg, b: b, tasks: p.Log, chats: p.Chats, bodies: p.Bodies, metrics: metrics}
	ctx, cancel := context.WithCancel(t.Context())
	// The index is not started, so that tests can count the runner's reads.
	endLog, err := p.Log.Start(ctx)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	x.runner = inline.New(context.WithoutCancel(t.Context()), options(inline.Options{Parts: p}))
	t.Cleanup(func() {
		closing, stop := context.WithTimeout(context.Background(), brokertest.Patience)
		defer stop()
		if err := x.runner.Close(closing); err != nil {
			t.Error(err)
		}
		cancel()
		endLog()
	})
	return x
}

// withSandbox is setup in front of a sandbox.
func withSandbox(t testing.TB, b *broker.Broker, change func(*config.Config)) (*bundle, *sandbox.Sandbox) {
	t.Helper()
	s, err := sandbox.Start("127.0.0.1:0", sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return setup(t, b, s.URL(), change), s.Sandbox
}

func ask(model, fields string) admission.Request {
	return admission.Request{
		Kind: subject.Chat, Tenant: tenant, Ingress: telemetry.IngressHTTP,
		Body: body.Parse([]byte(`{"model":"` + model + `",` + fields + `"messages":[{"role":"user","content":"one two three"}]}`)),
	}
}

// end writes a chat's end to the log, as any replica may.
func (x *bundle) end(id string, end func(*genbusv1.Chat) (task.Event, error)) joblog.Entry {
	x.t.Helper()
	name := subject.JobName{Kind: subject.Chat, Tenant: tenant, ID: id}
	entry, err := x.tasks.Get(x.t.Context(), name)
	for errors.Is(err, joblog.ErrNotFound) { // the first event is stored during the call
		entry, err = x.tasks.Get(x.t.Context(), name)
	}
	if err != nil {
		x.t.Fatal(err)
	}
	event, err := end(entry.Job.(*genbusv1.Chat))
	if err == nil {
		entry, err = x.tasks.Commit(x.t.Context(), event, entry.Seq)
	}
	if err != nil {
		x.t.Fatal(err)
	}
	return entry
}

// byItsCaller cancels a chat.
func byItsCaller(c *genbusv1.Chat) (task.Event, error) {
	return task.Cancelled(c, time.Now(), errcode.New(errcode.Cancelled, "by its caller").TaskError())
}

// history returns a subscriber's view of a chat: its blocks and its terminal event.
func (x *bundle) history(id string) (blocks []string, end *genbusv1.Chat) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), brokertest.Patience)
	defer cancel()
	name := subject.JobName{Kind: subject.Chat, Tenant: tenant, ID: id}
	for { // the first event is stored during the call
		if _, err := x.tasks.Get(ctx, name); err == nil {
			break
		} else if !errors.Is(err, joblog.ErrNotFound) {
			x.t.Fatal(err)
		}
	}
	for item, err := range x.chats.Follow(ctx, name, "") {
		if err != nil {
			x.t.Fatal(err)
		}
		if item.Gap != nil {
			x.t.Errorf("a gap: %v", item.Gap)
		}
		for _, b := range item.Chunk.GetBlocks() {
			blocks = append(blocks, string(b))
		}
		if item.Event != nil {
			end, _ = item.Event.Job.(*genbusv1.Chat)
		}
	}
	return blocks, end
}

// done waits for the feed copy.
func (x *bundle) done(c *genbusv1.Chat, status string) {
	x.t.Helper()
	for {
		_, err := x.b.Last(x.t.Context(), x.b.Names().Tasks(), x.b.Names().Done(subject.Chat, tenant, status, c.GetId()))
		if err == nil {
			return
		}
		if !errors.Is(err, broker.ErrNoMessage) {
			x.t.Fatal(err)
		}
	}
}

func read(s *inline.Stream) (blocks []string, err error) {
	for {
		b, err := s.Next()
		if err != nil {
			return blocks, err
		}
		if b.Index != uint64(len(blocks)) {
			return blocks, fmt.Errorf("block %d has index %d", len(blocks), b.Index)
		}
		blocks = append(blocks, string(b.Data))
	}
}

func code(t testing.TB, err error, want errcode.Code) {
	t.Helper()
	_ = faultOf(t, err, want)
}

func faultOf(t testing.TB, err error, want errcode.Code) *errcode.Error {
	t.Helper()
	var f *errcode.Error
	if !errors.As(err, &f) || f.Code != want {
		t.Fatalf("got %v, want %s", err, want)
	}
	return f
}

func (x *bundle) counter(name string) (sum float64) {
	x.t.Helper()
	families, err := x.metrics.Gatherer().Gather()
	if err != nil {
		x.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
