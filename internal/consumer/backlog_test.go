package consumer

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// fill admits videos and chats through all replicas concurrently until each worker is refused, and
// returns the accepted ones.
func fill(t testing.TB, replicas []*replica) (ids []subject.JobName) {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	for i, r := range replicas {
		for worker := range 8 {
			group.Go(func() {
				for n := 0; ; {
					request := admission.Request{
						Kind: subject.Video, Tenant: "acme", RequestID: fmt.Sprintf("v%d-%d-%d", i, worker, n), Body: body.Parse([]byte(`{"model":"sandbox-video","prompt":"a dog"}`)),
					}
					if worker%2 == 1 {
						request.Kind, request.Body = subject.Chat, body.Parse([]byte(`{"model":"sandbox-chat","messages":[{"role":"user","content":"hi"}]}`))
					}
					e, err := r.Admission.Admit(t.Context(), request)
					if err != nil {
						code := errcode.CodeOf(err)
						if code == errcode.BrokerUnavailable || code == errcode.AcceptanceUnknown { // a busy machine
							continue
						}
						if code != errcode.StorageFull {
							t.Errorf("refused with %v", err)
						}
						return
					}
					n++
					mu.Lock()
					ids = append(ids, e.Name())
					mu.Unlock()
				}
			})
		}
	}
	group.Wait()
	return ids
}

// longReplies starts an upstream whose videos complete at the first poll and whose chats are
// answered at once, with results of the given length. creates returns the number of creates by
// idempotency key.
func longReplies(t testing.TB, bytes int) (url string, creates func() map[string]int) {
	var mu sync.Mutex
	n := map[string]int{}
	text := strings.Repeat("x", bytes)
	url = scripted(t, map[string]http.HandlerFunc{
		createPath: func(w http.ResponseWriter, r *http.Request) {
			key := r.Header.Get("Idempotency-Key")
			mu.Lock()
			n[key]++
			mu.Unlock()
			respond(`{"task_id":%q,"status":"queued"}`, key)(w, r)
		},
		pollPath: respondCompleted,
		"POST /v1/chat/completions": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`, text)
		},
	})
	return url, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(n)
	}
}

// allEnded waits until no accepted job is left, and checks each one's end, feed copy and usage.
func allEnded(t testing.TB, b *broker.Broker, l *joblog.Log, ids []subject.JobName) {
	t.Helper()
	jobtest.Drained(t, "jobs", func() uint64 {
		left := uint64(0)
		for _, name := range []string{b.Names().Work(), b.Names().Wait()} {
			s, err := b.JetStream().Stream(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			left += s.CachedInfo().State.Msgs
		}
		return left
	})
	for _, n := range ids {
		e, err := l.Get(t.Context(), n)
		if err != nil || !e.Terminal() {
			t.Fatalf("%s: %v, %v", n.ID, e, err)
		}
		if e.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
			t.Errorf("%s ended with %v", n.ID, e.Job.GetError())
		}
		if _, err := b.Last(t.Context(), b.Names().Tasks(), b.Names().Done(n.Kind, n.Tenant, "completed", n.ID)); err != nil {
			t.Errorf("%s in the feed: %v", n.ID, err)
		}
		if _, err := b.Last(t.Context(), b.Names().UsageStream(), b.Names().Usage(n.Kind, n.Tenant, n.ID)); err != nil {
			t.Errorf("usage of %s: %v", n.ID, err)
		}
	}
}

// TestAnAcceptedBacklogEnds proves that all jobs admitted until the log is full complete, with feed
// copy and usage, although eight replicas admitted them on stale figures and replies are unusually
// long.
func TestAnAcceptedBacklogEnds(t *testing.T) {
	t.Parallel()
	const log, reply = 20 << 20, 10 << 10
	brokertest.EachLimited(t, broker.Limits{TasksMaxBytes: log}, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		url, creates := longReplies(t, reply)
		cfg := testConfig(t, url, onCluster, func(c *config.Config) { // on a busy machine, no replica may lose its jobs
			for i := range c.Routes {
				c.Routes[i].AckWait = 30 * time.Second
			}
		})
		var replicas []*replica
		for range 8 {
			replicas = append(replicas, idleReplica(t, open(t), cfg))
		}
		ids := fill(t, replicas)
		t.Logf("%d jobs were accepted", len(ids))
		if len(ids) < 1000 {
			t.Errorf("%d jobs were accepted", len(ids))
		}
		for _, r := range replicas {
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		b, l := replicas[0].Broker, replicas[0].log
		allEnded(t, b, l, ids)
		created := creates()
		for key, n := range created {
			if n != 1 {
				t.Errorf("%s was created %d times", key, n)
			}
		}
		// A job that the broker did not confirm in time may have been accepted too.
		for _, n := range ids {
			if n.Kind == subject.Video && created[n.ID] != 1 {
				t.Errorf("%s was created %d times", n.ID, created[n.ID])
			}
		}
		if letters := deadLetters(t, b); len(letters) != 0 {
			t.Errorf("dead letters: %v", letters)
		}
	})
}

// TestAnOrdinaryJobTakesWhatIsReserved proves that the reserved log capacity fits a video that is
// polled once and a chat with a reply of some hundred words.
func TestAnOrdinaryJobTakesWhatIsReserved(t *testing.T) {
	t.Parallel()
	for kind, request := range map[subject.Kind]string{
		subject.Video: `{"model":"sandbox-video","prompt":"a dog"}`,
		subject.Chat:  `{"model":"sandbox-chat","messages":[{"role":"user","content":"hi"}]}`,
	} {
		for _, encoding := range []string{config.EncodingProtobuf, config.EncodingJSON} {
			t.Run(encoding+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				b := brokertest.Single(t)
				url, _ := longReplies(t, 3000)
				r := newReplica(t, b, testConfig(t, url, func(c *config.Config) { c.Events.Encoding = encoding }))
				figures, err := r.log.Capacity.Figures(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				const jobs = 10
				var ids []subject.JobName
				for range jobs {
					e, err := r.Admission.Admit(t.Context(), admission.Request{Kind: kind, Tenant: "acme", Body: body.Parse([]byte(request))})
					if err != nil {
						t.Fatal(err)
					}
					ids = append(ids, e.Name())
				}
				allEnded(t, b, r.log, ids)
				s, err := b.JetStream().Stream(t.Context(), b.Names().Tasks())
				if err != nil {
					t.Fatal(err)
				}
				life, reserved := int64(s.CachedInfo().State.Bytes)/jobs, figures.AdmitLimit()/r.log.Capacity.JobsPerDay(figures, 24*time.Hour)
				t.Logf("a %s takes %d bytes in %d messages; %d are reserved", kind, life, s.CachedInfo().State.Msgs/jobs, reserved)
				if life > reserved || life < reserved/4 {
					t.Errorf("a %s takes %d bytes, and %d are reserved", kind, life, reserved)
				}
			})
		}
	}
}
