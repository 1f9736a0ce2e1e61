package consumer

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// ends counts the jobs that come into the feed.
func ends(t testing.TB, b *broker.Broker) <-chan *nats.Msg {
	t.Helper()
	feed := make(chan *nats.Msg, 1024)
	sub, err := b.Conn().ChanSubscribe(b.Names().DonePattern(), feed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() }) // a closed connection has none
	return feed
}

// TestNothingIsAskedOnTheWayOfAJob: of a job that this process has admitted, and that meets
// no conflict, JetStream is asked nothing, however much faster than the admission its holder
// is: no message is read, and none is deleted. A request id costs one read of the log, which
// decides whose job it is. All else is asked once in a while, however many jobs there are.
func TestNothingIsAskedOnTheWayOfAJob(t *testing.T) {
	t.Parallel()
	for name, reads := range map[string]int{"": 0, "r": 1} {
		t.Run(fmt.Sprint(reads), func(t *testing.T) {
			t.Parallel()
			b := brokertest.Single(t)
			feed := ends(t, b)
			up := newSandbox(t)
			newReplica(t, b, testConfig(t, up.URL()))
			asked := make(chan *nats.Msg, 4096)
			if _, err := b.Conn().ChanSubscribe("$JS.API.>", asked); err != nil {
				t.Fatal(err)
			}
			const each = 20
			begin := time.Now()
			for i := range each {
				id := name
				if id != "" {
					id += fmt.Sprint(i)
				}
				publish(t, b, subject.Chat, "", chatRequest(id, "sandbox-chat", false))
				publish(t, b, subject.Video, "", videoRequest(id, "sandbox-video", "a cat"))
			}
			for range 2 * each {
				select {
				case <-feed:
				case <-time.After(patience):
					t.Fatal("the jobs do not end")
				}
			}
			byJob, now := map[string]int{}, 0
			for len(asked) > 0 {
				m := <-asked
				api := strings.TrimPrefix(m.Subject, "$JS.API.")
				switch {
				case strings.HasPrefix(api, "CONSUMER.MSG.NEXT."): // one for many jobs
				case strings.HasPrefix(api, "STREAM.MSG."), strings.HasPrefix(api, "DIRECT.GET.") && !bytes.Contains(m.Data, []byte(`"multi_last"`)):
					byJob[api]++
				default:
					now++ // the figures of streams, and checks of whatever jobs are held
				}
			}
			want := map[string]int{}
			if reads > 0 {
				want["STREAM.MSG.GET."+b.Names().Tasks()] = 2 * each * reads
			}
			if !maps.Equal(byJob, want) {
				t.Errorf("asked of %d jobs: %v, want %v", 2*each, byJob, want)
			}
			if most := 30 + 10*int(time.Since(begin)/time.Second); now > most {
				t.Errorf("%d other requests in %s", now, time.Since(begin))
			}
		})
	}
}

// BenchmarkQueuedChat is short chats from the inbox to the feed, and the messages of the
// service's connection, the one publish included, by how many are under way at a time.
func BenchmarkQueuedChat(b *testing.B) {
	for _, callers := range []int{1, 64, 1024} {
		b.Run(fmt.Sprint("underway=", callers), func(b *testing.B) {
			broker := brokertest.Single(b)
			feed := ends(b, broker)
			up := newSandbox(b)
			newReplica(b, broker, testConfig(b, up.URL()))
			var more sync.WaitGroup
			places := make(chan struct{}, callers)
			before, began := broker.Conn().Stats(), cpuUsed(b)
			b.ResetTimer()
			more.Go(func() {
				for range b.N {
					<-feed
					<-places
				}
			})
			for range b.N {
				places <- struct{}{}
				publish(b, broker, subject.Chat, "", chatRequest("", "sandbox-chat", false))
			}
			more.Wait()
			b.StopTimer()
			after := broker.Conn().Stats()
			b.ReportMetric((cpuUsed(b)-began).Seconds()*1e3/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(after.OutMsgs-before.OutMsgs)/float64(b.N), "msgs-to-broker/op")
			b.ReportMetric(float64(after.InMsgs-before.InMsgs)/float64(b.N), "msgs-from-broker/op")
		})
	}
}

// cpuUsed is what this process has used of the processor: the service, the broker and the
// upstream.
func cpuUsed(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
