package consumer

import (
	"bytes"
	"fmt"
	"sync"
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

// TestNothingIsReadOnTheWayOfAJob: of a job that this process has admitted, and that meets
// no conflict, the log is never read, however much faster than the admission its holder is.
func TestNothingIsReadOnTheWayOfAJob(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	feed := ends(t, b)
	reads := make(chan *nats.Msg, 1024)
	for _, api := range []string{"$JS.API.STREAM.MSG.GET.", "$JS.API.DIRECT.GET."} {
		sub, err := b.Conn().ChanSubscribe(api+b.Names().Tasks(), reads)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	up := newSandbox(t)
	newReplica(t, b, testConfig(t, up.URL()))
	const each = 20
	begin := time.Now()
	for range each {
		publish(t, b, subject.Chat, "", chatRequest("", "sandbox-chat", false))
		publish(t, b, subject.Video, "", videoRequest("", "sandbox-video", "a cat"))
	}
	for range 2 * each {
		select {
		case <-feed:
		case <-time.After(patience):
			t.Fatal("the jobs do not end")
		}
	}
	checks := 0
	for len(reads) > 0 {
		m := <-reads
		if bytes.Contains(m.Data, []byte(`"multi_last"`)) {
			checks++ // of whatever jobs are held, every few seconds
			continue
		}
		t.Errorf("the log was read: %s", m.Data)
	}
	if most := 2 + int(time.Since(begin)/time.Second); checks > most {
		t.Errorf("what is held was checked %d times in %s", checks, time.Since(begin))
	}
}

// BenchmarkQueuedChat is short chats from the inbox to the feed, and the messages of the
// service's connection, the one publish included, by how many are under way at a time.
func BenchmarkQueuedChat(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint("underway=", callers), func(b *testing.B) {
			broker := brokertest.Single(b)
			feed := ends(b, broker)
			up := newSandbox(b)
			newReplica(b, broker, testConfig(b, up.URL()))
			var more sync.WaitGroup
			places := make(chan struct{}, callers)
			before := broker.Conn().Stats()
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
			b.ReportMetric(float64(after.OutMsgs-before.OutMsgs)/float64(b.N), "msgs-to-broker/op")
			b.ReportMetric(float64(after.InMsgs-before.InMsgs)/float64(b.N), "msgs-from-broker/op")
		})
	}
}
