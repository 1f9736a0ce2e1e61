package admission_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
)

// sandbox returns the configuration of a sandbox that does not run.
func sandbox(t testing.TB) *config.Config {
	t.Helper()
	cfg := config.Default()
	if err := cfg.AddSandbox("http://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// configured is setup with a changed configuration. It also returns the queue.
func configured(t testing.TB, b *broker.Broker, change func(*config.Config)) (*bundle, *queue.Queue) {
	t.Helper()
	cfg := sandbox(t)
	change(cfg)
	s := open(t, b, cfg)
	return s, s.parts.Queue
}

// TestAnAcceptedRequestIsNeverRefused checks that an accepted request attaches whatever has changed
// since, even if its job is not logged. A request with its ID and another body, and new requests,
// are refused.
func TestAnAcceptedRequestIsNeverRefused(t *testing.T) {
	t.Parallel()
	route := func(change func(*config.Route)) func(*config.Config, *admission.Request) {
		return func(c *config.Config, _ *admission.Request) {
			for i := range c.Routes {
				change(&c.Routes[i])
			}
		}
	}
	changes := map[errcode.Code][]func(*config.Config, *admission.Request){
		errcode.InvalidRequest: {
			func(_ *config.Config, r *admission.Request) { r.ExpiresAt = time.Now().Add(-time.Second) },
			func(_ *config.Config, r *admission.Request) { r.Labels = map[string]string{"": "a rule of later"} },
		},
		errcode.BodyTooLarge: {func(c *config.Config, _ *admission.Request) { c.Limits.Tenant.MaxBodyBytes = 1 }},
		errcode.ModelNotFound: {
			func(c *config.Config, _ *admission.Request) { *c = *config.Default() }, // it has no routes
			route(func(r *config.Route) { r.Draining = true }),
		},
		errcode.WrongProtocol: {route(func(r *config.Route) { r.Protocol = "videos" })},
		errcode.QueueFull:     {route(func(r *config.Route) { r.MaxQueued = 1 })},
	}
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		before, q := configured(t, b, func(*config.Config) {})
		route, _ := sandbox(t).Route("video", "sandbox-video")
		if _, err := q.Route(subject.Video, route.Name).Ensure(t.Context(), route, b.Streams().EnsureConsumer); err != nil {
			t.Fatal(err)
		}
		tasks, err := b.JetStream().Stream(t.Context(), b.Names().Tasks())
		if err != nil {
			t.Fatal(err)
		}
		message := uint64(0)
		for code, of := range changes {
			for i, change := range of {
				for _, logged := range []bool{true, false} {
					message++
					source := admission.ByInbox("inbox", message, time.Unix(1e9, 0))
					request := video("", "a cat")
					request.Source, request.Protocol = &source, "primary"
					first, err := before.Admit(t.Context(), request)
					if err != nil {
						t.Fatal(err)
					}
					if !logged {
						if err := tasks.DeleteMsg(t.Context(), first.Seq); err != nil {
							t.Fatal(err)
						}
					}
					after, _ := configured(t, b, func(c *config.Config) { change(c, &request) })
					request.First = !logged
					if e, err := after.Admit(t.Context(), request); err != nil || e.Job.GetId() != first.Job.GetId() || e.Version() != 1 {
						t.Errorf("%s, %d, logged %t: %v, %v", code, i, logged, e.Job, err)
					}
					other := request
					other.Body = body.Parse([]byte(`{"model":"sandbox-video","prompt":"a dog"}`))
					if _, err := after.Admit(t.Context(), other); errcode.CodeOf(err) != errcode.IdempotencyKeyReused {
						t.Errorf("%s, %d, logged %t: another body: %v", code, i, logged, err)
					}
					unknown := admission.ByInbox("inbox", 1000+message, time.Unix(1e9, 0))
					request.Source = &unknown
					if _, err := after.Admit(t.Context(), request); errcode.CodeOf(err) != code {
						t.Errorf("%s, %d: a new request: %v", code, i, err)
					}
				}
			}
		}
	})
}

// TestARefusalReadsThreeMessages checks that a refusal reads the backlog, the ready jobs and the
// log once each, in this order, with any number of servers.
func TestARefusalReadsThreeMessages(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		s, _ := configured(t, b, func(c *config.Config) { c.Limits.Tenant.MaxBodyBytes = 1 })
		asked := make(chan *nats.Msg, 100)
		if _, err := b.Conn().ChanSubscribe("$JS.API.>", asked); err != nil {
			t.Fatal(err)
		}
		if err := b.Conn().Flush(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Admit(t.Context(), video("one", "a cat")); errcode.CodeOf(err) != errcode.BodyTooLarge {
			t.Fatal(err)
		}
		if err := b.Conn().Flush(); err != nil {
			t.Fatal(err)
		}
		var read []string
		for len(asked) > 0 {
			api := strings.TrimPrefix((<-asked).Subject, "$JS.API.")
			if get, ok := strings.CutPrefix(api, "STREAM.MSG.GET."); ok || strings.HasPrefix(api, "DIRECT.GET.") {
				read = append(read, get)
			}
		}
		names := b.Names()
		if want := []string{names.Wait(), names.Work(), names.Tasks()}; !slices.Equal(read, want) {
			t.Errorf("read %q, want %q", read, want)
		}
	})
}

// TestAJobOfUnknownAcceptanceIsLogged checks that such a job is logged once the log accepts events,
// even if its caller does not retry.
func TestAJobOfUnknownAcceptanceIsLogged(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		s, q := configured(t, b, func(*config.Config) {})
		if _, err := s.Admit(t.Context(), video("first", "a cat")); err != nil {
			t.Fatal(err)
		}
		bound := func(msgs int64) {
			t.Helper()
			tasks, err := b.JetStream().Stream(t.Context(), b.Names().Tasks())
			if err != nil {
				t.Fatal(err)
			}
			cfg := tasks.CachedInfo().Config
			cfg.MaxMsgs = msgs
			if _, err := b.JetStream().UpdateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
		}
		bound(1)
		r := video("one", "a cat")
		for range 2 {
			if _, err := s.Admit(t.Context(), r); errcode.CodeOf(err) != errcode.AcceptanceUnknown {
				t.Fatalf("the log takes no event: %v", err)
			}
		}
		expired := r
		expired.ExpiresAt = time.Now().Add(-time.Second)
		if _, err := s.Admit(t.Context(), expired); errcode.CodeOf(err) != errcode.AcceptanceUnknown {
			t.Errorf("a repeat that no one would accept now: %v", err)
		}
		bound(-1)
		events, err := b.JetStream().CreateConsumer(t.Context(), b.Names().Tasks(), jetstream.ConsumerConfig{
			FilterSubject: b.Names().Task(subject.Video, "acme", r.JobID()), AckPolicy: jetstream.AckNonePolicy,
		})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer close(done)
			q.Run(ctx, slog.New(slog.DiscardHandler))
		}()
		brokertest.Next(t, events)
		cancel()
		<-done
		if e, err := s.Admit(t.Context(), r); err != nil || e.Version() != 1 {
			t.Errorf("the repeat: %v, %v", e.Job, err)
		}
	})
}
