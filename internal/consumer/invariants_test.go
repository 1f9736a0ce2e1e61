package consumer

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/faulttest"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
)

// slowUpstream is an upstream whose tasks and streams end when the test says so.
type slowUpstream struct {
	url  string
	done chan struct{} // closed: all is completed

	mu      sync.Mutex
	creates map[string]int // by Idempotency-Key
	polls   map[string]int // by task
	chats   int
	cut     int // chats whose caller went away
	reads   int
}

func newSlowUpstream(t testing.TB) *slowUpstream {
	u := &slowUpstream{done: make(chan struct{}), creates: map[string]int{}, polls: map[string]int{}}
	u.url = scripted(t, map[string]http.HandlerFunc{
		createPath: func(w http.ResponseWriter, r *http.Request) {
			key := r.Header.Get("Idempotency-Key")
			u.count(func() { u.creates[key]++ })
			says(`{"task_id":%q,"status":"queued"}`, key)(w, r)
		},
		pollPath: func(w http.ResponseWriter, r *http.Request) {
			u.count(func() { u.polls[r.PathValue("id")]++; u.reads++ })
			select {
			case <-u.done:
				saysCompleted(w, r)
			default:
				says(`{"task_id":%q,"status":"in_progress"}`, r.PathValue("id"))(w, r)
			}
		},
		"POST /v1/chat/completions": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"hi"}}]}`+"\n\n")
			_ = http.NewResponseController(w).Flush()
			u.count(func() { u.chats++ })
			select {
			case <-u.done:
			case <-r.Context().Done():
				u.count(func() { u.cut++ })
				return
			}
			_, _ = io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		},
	})
	return u
}

func (u *slowUpstream) count(f func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f()
}

// number reads a counter.
func (u *slowUpstream) number(f func() int) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return f()
}

// askedOnce checks that each job was created once, and the chat called once.
func (u *slowUpstream) askedOnce(t testing.TB, videos, chats int) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, n := range u.creates {
		if n != 1 {
			t.Errorf("%s was created %d times", key, n)
		}
	}
	if len(u.creates) != videos || u.chats != chats {
		t.Errorf("%d videos were created and %d chats called, want %d and %d", len(u.creates), u.chats, videos, chats)
	}
}

// linked is one NATS server, with a connection that goes through a link and one
// that does not.
func linked(t testing.TB) (link *faulttest.Link, through, direct *broker.Broker) {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		ServerName: "alone", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: t.TempDir(), JetStreamMaxMemory: 512 << 20, JetStreamMaxStore: 100 << 30, MaxPayload: 8 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(patience) {
		t.Fatal("the NATS server did not start")
	}
	link, err = faulttest.NewLink(strings.TrimPrefix(s.ClientURL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
	return link, openAt(t, "nats://"+link.Addr()), openAt(t, s.ClientURL())
}

func openAt(t testing.TB, url string) *broker.Broker {
	t.Helper()
	b, err := broker.Open(t.Context(), broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := b.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// inFlight publishes videos and one streamed chat, and waits until the upstream
// has all of them.
func inFlight(t testing.TB, b *broker.Broker, l *tasklog.Log, up *slowUpstream, videos int) (ids []string) {
	t.Helper()
	for i := range videos {
		request := fmt.Sprint("v", i)
		ids = append(ids, publish(t, b, subject.Video, request, videoRequest(request, "sandbox-video", "a cat")))
	}
	ids = append(ids, publish(t, b, subject.Chat, "c", chatRequest("c", "sandbox-chat", true)))
	for _, id := range ids {
		follow(t, l, id, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)
	}
	shortly(t, "the chat is streamed", func() bool { return up.number(func() int { return up.chats }) == 1 })
	return ids
}

// shortly asks again until it is so.
func shortly(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); {
		if broker.Wait(t.Context(), 10*time.Millisecond) != nil || time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// directLog reads the log around what the replica suffers.
func directLog(t testing.TB, b *broker.Broker, cfg *config.Config) *tasklog.Log {
	t.Helper()
	r := idleReplica(t, b, cfg)
	return r.log
}

// allCompleted waits for the ends, which came without a second attempt.
func allCompleted(t testing.TB, b *broker.Broker, l *tasklog.Log, ids []string) {
	t.Helper()
	for _, id := range ids {
		events := follow(t, l, id)
		end := last(events)
		if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || end.Job.GetExecution().GetAttempt() > 1 {
			t.Errorf("%s: %s with %v after %d attempts", id, phases(events), end.Job.GetError(), end.Job.GetExecution().GetAttempt())
		}
		doneOnce(t, b, end)
	}
	if letters := deadLetters(t, b); len(letters) != 0 {
		t.Errorf("dead letters: %v", letters)
	}
}

// TestBrokerAwayForLongerThanAckWait: all that is held comes to its own holder
// again. There is one handler for each id: nothing is submitted again, no outcome
// is unknown, and no chat is called again.
func TestBrokerAwayForLongerThanAckWait(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]faulttest.CutMode{"reset": faulttest.Reset, "silent": faulttest.Blackhole} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			link, through, direct := linked(t)
			up := newSlowUpstream(t)
			cfg := testConfig(t, up.url)
			l := directLog(t, direct, cfg)
			r := newReplica(t, through, cfg)
			const videos = 10
			ids := inFlight(t, direct, l, up, videos)

			link.Cut(mode)
			// Time is what is tested: longer than AckWait, and than an extension that was
			// under way.
			if err := broker.Wait(t.Context(), cfg.Routes[0].AckWait*5/4); err != nil {
				t.Fatal(err)
			}
			reads := up.number(func() int { return up.reads })
			link.Heal()
			shortly(t, "everything was delivered again", func() bool { return redelivered(t, direct) == videos+1 })
			shortly(t, "polls go on", func() bool { return up.number(func() int { return up.reads }) > reads+2*videos })
			if n := heldJobs(r.held); n != videos+1 {
				t.Errorf("%d jobs are held, want %d", n, videos+1)
			}
			close(up.done)
			allCompleted(t, direct, l, ids)
			up.askedOnce(t, videos, 1)
			shortly(t, "nothing is held", func() bool { return heldJobs(r.held) == 0 })
		})
	}
}

func heldJobs(r *registry) (n int) {
	r.each(func(job) { n++ })
	return n
}

// redelivered counts the items that are held and were delivered more than once.
func redelivered(t testing.TB, b *broker.Broker) (n int) {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), b.Names().Work())
	if err != nil {
		t.Fatal(err)
	}
	all := s.ListConsumers(t.Context())
	for info := range all.Info() {
		n += info.NumRedelivered
	}
	if all.Err() != nil {
		t.Fatal(all.Err())
	}
	return n
}

// TestStrayAcksChangeNothing: somebody with every right sends all kinds of
// acknowledgements to the replies that the broker waits for, its own and of other
// deliveries. Acks are not what decides: each job ends once, and no request goes
// out twice.
func TestStrayAcksChangeNothing(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"-NAK", `-NAK {"delay":1000000}`, "+WPI", "+TERM", "+ACK", "+NXT"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			b, up := brokertest.Single(t), newSlowUpstream(t)
			r := newReplica(t, b, testConfig(t, up.url))
			const videos = 4
			ids := inFlight(t, b, r.log, up, videos)
			for _, reply := range replies(r.held) {
				for _, subj := range []string{reply, nextConsumerSequence(t, reply)} {
					for range 3 {
						if err := b.Conn().Publish(subj, []byte(verb)); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			if err := b.Conn().Flush(); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(verb, "-NAK") {
				shortly(t, "they are delivered again", func() bool { return redelivered(t, b) > 0 })
			}
			reads := up.number(func() int { return up.reads })
			shortly(t, "polls go on", func() bool { return up.number(func() int { return up.reads }) > reads+2*videos })
			close(up.done)
			allCompleted(t, b, r.log, ids)
			up.askedOnce(t, videos, 1)
		})
	}
}

// replies are the ack subjects of all that a process holds.
func replies(r *registry) (out []string) {
	r.each(func(j job) {
		switch j := j.(type) {
		case *videoJob:
			j.mu.Lock()
			out = append(out, j.msg.reply)
			j.mu.Unlock()
		case *chatJob:
			out = append(out, j.delivery().reply)
		}
	})
	return out
}

// nextConsumerSequence is the reply of a delivery that is not this one:
// $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>.
func nextConsumerSequence(t testing.TB, reply string) string {
	t.Helper()
	m, err := jetstreamMeta(reply)
	if err != nil {
		t.Fatal(err)
	}
	tokens := strings.Split(reply, ".")
	at := len(tokens) - 3
	if len(tokens) > 9 { // with a domain, an account and a random token
		at = 8
	}
	if tokens[at] != fmt.Sprint(m.Sequence.Consumer) {
		t.Fatalf("%s: token %d is not %d", reply, at, m.Sequence.Consumer)
	}
	tokens[at] = fmt.Sprint(m.Sequence.Consumer + 1)
	return strings.Join(tokens, ".")
}

func jetstreamMeta(reply string) (*nats.MsgMetadata, error) {
	return (&nats.Msg{Reply: reply, Sub: &nats.Subscription{}}).Metadata()
}

// smallLog opens a broker whose log of record has little room.
func smallLog(t testing.TB, bytes int64) *broker.Broker {
	t.Helper()
	b, err := broker.Open(t.Context(), broker.Options{
		Names: subject.Default(), Logger: brokertest.Logger(t), Limits: broker.Limits{TasksMaxBytes: bytes},
		Embedded: broker.Embedded{DataDir: t.TempDir(), NoSync: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := b.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// fillLog puts foreign ends into the feed until the log has used a share, or is
// full where the share is 1.
func fillLog(t testing.TB, b *broker.Broker, share float64) {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), b.Names().Tasks())
	if err != nil {
		t.Fatal(err)
	}
	size := 16 << 10
	for i := 0; ; i++ {
		info, err := s.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if share < 1 && float64(info.State.Bytes) >= share*float64(info.Config.MaxBytes) {
			return
		}
		_, err = b.JetStream().Publish(t.Context(), b.Names().Done(subject.Video, "foreign", "completed", fmt.Sprintf("f%d-%d", size, i)), make([]byte, size))
		var refused *jetstream.APIError
		switch {
		case err == nil:
		case !errors.As(err, &refused):
			t.Fatal(err)
		case size == 1:
			return
		default:
			size /= 4
		}
	}
}

// TestFullLog: above the first limit admission refuses with advice, and what is in
// flight ends. With no byte left nothing can be written, and nothing is lost: as
// shortly as there is room again, every job ends, and admission is open.
func TestFullLog(t *testing.T) {
	t.Parallel()
	for name, share := range map[string]float64{"nearly full": 0.93, "full to the last byte": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, up := smallLog(t, 2<<20), newSlowUpstream(t)
			r := newReplica(t, b, testConfig(t, up.url))
			const videos = 10
			ids := inFlight(t, b, r.log, up, videos)
			fillLog(t, b, share)
			ask := func(request string) error {
				_, err := r.Admission.Admit(t.Context(), admission.Request{
					Kind: subject.Video, Tenant: "acme", RequestID: request, Body: []byte(`{"model":"sandbox-video","prompt":"a dog"}`),
				})
				return err
			}
			// The share is read at most once a second, so the first requests may still be
			// taken; their jobs end like all others.
			tries := 0
			shortly(t, "admission refuses", func() bool {
				request := fmt.Sprint("late", tries)
				tries++
				err := ask(request)
				if err == nil {
					ids = append(ids, videoID(request))
				}
				return fault.CodeOf(err) == fault.StorageFull
			})
			if f := fault.From(ask("later")); f.Code != fault.StorageFull || f.RetryAfter == 0 {
				t.Errorf("refused with %v, retry after %s", f, f.RetryAfter)
			}
			close(up.done)
			purge := func() {
				s, err := b.JetStream().Stream(t.Context(), b.Names().Tasks())
				if err == nil {
					err = s.Purge(t.Context(), jetstream.WithPurgeSubject(b.Names().Done(subject.Video, "foreign", "*", "*")))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if share == 1 {
				shortly(t, "the ends are tried", func() bool {
					return up.number(func() int { return up.reads }) > videos && heldJobs(r.held) >= videos+1
				})
				purge()
			}
			allCompleted(t, b, r.log, ids)
			purge()
			shortly(t, "admission is open again", func() bool { return ask("last") == nil })
			allCompleted(t, b, r.log, []string{videoID("last")})
			for _, id := range ids[:videos] {
				if n := up.number(func() int { return up.creates[id] }); n != 1 {
					t.Errorf("%s was created %d times", id, n)
				}
			}
		})
	}
}

// TestCancelEndsPollsAndCalls: a cancelled task is asked for no more, and the
// upstream sees the connection of a cancelled chat close.
func TestCancelEndsPollsAndCalls(t *testing.T) {
	t.Parallel()
	b, up := brokertest.Single(t), newSlowUpstream(t)
	r := newReplica(t, b, testConfig(t, up.url))
	ids := inFlight(t, b, r.log, up, 2)
	for _, id := range []string{ids[0], ids[2]} {
		doneOnce(t, b, cancelJob(t, r.log, last(follow(t, r.log, id, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS))))
	}
	shortly(t, "the call is closed", func() bool { return up.number(func() int { return up.cut }) == 1 })
	shortly(t, "one job is held", func() bool { return heldJobs(r.held) == 1 })
	polls := func(id string) int { return up.number(func() int { return up.polls[id] }) }
	cancelled, other := polls(ids[0]), polls(ids[1])
	shortly(t, "the other is polled on", func() bool { return polls(ids[1]) >= other+5 })
	if n := polls(ids[0]); n != cancelled {
		t.Errorf("the cancelled task was polled %d times more", n-cancelled)
	}
	close(up.done)
	allCompleted(t, b, r.log, ids[1:2])
	up.askedOnce(t, 2, 1)
}
