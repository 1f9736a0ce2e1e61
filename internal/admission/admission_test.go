package admission_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/parts"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

type bundle struct {
	*admission.Admission
	b     *broker.Broker
	parts *parts.Parts
	log   *joblog.Log
}

func setup(t testing.TB, b *broker.Broker) *bundle {
	t.Helper()
	return open(t, b, sandbox(t))
}

// open returns the admission of a replica with this configuration.
func open(t testing.TB, b *broker.Broker, cfg *config.Config) *bundle {
	t.Helper()
	p := parts.New(parts.Options{Config: config.NewLive(cfg), Broker: b, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(t)})
	return &bundle{Admission: p.Admission, b: b, parts: p, log: p.Log}
}

func video(requestID, prompt string) admission.Request {
	return admission.Request{Kind: subject.Video, Tenant: "acme", RequestID: requestID, Body: body.Parse(fmt.Appendf(nil, `{"model":"sandbox-video","prompt":%q}`, prompt))}
}

// item reads the stored work item of a job.
func (s *bundle) item(t testing.TB, id string) *genbusv1.WorkItem {
	t.Helper()
	names := s.b.Names()
	m, err := s.b.Last(t.Context(), names.Work(), names.WorkAnyRoute(subject.Video, "acme", id))
	if errors.Is(err, broker.ErrNoMessage) {
		m, err = s.b.Last(t.Context(), names.Wait(), names.WaitAnyRoute(subject.Video, "acme", id))
	}
	if err != nil {
		t.Fatal(err)
	}
	item := &genbusv1.WorkItem{}
	if err := proto.Unmarshal(m.Data, item); err != nil {
		t.Fatal(err)
	}
	return item
}

func TestAcceptedMeansStored(t *testing.T) {
	t.Parallel()
	s := setup(t, brokertest.Single(t))
	e, err := s.Admit(t.Context(), video("", "a cat"))
	if err != nil {
		t.Fatal(err)
	}
	item := s.item(t, e.Job.GetId())
	if string(item.GetBody()) != `{"model":"sandbox-video","prompt":"a cat"}` || item.GetRoute() != "sandbox-video" {
		t.Errorf("stored %v", item)
	}
	logged, err := s.log.Get(t.Context(), e.Name())
	if err != nil || logged.Version() != 1 || logged.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_QUEUED {
		t.Errorf("logged %v, %v", logged, err)
	}
	other, err := s.Admit(t.Context(), video("", "a cat"))
	if err != nil || other.Job.GetId() == e.Job.GetId() {
		t.Errorf("without a request id the same body is another job: %v, %v", other, err)
	}
}

// TestCapacityIsReservedForTheStoredItem checks that the item measured for log capacity equals the
// stored one, so that the first event is not larger.
func TestCapacityIsReservedForTheStoredItem(t *testing.T) {
	t.Parallel()
	s := setup(t, brokertest.Single(t))
	r := video(strings.Repeat("r", 255), "a cat")
	r.Body = body.Parse([]byte(`{"model":"sandbox-video","prompt":"a cat","width":1280,"height":720,"duration":5}`))
	r.Labels, r.RetryOf, r.ExpiresAt, r.Archive = map[string]string{"a": "b"}, subject.JobID(subject.Video, "acme", "x"), time.Now().Add(time.Hour), proto.Bool(true)
	c, err := s.Check(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Admit(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	stored := s.item(t, c.ID)
	if diff := cmp.Diff(stored, c.Item(t.Context(), r, stored.GetAcceptedAt().AsTime()), protocmp.Transform()); diff != "" {
		t.Errorf("the stored item (-) and the measured one (+):\n%s", diff)
	}
}

// TestRacingRequestsMakeOneJob checks that replicas admitting one request ID with two bodies at
// once make one job: the requests with the winning body get it, the others learn that the key is
// used.
func TestRacingRequestsMakeOneJob(t *testing.T) {
	t.Parallel()
	brokertest.EachCAS(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		replicas := []*bundle{setup(t, open(t)), setup(t, open(t))}
		for round := range 10 {
			var mu sync.Mutex
			won, reused := map[string]int{}, 0
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					prompt := []string{"a cat", "a dog"}[i/4]
					e, err := replicas[i%2].Admit(t.Context(), video(fmt.Sprint("r", round), prompt))
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						won[prompt]++
						if e.Job.GetId() != subject.JobID(subject.Video, "acme", fmt.Sprint("request\x00r", round)) {
							t.Errorf("id %s", e.Job.GetId())
						}
					case errcode.CodeOf(err) == errcode.IdempotencyKeyReused:
						reused++
					default:
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if len(won) != 1 || reused != 4 {
				t.Fatalf("round %d: %v accepted, %d reused", round, won, reused)
			}
		}
	})
}

// TestOneLargeRequestSentAtOnce checks that concurrent attempts leave only the body that the work
// item names.
func TestOneLargeRequestSentAtOnce(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		replicas := []*bundle{setup(t, open(t)), setup(t, open(t))}
		bodies := broker.NewBodies(replicas[0].b)
		for i, r := range replicas { // the first one creates the object store
			if _, err := r.Admit(t.Context(), video(fmt.Sprint("first", i), strings.Repeat("a large cat ", 60<<10))); err != nil {
				t.Fatal(err)
			}
		}
		for round := range 5 {
			request := video(fmt.Sprint("r", round), strings.Repeat("a large cat ", 60<<10))
			id := subject.JobID(subject.Video, "acme", "request\x00"+request.RequestID)
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					e, err := replicas[i%2].Admit(t.Context(), request)
					// A busy cluster may take longer than an admission may. Repeat like a caller.
					for code := errcode.CodeOf(err); (code == errcode.AcceptanceUnknown || code == errcode.BrokerUnavailable) && broker.Wait(t.Context(), 50*time.Millisecond) == nil; code = errcode.CodeOf(err) {
						e, err = replicas[i%2].Admit(t.Context(), request)
					}
					if err != nil || e.Job.GetId() != id {
						t.Errorf("%v, %v", e.Job, err)
					}
				})
			}
			wg.Wait()
			ref := publisher.BodyOf(replicas[0].item(t, id).GetBodyRef())
			if got, err := bodies.Get(t.Context(), ref); err != nil || !bytes.Equal(got, request.Body.Bytes()) {
				t.Errorf("round %d: the body has %d bytes, %v", round, len(got), err)
			}
			found, err := bodies.Of(t.Context(), "acme", id)
			if err != nil || len(found) != 1 || found[0].Name != ref.Name {
				t.Errorf("round %d: there are %v, %v", round, found, err)
			}
		}
	})
}

// TestAdmissionAfterACrash checks that a repeat continues with the item of a process that died
// before the first event.
func TestAdmissionAfterACrash(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		s := setup(t, open(t))
		r := video("one", "a cat")
		c, err := s.Check(r)
		if err != nil {
			t.Fatal(err)
		}
		item := c.Item(t.Context(), r, time.Now())
		data, err := proto.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		m := nats.NewMsg(s.b.Names().WorkItem(subject.Video, "sandbox-video", "acme", c.ID))
		m.Data = data
		if _, err := s.b.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Admit(t.Context(), video("one", "a dog")); errcode.CodeOf(err) != errcode.IdempotencyKeyReused || !strings.Contains(err.Error(), "request_id (Idempotency-Key) was already used for job ") {
			t.Errorf("another body: %v", err)
		}
		e, err := s.Admit(t.Context(), r)
		if err != nil || !e.Job.GetCreatedAt().AsTime().Equal(item.GetAcceptedAt().AsTime()) {
			t.Errorf("%v, %v", e, err)
		}
	})
}

// TestFinishedJobIsAttachedTo checks that a repeat gets a finished job from the log, without its
// work item.
func TestFinishedJobIsAttachedTo(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		s := setup(t, open(t))
		e, err := s.Admit(t.Context(), video("one", "a cat"))
		if err != nil {
			t.Fatal(err)
		}
		end, err := task.Cancelled(e.Job, time.Now(), errcode.New(errcode.Cancelled, "x").TaskError())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.log.Commit(t.Context(), end, e.Seq); err != nil {
			t.Fatal(err)
		}
		stream, err := s.b.JetStream().Stream(t.Context(), s.b.Names().Work())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		again, err := s.Admit(t.Context(), video("one", "a cat"))
		if err != nil || again.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_CANCELLED {
			t.Errorf("%v, %v", again, err)
		}
		if _, err := s.b.Last(t.Context(), s.b.Names().Work(), s.b.Names().WorkPattern()); !errors.Is(err, broker.ErrNoMessage) {
			t.Errorf("a finished job was enqueued again: %v", err)
		}
	})
}

func TestFullQueueRefusesWithAdvice(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		s := setup(t, open(t))
		stream, err := s.b.JetStream().Stream(t.Context(), s.b.Names().Work())
		if err != nil {
			t.Fatal(err)
		}
		small := stream.CachedInfo().Config
		small.MaxMsgs = 2
		if _, err := s.b.JetStream().UpdateStream(t.Context(), small); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			if _, err := s.Admit(t.Context(), video(fmt.Sprint(i), "a cat")); err != nil {
				t.Fatal(err)
			}
		}
		_, err = s.Admit(t.Context(), video("third", "a cat"))
		f := errcode.From(err)
		if f.Code != errcode.QueueFull || f.RetryAfter == 0 {
			t.Errorf("got %v, retry after %s", err, f.RetryAfter)
		}
		if _, err := s.Admit(t.Context(), video("0", "a cat")); err != nil {
			t.Errorf("a known job does not need room: %v", err)
		}
	})
}

// TestRepliesCountForTheirTenant checks that a tenant whose object store is full of replies gets no
// new job, and that other tenants and dead-letter actions are unaffected.
func TestRepliesCountForTheirTenant(t *testing.T) {
	t.Parallel()
	brokertest.EachLimited(t, broker.Limits{BodiesMaxBytes: 1 << 20}, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		if _, err := broker.NewBodies(b).Put(t.Context(), "acme", "video_x-reply", make([]byte, 2<<20)); err != nil {
			t.Fatal(err)
		}
		s := setup(t, b)
		for _, kind := range []subject.Kind{subject.Video, subject.Chat} {
			r := video("", "a cat")
			if r.Kind = kind; kind == subject.Chat {
				r.Body = body.Parse([]byte(`{"model":"sandbox-chat","messages":[{"role":"user","content":"hi"}]}`))
			}
			if _, err := s.Admit(t.Context(), r); errcode.CodeOf(err) != errcode.StorageFull || errcode.From(err).RetryAfter == 0 {
				t.Errorf("a new %s: %v", kind, err)
			}
			if r.Tenant = "globex"; kind == subject.Video {
				if _, err := s.Admit(t.Context(), r); err != nil {
					t.Errorf("another tenant's: %v", err)
				}
			}
		}
		resolves := video("", "a dog")
		resolves.Resolves = true
		if _, err := s.Admit(t.Context(), resolves); err != nil {
			t.Errorf("one that resolves a dead letter: %v", err)
		}
	})
}

// TestUsedUpStorageIsNoOutage checks that full NATS storage is refused as storage_full, saying what
// is used up.
func TestUsedUpStorageIsNoOutage(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	limits := broker.Limits{RequestsMaxBytes: mib, TasksMaxBytes: 16 * mib, DeadMaxBytes: mib, RejectedMaxBytes: mib, UsageMaxBytes: mib, OpsMaxBytes: mib}
	s := brokertest.Serve(t, &server.Options{JetStream: true, StoreDir: t.TempDir(), JetStreamMaxMemory: 512 * mib, JetStreamMaxStore: 24 * mib, MaxPayload: 8 * mib})
	b := brokertest.Open(t, broker.Options{Names: subject.Default(), URL: s.ClientURL(), Logger: brokertest.Logger(t), Limits: limits})
	var err error
	for i := 0; err == nil; i++ {
		m := nats.NewMsg(b.Names().WaitItem(subject.Video, "r", "acme", fmt.Sprint("video_", i)))
		m.Data = make([]byte, mib)
		_, err = b.Publish(t.Context(), m)
	}
	if !errors.Is(err, broker.ErrStorage) || !errors.Is(err, broker.ErrFull) {
		t.Errorf("a publish: %v", err)
	}
	_, err = setup(t, b).Admit(t.Context(), video("", "a cat"))
	if errcode.CodeOf(err) != errcode.StorageFull || !strings.Contains(err.Error(), "is full") {
		t.Errorf("a request: %v", err)
	}
}

// TestALimitOfTheAccountIsNamed checks that the refusal names the account limit that prevents
// creating the object store.
func TestALimitOfTheAccountIsNamed(t *testing.T) {
	t.Parallel()
	s := brokertest.Alone(t)
	b := brokertest.Open(t, broker.Options{Names: subject.Default(), URL: s.ClientURL(), Logger: brokertest.Logger(t)})
	limits := server.JetStreamAccountLimits{MaxMemory: -1, MaxStore: -1, MaxStreams: len(b.Streams().Configs()), MaxConsumers: -1}
	if err := s.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": limits}); err != nil {
		t.Fatal(err)
	}
	_, err := setup(t, b).Admit(t.Context(), video("", strings.Repeat("a cat ", 60_000)))
	if errcode.CodeOf(err) != errcode.StorageFull || !strings.Contains(err.Error(), "maximum number of streams") {
		t.Errorf("a large request: %v", err)
	}
}

// TestABodyFitsIntoWhatNATSTakes checks that with a small max_payload, bodies go to the object
// store before they are too large for a message.
func TestABodyFitsIntoWhatNATSTakes(t *testing.T) {
	t.Parallel()
	b := brokertest.Open(t, broker.Options{Names: subject.Default(), URL: brokertest.AloneOf(t, 64<<10).ClientURL(), Logger: brokertest.Logger(t)})
	s := setup(t, b)
	e, err := s.Admit(t.Context(), video("", strings.Repeat("a cat ", 20_000)))
	if err != nil {
		t.Fatal(err)
	}
	if item := s.item(t, e.Job.GetId()); item.GetBodyRef() == nil || len(item.GetBody()) != 0 {
		t.Errorf("the item has a body of %d bytes", len(item.GetBody()))
	}
	many := video("", "a cat")
	many.Labels = map[string]string{"long": strings.Repeat("x", 64<<10)}
	if _, err := s.Admit(t.Context(), many); errcode.CodeOf(err) != errcode.BodyTooLarge && errcode.CodeOf(err) != errcode.InvalidRequest {
		t.Errorf("an item that is too large: %v", err)
	}
}

func TestBrokerUnavailable(t *testing.T) {
	t.Parallel()
	b, err := broker.Open(t.Context(), broker.Options{
		Names: subject.Default(), Logger: brokertest.Logger(t), Embedded: broker.Embedded{DataDir: t.TempDir(), NoSync: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := setup(t, b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	const told = "broker_unavailable: nothing was accepted: JetStream is unavailable: not connected to NATS"
	if _, err := s.Admit(t.Context(), video("one", "a cat")); err == nil || err.Error() != told {
		t.Errorf("with a key: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	if _, err := s.Admit(ctx, video("", "a cat")); errcode.CodeOf(err) != errcode.BrokerUnavailable {
		t.Errorf("without: %v", err)
	}
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := setup(t, brokertest.Single(t))
	many := map[string]string{}
	for i := range 17 {
		many[fmt.Sprint(i)] = "x"
	}
	for _, row := range []struct {
		name   string
		change func(*admission.Request)
		code   errcode.Code
		field  string
	}{
		{"a prompt of another kind", func(r *admission.Request) { r.Body = body.Parse([]byte(`{"model":"sandbox-video","prompt":7}`)) }, errcode.InvalidRequest, "prompt"},
		{"no model", func(r *admission.Request) { r.Body = body.Parse([]byte(`{"prompt":"x"}`)) }, errcode.InvalidRequest, "model"},
		{"no JSON", func(r *admission.Request) { r.Body = body.Parse([]byte(`{"prompt"`)) }, errcode.InvalidJSON, ""},
		{"unknown model", func(r *admission.Request) { r.Body = body.Parse([]byte(`{"model":"x","prompt":"x"}`)) }, errcode.ModelNotFound, ""},
		{"other protocol", func(r *admission.Request) { r.Protocol = "videos" }, errcode.WrongProtocol, ""},
		{"tenant", func(r *admission.Request) { r.Tenant = "a.b" }, errcode.InvalidRequest, "tenant"},
		{"request id", func(r *admission.Request) { r.RequestID = "ä" }, errcode.InvalidRequest, "request_id"},
		{"long request id", func(r *admission.Request) { r.RequestID = strings.Repeat("x", 256) }, errcode.InvalidRequest, "request_id"},
		{"expired", func(r *admission.Request) { r.ExpiresAt = time.Now().Add(-time.Second) }, errcode.InvalidRequest, "expires_at"},
		{"retry of nothing", func(r *admission.Request) { r.RetryOf = "x" }, errcode.InvalidRequest, "retry_of"},
		{"labels", func(r *admission.Request) { r.Labels = many }, errcode.InvalidRequest, "labels"},
		{"long label", func(r *admission.Request) { r.Labels = map[string]string{"k": strings.Repeat("v", 129)} }, errcode.InvalidRequest, "labels"},
		{"too large", func(r *admission.Request) { r.Body = body.Parse(make([]byte, 33<<20)) }, errcode.BodyTooLarge, ""},
		{"too deep", func(r *admission.Request) {
			r.Body = body.Parse([]byte(`{"model":` + strings.Repeat("[", body.MaxDepth) + strings.Repeat("]", body.MaxDepth) + `}`))
		}, errcode.InvalidRequest, ""},
		{"too many values", func(r *admission.Request) {
			r.Body = body.Parse([]byte(`{"model":[` + strings.Repeat("0,", body.MaxValues) + `0]}`))
		}, errcode.InvalidRequest, ""},
	} {
		r := video("one", "a cat")
		row.change(&r)
		_, err := s.Check(r)
		f := errcode.From(err)
		if err == nil || f.Code != row.code || row.field != "" && (len(f.Violations) == 0 || f.Violations[0].Field != row.field) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
	for model, want := range map[string]string{
		"x":            `model_not_found: no video route serves the model "x"; see GET /v1/models`,
		"sandbox-chat": `model_not_found: no video route serves the model "sandbox-chat", but a chat route does; see GET /v1/models`,
	} {
		r := video("one", "a cat")
		r.Body = body.Parse(fmt.Appendf(nil, `{"model":%q,"prompt":"x"}`, model))
		if _, err := s.Check(r); err == nil || err.Error() != want {
			t.Errorf("%s: %v", model, err)
		}
	}
}
