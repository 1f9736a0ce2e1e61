//go:build unix

package console_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/task"
)

// event returns the first event of a job of one of 100 tenants and 5 routes.
func event(i int) task.Event {
	return task.FromWork(&genbusv1.WorkItem{
		Id: fmt.Sprintf("video_%026d", i), Kind: "video", Tenant: fmt.Sprint("tenant-", i%100), Route: fmt.Sprint("route-", i%5), Model: "film-2",
		Labels: map[string]string{"team": fmt.Sprint(i % 7)}, Fingerprint: []byte("fp"), AcceptedAt: timestamppb.Now(),
	})
}

// publisherOf returns a function that publishes events asynchronously.
func publisherOf(b *testing.B, w *apitest.World) func(task.Event) {
	b.Helper()
	js, err := jetstream.New(w.Broker.Conn(), jetstream.WithPublishAsyncMaxPending(1024),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) { b.Error(err) }))
	if err != nil {
		b.Fatal(err)
	}
	return func(e task.Event) {
		m, err := w.Encoder.Event(context.WithoutCancel(b.Context()), e)
		if err == nil {
			_, err = js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute))
		}
		if err != nil {
			b.Error(err)
		}
	}
}

const benchJobs = 100_000

// filled returns a world with 100,000 jobs in its log and index.
func filled(b *testing.B) (*apitest.World, *browser, func(task.Event)) {
	b.Helper()
	w := apitest.New(b)
	w.Durables()
	publish := publisherOf(b, w)
	for i := range benchJobs {
		publish(event(i))
	}
	br := newBrowser(w)
	w.Await("the index has all jobs", func() bool { return indexed(w) == benchJobs })
	return w, br, publish
}

// indexed returns the number of jobs in the index, or -1 if it is unknown.
func indexed(w *apitest.World) int64 {
	ctx := metadata.AppendToOutgoingContext(w.T.Context(), "authorization", "Bearer "+apitest.LocalKey)
	out, err := genbusv1grpc.NewOperatorServiceClient(w.GRPC.InProcess()).ListJobs(ctx, &genbusv1.ListJobsRequest{PageSize: 1})
	if err != nil {
		return -1
	}
	return out.GetTotal()
}

func percentiles(b *testing.B, all []time.Duration) {
	b.Helper()
	slices.Sort(all)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	b.ReportMetric(ms(all[len(all)/2]), "p50-ms")
	b.ReportMetric(ms(all[len(all)*99/100]), "p99-ms")
}

// BenchmarkPages measures every page of the console over HTTP, with 100,000 jobs in the log. No page
// should take more than 300 ms.
func BenchmarkPages(b *testing.B) {
	w, br, _ := filled(b)
	letter := w.PutDeadLetter(apitest.OrphanedDeadLetter("tenant-7"))
	job := "/jobs/video/tenant-7/" + event(7).Job.GetId()
	for _, path := range append(pages,
		"/jobs?tenant=tenant-7", "/jobs?route=route-3&status=queued", "/jobs?label=team%3D3", "/jobs?order=oldest", "/jobs?id="+event(7).Job.GetId(), job, "/decisions/"+strconv.FormatUint(letter, 10), "/bulk?do=cancel", "/bulk?do=cancel&tenant=tenant-7",
	) {
		b.Run(cmp.Or(strings.TrimPrefix(path, "/"), "overview"), func(b *testing.B) {
			var all []time.Duration
			for b.Loop() {
				begin := time.Now()
				if a := br.get("/console" + path); a.status != http.StatusOK {
					b.Fatal(a.status, a.body)
				}
				all = append(all, time.Since(begin))
			}
			percentiles(b, all)
		})
	}
}

// BenchmarkViewers measures a create by HTTP every 20 ms, with 100,000 jobs in the log, 1,000
// events a second and a number of open pages, half of them the overview and half a list of jobs.
// The CPU time covers the whole process, including the browsers and the publisher.
func BenchmarkViewers(b *testing.B) {
	w, br, publish := filled(b)
	var next atomic.Int64
	next.Store(benchJobs)
	for _, viewers := range []int{0, 1, 50} {
		b.Run(fmt.Sprint("viewers=", viewers), func(b *testing.B) {
			ctx, stop := context.WithCancel(b.Context())
			var group sync.WaitGroup
			var pages atomic.Int64
			for i := range viewers {
				path := []string{"/console", "/console/jobs"}[i%2]
				res, err := w.Client.Do(br.request(http.MethodGet, path, nil, "Accept", "text/event-stream").WithContext(ctx))
				if err != nil {
					b.Fatal(err)
				}
				group.Go(func() {
					defer res.Body.Close()
					n, _ := io.Copy(io.Discard, res.Body)
					pages.Add(n)
				})
			}
			group.Go(func() {
				tick := time.NewTicker(10 * time.Millisecond)
				defer tick.Stop()
				for ctx.Err() == nil {
					<-tick.C
					for range 10 {
						publish(event(int(next.Add(1))))
					}
				}
			})
			before, began := cpu(), time.Now()
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			var all []time.Duration
			for b.Loop() {
				<-tick.C
				begin := time.Now()
				w.CreateVideo()
				all = append(all, time.Since(begin))
			}
			used := float64(cpu()-before) / float64(time.Since(began))
			stop()
			group.Wait()
			percentiles(b, all)
			b.ReportMetric(100*used, "%core")
			b.ReportMetric(float64(pages.Load())/time.Since(began).Seconds()/max(1, float64(viewers)), "B/s/viewer")
		})
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
