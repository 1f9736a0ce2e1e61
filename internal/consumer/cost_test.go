package consumer

import (
	"cmp"
	"encoding/json"
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

// ends subscribes to the feed.
func ends(t testing.TB, b *broker.Broker) <-chan *nats.Msg {
	t.Helper()
	feed := make(chan *nats.Msg, 1024)
	sub, err := b.Conn().ChanSubscribe(b.Names().DonePattern(), feed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() }) // a closed connection has none
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	return feed
}

// TestNothingIsAskedOnTheWayOfAJob proves that a job admitted by its holder's process makes no
// JetStream requests, except one read of the log with a request ID, and that all other requests are
// periodic.
//
// It ignores jobs that took a second, because the queue then rereads their items, and jobs in a
// check of held jobs, which may reread the log during a commit.
func TestNothingIsAskedOnTheWayOfAJob(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]map[string]int{"": nil, "r": {"STREAM.MSG.GET.GENBUS_TASKS": 1}} {
		t.Run(fmt.Sprint(len(want)), func(t *testing.T) {
			t.Parallel()
			b := brokertest.Single(t)
			feed := ends(t, b)
			up := newSandbox(t)
			newReplica(t, b, testConfig(t, up.URL()))
			asked := make(chan *nats.Msg, 4096)
			if _, err := b.Conn().ChanSubscribe("$JS.API.>", asked); err != nil {
				t.Fatal(err)
			}
			const atOnce, most, batches = 8, 40, 25
			begin := time.Now()
			var quick, slow []string // job IDs
			for i := 0; len(quick) < most && i < batches*atOnce/2; {
				batch := time.Now()
				for range atOnce / 2 {
					id := name
					if i++; id != "" {
						id += fmt.Sprint(i)
					}
					publish(t, b, subject.Chat, "", chatRequest(id, "sandbox-chat", false))
					publish(t, b, subject.Video, "", videoRequest(id, "sandbox-video", "a cat"))
				}
				for range atOnce {
					select {
					case m := <-feed:
						n, err := b.Names().ParseDone(m.Subject)
						if err != nil {
							t.Fatal(err)
						}
						if time.Since(batch) < time.Second {
							quick = append(quick, n.ID)
						} else {
							slow = append(slow, n.ID)
						}
					case <-time.After(patience):
						t.Fatal("the jobs do not end")
					}
				}
			}
			if len(quick) == 0 {
				t.Skip("each job took a second: the machine has too much else to do")
			}
			took := time.Since(begin)
			ofJobs, checked, others := map[string]map[string]int{}, map[string]bool{}, map[string]int{}
			for len(asked) > 0 {
				m := <-asked
				api := strings.TrimPrefix(m.Subject, "$JS.API.")
				id, together := jobsAsked(t, api, m.Data)
				for _, id := range together {
					checked[id] = true
				}
				switch {
				case id == "":
					others[api]++ // the figures of streams, and checks
				case ofJobs[id] == nil:
					ofJobs[id] = map[string]int{api: 1}
				default:
					ofJobs[id][api]++
				}
			}
			for _, id := range quick {
				if got := ofJobs[id]; !checked[id] && !maps.Equal(got, want) {
					t.Errorf("asked of job %s: %v, want %v", id, got, want)
				}
			}
			if got := ofJobs[bySequence]; got != nil {
				t.Errorf("asked by a sequence: %v", got)
			}
			for api, n := range others {
				if limit := 5 + 5*took.Seconds(); float64(n) > limit {
					t.Errorf("%s: %d requests in %s", api, n, took)
				}
			}
			t.Logf("%d jobs, %d of them slow, in %s", len(quick)+len(slow), len(slow), took)
		})
	}
}

// bySequence replaces the job ID of a request that names a message by its sequence.
const bySequence = "by sequence"

// jobsAsked returns the job that a request is about, or the jobs of a joint request.
func jobsAsked(t testing.TB, api string, data []byte) (id string, together []string) {
	t.Helper()
	if !strings.HasPrefix(api, "STREAM.MSG.") && !strings.HasPrefix(api, "DIRECT.GET.") {
		return "", nil
	}
	var request struct {
		Last string   `json:"last_by_subj"`
		Next string   `json:"next_by_subj"`
		Many []string `json:"multi_last"`
	}
	if err := json.Unmarshal(data, &request); err != nil {
		t.Fatal(err)
	}
	last := func(name string) string { return name[strings.LastIndex(name, ".")+1:] }
	for _, name := range request.Many {
		together = append(together, last(name))
	}
	switch name := cmp.Or(request.Last, request.Next); {
	case together != nil, strings.HasSuffix(name, ">"): // of several jobs
		return "", together
	case name == "":
		return bySequence, nil
	default:
		return last(name), nil
	}
}

// BenchmarkQueuedChat measures short chats from the inbox to the feed, including the messages of
// the service's connections, by the number of concurrent chats.
func BenchmarkQueuedChat(b *testing.B) {
	for _, callers := range []int{1, 64, 1024} {
		b.Run(fmt.Sprint("underway=", callers), func(b *testing.B) {
			broker := brokertest.Single(b)
			feed := ends(b, broker)
			up := newSandbox(b)
			newReplica(b, broker, testConfig(b, up.URL()))
			var more sync.WaitGroup
			places := make(chan struct{}, callers)
			sent, received := traffic(broker)
			began := cpuUsed(b)
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
			sentAfter, receivedAfter := traffic(broker)
			b.ReportMetric((cpuUsed(b)-began).Seconds()*1e3/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(sentAfter-sent)/float64(b.N), "msgs-to-broker/op")
			b.ReportMetric(float64(receivedAfter-received)/float64(b.N), "msgs-from-broker/op")
		})
	}
}

// traffic counts the messages that an embedded broker has sent and received.
func traffic(b *broker.Broker) (sent, received uint64) {
	for _, nc := range []*nats.Conn{b.Conn(), b.WriteConn()} {
		s := nc.Stats()
		sent, received = sent+s.OutMsgs, received+s.InMsgs
	}
	return sent, received
}

// cpuUsed returns the processor time of this process, with the broker and the upstream.
func cpuUsed(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
