package consumer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// sentBodies is an upstream that completes every task at once, unless unfinished is set, and
// records the prompts by idempotency key.
type sentBodies struct {
	url        string
	unfinished atomic.Bool

	mu      sync.Mutex
	prompts map[string][]string
	order   []string
}

func newSentBodies(t testing.TB) *sentBodies {
	s := &sentBodies{prompts: map[string][]string{}}
	s.url = scripted(t, map[string]http.HandlerFunc{
		createPath: func(w http.ResponseWriter, r *http.Request) {
			prompt, key := promptOf(r), r.Header.Get("Idempotency-Key")
			s.mu.Lock()
			s.prompts[key] = append(s.prompts[key], prompt)
			s.order = append(s.order, prompt)
			s.mu.Unlock()
			respond(`{"task_id":%q,"status":"queued"}`, key)(w, r)
		},
		pollPath: func(w http.ResponseWriter, r *http.Request) {
			if s.unfinished.Load() {
				respond(`{"task_id":%q,"status":"in_progress"}`, r.PathValue("id"))(w, r)
				return
			}
			respondCompleted(w, r)
		},
		"POST /v1/chat/completions": func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			s.order = append(s.order, "chat")
			s.mu.Unlock()
			respond(`{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`)(w, r)
		},
	})
	return s
}

func (s *sentBodies) of(key string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.prompts[key])
}

func (s *sentBodies) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.order)
}

// noItems waits until a job has no work item.
func (r *replica) noItems(t testing.TB, n subject.JobName) {
	t.Helper()
	r.eventually(t, "no work item is left", func() bool {
		_, err := r.Queue.Items.Find(t.Context(), n)
		return errors.Is(err, broker.ErrNoMessage)
	})
}

// TestTwoBodiesUnderOneID proves that of two stored requests with one ID and different bodies
// exactly one is sent, once: the logged one or, without a log, the first to be logged. No item is
// left.
func TestTwoBodiesUnderOneID(t *testing.T) {
	t.Parallel()
	const route, other = config.SandboxVideoRoute, "other"
	names := subject.Default()
	line, room := names.WorkItem, names.WaitItem
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b, up := open(t), newSentBodies(t)
		cases := map[string]struct {
			cat, dog func(subject.Kind, string, string, string) string
			dogRoute string
			recorded string // by its admission, or empty
		}{
			"backlog and ready, none recorded":                        {room, line, route, ""},
			"backlog and ready, the first recorded":                   {room, line, route, "cat"},
			"backlog and ready, the second recorded":                  {room, line, route, "dog"},
			"ready and backlog, none recorded":                        {line, room, route, ""},
			"ready and backlog, the first recorded":                   {line, room, route, "cat"},
			"ready and backlog, the second recorded":                  {line, room, route, "dog"},
			"in two lines, none recorded":                             {line, line, other, ""},
			"in two lines, the first recorded":                        {line, line, other, "cat"},
			"behind two lines, the second recorded":                   {room, room, other, "dog"},
			"ready and backlog of another route, the second recorded": {line, room, other, "dog"},
		}
		for name, c := range cases {
			items := map[string]*genbusv1.WorkItem{"cat": itemOf(name, route, "cat"), "dog": itemOf(name, c.dogRoute, "dog")}
			putItemAt(t, b, c.cat(subject.Video, route, "acme", videoID(name)), items["cat"])
			putItemAt(t, b, c.dog(subject.Video, c.dogRoute, "acme", videoID(name)), items["dog"])
			if c.recorded != "" {
				pastOf(t, forerunner(t, b), items[c.recorded])
			}
		}
		r := newReplica(t, b, testConfig(t, up.url, otherRoute(config.KindVideo)))
		for name, c := range cases {
			end := last(follow(t, r.log, videoID(name)))
			if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
				t.Errorf("%s: ended %v", name, end.Job.GetError())
			}
			r.noItems(t, end.Name())
			sent := up.of(videoID(name))
			if len(sent) != 1 || sent[0] != string(end.Job.GetExecution().GetFingerprint()) || c.recorded != "" && sent[0] != c.recorded {
				t.Errorf("%s: sent %v, and the log has %s", name, sent, end.Job.GetExecution().GetFingerprint())
			}
		}
	})
}

// TestRacingBodies proves the same for concurrent admissions that may be cut off at any time: every
// accepted job ends, and only its body is sent, once.
func TestRacingBodies(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		const rounds, requests = 12, 6
		up := newSentBodies(t)
		cfg := testConfig(t, up.url, func(c *config.Config) {
			for i := range c.Routes {
				c.Routes[i].MaxInFlight, c.Routes[i].ReadyJobs = 3, 1
			}
		})
		replicas := []*replica{newReplica(t, open(t), cfg), newReplica(t, open(t), cfg)}
		admit := func(ctx context.Context, r *replica, round int, prompt string) (joblog.Entry, error) {
			return r.Admission.Admit(ctx, admission.Request{
				Kind: subject.Video, Tenant: "acme", RequestID: fmt.Sprint(round), Body: body.Parse(fmt.Appendf(nil, `{"model":"sandbox-video","prompt":%q}`, prompt)),
			})
		}
		var mu sync.Mutex
		told := map[int]map[string]bool{}
		tell := func(round int, prompt string) {
			mu.Lock()
			defer mu.Unlock()
			if told[round] == nil {
				told[round] = map[string]bool{}
			}
			told[round][prompt] = true
		}
		var wg sync.WaitGroup
		for round := range rounds {
			for i := range requests {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), rand.N(20*time.Millisecond))
					defer cancel()
					if _, err := admit(ctx, replicas[i%2], round, []string{"cat", "dog"}[i/2%2]); err == nil {
						tell(round, []string{"cat", "dog"}[i/2%2])
					}
				})
			}
		}
		wg.Wait()
		for round := range rounds {
			for _, prompt := range []string{"cat", "dog"} {
				_, err := admit(t.Context(), replicas[0], round, prompt)
				// A busy broker may exceed the time of an admission. The caller repeats it.
				for code := errcode.CodeOf(err); (code == errcode.BrokerUnavailable || code == errcode.AcceptanceUnknown) && broker.Wait(t.Context(), 50*time.Millisecond) == nil; code = errcode.CodeOf(err) {
					_, err = admit(t.Context(), replicas[0], round, prompt)
				}
				switch errcode.CodeOf(err) {
				case "":
					tell(round, prompt)
				case errcode.IdempotencyKeyReused:
				default:
					t.Errorf("round %d: %v", round, err)
				}
			}
			end := last(follow(t, replicas[0].log, videoID(fmt.Sprint(round))))
			replicas[0].noItems(t, end.Name())
			if sent := up.of(end.Job.GetId()); len(sent) != 1 || !told[round][sent[0]] || len(told[round]) != 1 || end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
				t.Errorf("round %d: sent %v, told %v, ended %v", round, sent, told[round], end.Job.GetStatus())
			}
		}
	})
}

// TestRecordedItemWithoutALogIsNotRun proves that a marked item without a log does not run: it is
// dropped if its job was erased, and fails if the log was lost.
func TestRecordedItemWithoutALogIsNotRun(t *testing.T) {
	t.Parallel()
	for _, kind := range subject.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
				b, up := open(t), newSentBodies(t)
				other := pastOf(t, forerunner(t, b), itemOf("another", config.SandboxVideoRoute, "dog"))
				r := newReplica(t, b, testConfig(t, up.url))
				erased := recordedItem(t, kind, "erased")
				seq := pastOf(t, r.log, erased).Seq
				purge(t, b, b.Names().Tasks(), b.Names().Task(kind, "acme", erased.GetId()))
				putRecorded(t, b, erased, seq)
				r.noItems(t, joblog.NameOf(erased))
				if e, err := r.log.Get(t.Context(), joblog.NameOf(erased)); !errors.Is(err, joblog.ErrNotFound) {
					t.Errorf("the log has the erased %v, %v", e.Job, err)
				}
				for name, seq := range map[string]uint64{"beyond": 1000, "overwritten": other.Seq} {
					lost := recordedItem(t, kind, name)
					putRecorded(t, b, lost, seq)
					r.noItems(t, joblog.NameOf(lost))
					if e, err := r.log.Get(t.Context(), joblog.NameOf(lost)); err != nil || e.Job.GetError().GetCode() != "log_lost" {
						t.Errorf("%s: the log has %v, %v", name, e.Job, err)
					}
				}
				if letters := deadLetters(t, b); len(letters) != 2 || len(up.all()) != 0 {
					t.Errorf("dead letters %v; sent %v", letters, up.all())
				}
			})
		})
	}
}

// TestTheItemOfAnErasedJobThatThisProcessAdmitted proves that an item whose job was erased during
// the dispatch does not run at the replica that had admitted it.
func TestTheItemOfAnErasedJobThatThisProcessAdmitted(t *testing.T) {
	t.Parallel()
	b, up := brokertest.Single(t), newSentBodies(t)
	r := idleReplica(t, b, testConfig(t, up.url))
	var names []subject.JobName
	for kind, raw := range map[subject.Kind]string{
		subject.Video: `{"model":"sandbox-video","prompt":"a cat"}`,
		subject.Chat:  `{"model":"sandbox-chat","messages":[{"role":"user","content":"hi"}]}`,
	} {
		e, err := r.Admission.Admit(t.Context(), admission.Request{Kind: kind, Tenant: "acme", Body: body.Parse([]byte(raw))})
		if err != nil {
			t.Fatal(err)
		}
		n := e.Name()
		stored, err := r.Queue.Items.Find(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		item, err := stored.Decode()
		if err != nil {
			t.Fatal(err)
		}
		purge(t, b, b.Names().Work(), b.Names().WorkAnyRoute(kind, "acme", n.ID))
		purge(t, b, b.Names().Tasks(), b.Names().Task(kind, "acme", n.ID))
		putRecorded(t, b, item, e.Seq)
		names = append(names, n)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		r.noItems(t, n)
		if e, err := r.log.Get(t.Context(), n); !errors.Is(err, joblog.ErrNotFound) {
			t.Errorf("the log has the erased %v, %v", e.Job, err)
		}
	}
	if letters := deadLetters(t, b); len(letters) > 0 || len(up.all()) > 0 {
		t.Errorf("dead letters %v; sent %v", letters, up.all())
	}
}

func recordedItem(t testing.TB, kind subject.Kind, request string) *genbusv1.WorkItem {
	t.Helper()
	item := itemOf(request, map[subject.Kind]string{subject.Video: config.SandboxVideoRoute, subject.Chat: config.SandboxChatRoute}[kind], "cat")
	item.Kind, item.Id, item.Model = string(kind), subject.JobID(kind, "acme", request), "sandbox-"+string(kind)
	return item
}

// putRecorded stores an item as dispatched from GENBUS_WAIT, with the sequence of its job's last
// event.
func putRecorded(t testing.TB, b *broker.Broker, item *genbusv1.WorkItem, seq uint64) {
	t.Helper()
	data, err := proto.Marshal(item)
	if err != nil {
		t.Fatal(err)
	}
	m := nats.NewMsg(b.Names().WorkItem(subject.Kind(item.GetKind()), item.GetRoute(), "acme", item.GetId()))
	m.Data, m.Header[subject.HeaderRecorded] = data, []string{strconv.FormatUint(seq, 10)}
	if _, err := b.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// TestStaleChatItemIsNotCalled proves that an item does not run if the log has another request's
// chat under its ID.
func TestStaleChatItemIsNotCalled(t *testing.T) {
	t.Parallel()
	b, up := brokertest.Single(t), newSentBodies(t)
	item := itemOf("v", config.SandboxChatRoute, "cat")
	item.Kind, item.Id, item.Model = "chat", subject.JobID(subject.Chat, "acme", "x"), "sandbox-chat"
	e := pastOf(t, forerunner(t, b), item)
	item.Fingerprint = []byte("dog")
	putItemAt(t, b, b.Names().WorkItem(subject.Chat, item.GetRoute(), "acme", item.GetId()), item)
	r := newReplica(t, b, testConfig(t, up.url))
	r.noItems(t, joblog.NameOf(item))
	if current, err := r.log.Get(t.Context(), e.Name()); err != nil || current.Seq != e.Seq || len(up.all()) != 0 {
		t.Errorf("the log has %v, %v; sent %v", current.Job, err, up.all())
	}
}

// otherRoute adds a second route of a kind.
func otherRoute(kind string) func(*config.Config) {
	return func(c *config.Config) {
		r := config.NewRoute("other", kind, config.SandboxUpstream, "other")
		r.AckWait = c.Routes[0].AckWait
		if kind == config.KindVideo {
			r.Poll.Interval = c.Routes[0].Poll.Interval
		}
		c.Routes = append(c.Routes, r)
	}
}

// putSecondSend stores the item of a second send of a request on the other route.
func putSecondSend(t testing.TB, b *broker.Broker, first *genbusv1.WorkItem) {
	t.Helper()
	item := proto.CloneOf(first)
	item.AcceptedAt = timestamppb.New(first.GetAcceptedAt().AsTime().Add(time.Millisecond))
	item.Route = "other"
	putItemAt(t, b, b.Names().WorkItem(subject.Kind(item.GetKind()), "other", "acme", item.GetId()), item)
}

// otherItems returns the number of a job's items on the other route.
func otherItems(t testing.TB, r *replica, n subject.JobName) (found int) {
	t.Helper()
	items, err := r.Queue.Items.All(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range items {
		if name, err := r.Queue.Items.NameOf(i); err == nil && name.Route == "other" {
			found++
		}
	}
	return found
}

// TestASecondItemOnAnotherRouteGivesWay proves that a second item of a running chat on another
// route is dropped and not called.
func TestASecondItemOnAnotherRouteGivesWay(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		var calls atomic.Int64
		goOn := make(chan struct{})
		url := scripted(t, map[string]http.HandlerFunc{"POST /v1/chat/completions": func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			select {
			case <-goOn:
			case <-r.Context().Done():
			}
			respond(`{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`)(w, r)
		}})
		b := open(t)
		older := newReplica(t, b, testConfig(t, url, onCluster))
		item := recordedItem(t, subject.Chat, "sent")
		putItemAt(t, b, b.Names().WorkItem(subject.Chat, item.GetRoute(), "acme", item.GetId()), item)
		follow(t, older.log, item.GetId(), genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)
		newReplica(t, open(t), testConfig(t, url, onCluster, otherRoute(config.KindChat)))
		putSecondSend(t, b, item)
		older.eventually(t, "the second item is dropped", func() bool { return otherItems(t, older, joblog.NameOf(item)) == 0 })
		close(goOn)
		end := last(follow(t, older.log, item.GetId()))
		if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || end.Job.GetExecution().GetRoute() != item.GetRoute() {
			t.Errorf("ended %v", end.Job)
		}
		older.noItems(t, end.Name())
		if calls.Load() != 1 {
			t.Errorf("%d calls of one chat", calls.Load())
		}
	})
}

// TestAnotherItemOfAHeldJobIsKept proves that another item of a held job is not removed before the
// job is dropped, because it may be a later job's.
func TestAnotherItemOfAHeldJobIsKept(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	goOn := make(chan struct{})
	url := scripted(t, map[string]http.HandlerFunc{
		createPath: func(w http.ResponseWriter, r *http.Request) {
			<-goOn
			acceptsByPrompt(w, r)
		},
		pollPath: respondCompleted,
	})
	r := newReplica(t, b, testConfig(t, url, func(c *config.Config) {
		c.Routes = append(c.Routes, config.NewRoute("other", config.KindVideo, config.SandboxUpstream, "other"))
	}, videoRoutes(func(r *config.Route) { r.Timeouts.Create = time.Minute })))
	item := itemOf("v", config.SandboxVideoRoute, "cat")
	putItemAt(t, b, b.Names().WorkItem(subject.Video, item.GetRoute(), "acme", item.GetId()), item)
	follow(t, r.log, item.GetId(), genbusv1.JobPhase_JOB_PHASE_SUBMITTING)
	item.Route = "other"
	putItemAt(t, b, b.Names().WorkItem(subject.Video, "other", "acme", item.GetId()), item)
	r.eventually(t, "the other item was delivered", func() bool {
		c, err := b.JetStream().Consumer(t.Context(), b.Names().Work(), subject.WorkDurable(subject.Video, "other"))
		return err == nil && c.CachedInfo().NumAckPending == 1
	})
	close(goOn)
	if end := last(follow(t, r.log, item.GetId())); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || end.Job.GetExecution().GetAttempt() != 1 {
		t.Errorf("ended %v", end.Job)
	}
	r.noItems(t, joblog.NameOf(item))
}
