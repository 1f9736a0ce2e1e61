package jobindex_test

import (
	"context"
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
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

// replica is a log and its index.
type replica struct {
	*joblog.Log
	*jobindex.Index
}

func newReplica(t testing.TB, b *broker.Broker, change ...func(*jobindex.Options)) *replica {
	t.Helper()
	l := joblog.New(joblog.Options{Broker: b, Encoder: publisher.Encoder{Names: b.Names()}, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(t)})
	o := jobindex.Options{Log: l, Logger: brokertest.Logger(t)}
	for _, f := range change {
		f(&o)
	}
	r := &replica{l, jobindex.New(o)}
	for _, start := range []func(context.Context) (func(), error){r.Log.Start, r.Index.Start} {
		ctx, cancel := context.WithCancel(t.Context())
		wait, err := start(ctx)
		if err != nil {
			cancel()
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cancel()
			wait()
		})
	}
	return r
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
