package jobindex

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// BenchmarkIndex is events of jobs, each of which begins, goes on and ends later: b.N jobs of
// 10,000 tenants in turn, while a number of them are unfinished. The list knows 100,000.
func BenchmarkIndex(b *testing.B) {
	const tenants = 10_000
	for _, unfinished := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint("unfinished=", unfinished), func(b *testing.B) {
			x := newTable(DefaultSize)
			names := make([]string, tenants)
			for i := range names {
				names[i] = fmt.Sprint("tenant-", i)
			}
			put := func(job int, status string) {
				n := subject.TaskName{Kind: subject.Video, Tenant: names[job%tenants], ID: fmt.Sprintf("video_%026d", job)}
				x.put(n, row{created: int64(job), id: n.ID, status: status, unfinished: status != "completed"})
			}
			next := 0
			for ; next < unfinished; next++ {
				put(next, "queued")
			}
			b.ReportAllocs()
			for b.Loop() {
				put(next, "queued")
				put(next, "in_progress")
				put(next-unfinished, "completed")
				next++
			}
			b.ReportMetric(3*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkOneTenant is the rows of one tenant in the order in which a log is read: by their
// latest events, and not by when they were made.
func BenchmarkOneTenant(b *testing.B) {
	x := newTable(DefaultSize)
	made := rand.New(rand.NewPCG(1, 2)).Perm(4 * DefaultSize)
	i := 0
	for b.Loop() {
		id := fmt.Sprintf("video_%026d", made[i%len(made)])
		x.put(subject.TaskName{Kind: subject.Video, Tenant: "acme", ID: id}, row{created: int64(made[i%len(made)]), id: id, status: "queued", unfinished: true})
		i++
	}
}

// BenchmarkFill is a replica that starts where the log has unfinished jobs of 10,000
// tenants: how many it hears of in a second, through an ordered consumer of the embedded
// broker in the same process, until its list is complete.
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
		if _, err := js.PublishMsgAsync(m); err != nil {
			b.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	if b.Failed() {
		return
	}
	for b.Loop() {
		x := New(Options{
			Log:     joblog.New(joblog.Options{Broker: broker, Encoder: enc, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(b)}),
			Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(b),
		})
		heard, n := make(chan struct{}), 0
		x.OnIndexed(func() {
			if n++; n == jobs {
				close(heard)
			}
		})
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
