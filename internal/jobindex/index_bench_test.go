package jobindex_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// BenchmarkFill measures how many jobs per second a starting replica reads until its index is
// complete. The log of the embedded broker has unfinished jobs of 10,000 tenants.
func BenchmarkFill(b *testing.B) {
	const tenants, jobs = 10_000, 1_000_000
	broker := brokertest.Single(b)
	enc := publisher.Encoder{Names: broker.Names()}
	js, err := jetstream.New(broker.Conn(), jetstream.WithPublishAsyncMaxPending(4096),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) { b.Error(err) }))
	if err != nil {
		b.Fatal(err)
	}
	for i := range jobs {
		m, err := enc.Event(b.Context(), task.FromWork(&genbusv1.WorkItem{
			Id: fmt.Sprintf("video_%026d", i), Kind: "video", Tenant: fmt.Sprint("tenant-", i%tenants), Route: "r", Model: "m",
			Fingerprint: []byte("fp"), AcceptedAt: timestamppb.Now(),
		}))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(brokertest.Patience)); err != nil {
			b.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	if b.Failed() {
		return
	}
	for b.Loop() {
		x := jobindex.New(jobindex.Options{
			Log:     joblog.New(joblog.Options{Broker: broker, Encoder: enc, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(b)}),
			Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(b),
		})
		heard, n := make(chan struct{}), 0
		x.Observe(newSignal(func() {
			if n++; n == jobs {
				close(heard)
			}
		}))
		ctx, cancel := context.WithCancel(b.Context())
		wait, err := x.Start(ctx)
		if err != nil {
			b.Fatal(err)
		}
		<-heard
		cancel()
		wait()
	}
	b.ReportMetric(jobs*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
