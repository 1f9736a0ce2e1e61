package broker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// BenchmarkWrites compares three ways of writing for concurrent writers that wait for each ack:
// client library requests, pipelined writes, and shared syncs with several thresholds. Each write
// is a compare-and-set of 600 bytes on a separate subject.
func BenchmarkWrites(b *testing.B) {
	for _, sync := range []bool{false, true} {
		for _, writers := range []int{1, 4, 16, 32, 64, 128, 256, 1024} {
			hows := []string{"request", "pipelined"}
			if sync {
				hows = append(hows, "shared16", "shared32", "shared64")
			}
			for _, how := range hows {
				b.Run(fmt.Sprintf("fsync=%t/writers=%d/%s", sync, writers, how), func(b *testing.B) { writes(b, sync, writers, how) })
			}
		}
	}
}

func writes(b *testing.B, fsync bool, writers int, how string) {
	nc, js := serve(b, b.TempDir(), fsync)
	replies := newReplies()
	if err := replies.subscribe(nc); err != nil {
		b.Fatal(err)
	}
	o := streamOptions{Timeout: 5 * time.Second, HasCapacity: yesAlways, Sound: yesAlways}
	if from, err := strconv.Atoi(strings.TrimPrefix(how, "shared")); err == nil {
		o.ShareFrom = from
	}
	w := newStreamWriter(replies, o)
	put := func(ctx context.Context, m *nats.Msg) error {
		if how == "request" {
			_, err := js.PublishMsg(ctx, m)
			return err
		}
		_, err := w.write(ctx, m, Jobs, nil)
		return err
	}
	body := make([]byte, 600)
	var next atomic.Int64
	took := make([]time.Duration, b.N)
	var group sync.WaitGroup
	begin := cpu(b)
	b.ResetTimer()
	for range writers {
		group.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(b.N) {
					return
				}
				m := nats.NewMsg(fmt.Sprintf("log.%d", i))
				m.Data = body
				m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{"0"}
				m.Header[jetstream.MsgIDHeader] = []string{m.Subject}
				at := time.Now()
				if err := put(b.Context(), m); err != nil {
					b.Error(err)
					return
				}
				took[i-1] = time.Since(at)
			}
		})
	}
	group.Wait()
	b.StopTimer()
	sortDurations(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
	b.ReportMetric(float64((cpu(b)-begin).Microseconds())/float64(b.N), "cpu-us/write")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serve runs a server in dir with a stream that listens to log.>.
func serve(tb testing.TB, dir string, fsync bool) (*nats.Conn, jetstream.JetStream) {
	tb.Helper()
	s, err := server.NewServer(&server.Options{
		ServerName: "writes", DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir, SyncAlways: fsync,
		JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 10 << 30,
	})
	if err != nil {
		tb.Fatal(err)
	}
	s.Start()
	tb.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		tb.Fatal("the server did not start")
	}
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.ReconnectBufSize(-1))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		tb.Fatal(err)
	}
	_, err = js.CreateOrUpdateStream(tb.Context(), jetstream.StreamConfig{
		Name: "LOG", Subjects: []string{"log.>"}, AllowAtomicPublish: true, AllowDirect: true, Duplicates: 2 * time.Minute,
		RePublish: &jetstream.RePublish{Source: "log.>", Destination: "live.log.>"},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return nc, js
}

func sortDurations(d []time.Duration) { slices.Sort(d) }
