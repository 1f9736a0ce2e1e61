package jobindex_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

// replica combines a log and its index.
type replica struct {
	*joblog.Log
	*jobindex.Index
	broker *broker.Broker
	signal *signal
	// kill ends the replica like a crash, without telling others.
	kill   func()
	killed bool
}

// OnIndexed calls f after each event that the index applies.
func (r *replica) OnIndexed(f func()) { r.signal.f.Store(&f) }

// signal is an observer that calls a function for each event.
type signal struct{ f atomic.Pointer[func()] }

func newSignal(f func()) *signal {
	s := &signal{}
	s.f.Store(&f)
	return s
}

func (s *signal) Observe(joblog.Summary) { (*s.f.Load())() }

func (s *signal) Reset() {}

type setup struct {
	jobindex.Options
	observer jobindex.Observer
}

// newReplica returns a replica that lists and counts.
func newReplica(t testing.TB, b *broker.Broker, change ...func(*setup)) *replica {
	t.Helper()
	r := unready(t, b, change...)
	eventually(t, "jobs are counted", func() bool {
		_, known := r.Unfinished(t.Context(), "acme")
		return known
	})
	return r
}

// unready returns a replica whose index may not be ready yet.
func unready(t testing.TB, b *broker.Broker, change ...func(*setup)) *replica {
	t.Helper()
	l := joblog.New(joblog.Options{Broker: b, Encoder: publisher.Encoder{Names: b.Names()}, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(t)})
	o := setup{Options: jobindex.Options{Log: l, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(t)}}
	for _, f := range change {
		f(&o)
	}
	r := &replica{Log: l, Index: jobindex.New(o.Options), broker: b, signal: newSignal(func() {})}
	r.Observe(r.signal)
	if o.observer != nil {
		r.Observe(o.observer)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.Once
	var waits []func()
	r.kill = func() {
		r.killed = true
		ended.Do(func() {
			cancel()
			for _, wait := range waits {
				wait()
			}
		})
	}
	t.Cleanup(r.kill)
	for _, start := range []func(context.Context) (func(), error){r.Log.Start, r.Index.Start} {
		wait, err := start(ctx)
		if err != nil {
			t.Fatal(err)
		}
		waits = append(waits, wait)
	}
	return r
}

func options(url string) broker.Options {
	return broker.Options{Names: subject.Default(), Logger: slog.New(slog.DiscardHandler), URL: url}
}

func work(id string) *genbusv1.WorkItem {
	return &genbusv1.WorkItem{
		Id: id, Kind: "video", Tenant: "acme", Route: "r", Model: "m", Fingerprint: []byte("fp"), AcceptedAt: timestamppb.Now(),
	}
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func submit(t testing.TB, r *replica, id string) joblog.Entry {
	t.Helper()
	return must[joblog.Entry](t)(r.Commit(t.Context(), task.FromWork(work(id)), 0))
}

func cancelled(t testing.TB, r *replica, e joblog.Entry) joblog.Entry {
	t.Helper()
	next := must[task.Event](t)(task.Cancelled(e.Job, time.Now(), &genbusv1.TaskError{Code: "cancelled"}))
	return must[joblog.Entry](t)(r.Commit(t.Context(), next, e.Seq))
}
