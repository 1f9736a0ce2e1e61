package admission_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

// keeping is setup with routes that keep requests.
func keeping(t testing.TB, b *broker.Broker) *bundle {
	t.Helper()
	cfg := sandbox(t)
	for i := range cfg.Routes {
		cfg.Routes[i].KeepRequests = true
	}
	return open(t, b, cfg)
}

// TestRequestsAreKept checks that after concurrent attempts one copy of the request stays, which
// the log names, and that the work item has the request, too.
func TestRequestsAreKept(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		replicas := []*bundle{keeping(t, open(t)), keeping(t, open(t))}
		bodies := broker.NewBodies(replicas[0].b)
		for round := range 5 {
			request := video(fmt.Sprint("r", round), "a cat")
			n := subject.JobName{Kind: subject.Video, Tenant: "acme", ID: request.JobID()}
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					if _, err := replicas[i%2].Admit(t.Context(), request); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			logged, err := replicas[0].log.Get(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			ref := publisher.BodyOf(logged.Job.GetExecution().GetInput())
			if got, err := bodies.Get(t.Context(), ref); err != nil || string(got) != string(request.Body.Bytes()) {
				t.Errorf("round %d: %q is kept, %v", round, got, err)
			}
			if found, err := bodies.Of(t.Context(), "acme", n.ID); err != nil || len(found) != 1 || found[0].Name != ref.Name {
				t.Errorf("round %d: there are %v, %v", round, found, err)
			}
			if item := replicas[0].item(t, n.ID); string(item.GetBody()) != string(request.Body.Bytes()) {
				t.Errorf("round %d: the work item has %q", round, item.GetBody())
			}
		}
	})
}

// TestWhatIsRefusedIsNotKept checks that a request refused for a full queue leaves no body behind.
func TestWhatIsRefusedIsNotKept(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		s := keeping(t, open(t))
		s.fill(t)
		refused := video("second", "a cat")
		if _, err := s.Admit(t.Context(), refused); errcode.CodeOf(err) != errcode.QueueFull {
			t.Fatal(err)
		}
		s.keepsNothing(t, refused)
	})
}

// TestWhatIsRefusedIsNotKeptForACallerThatDisconnects checks the same if the caller leaves while
// the admission looks for the job after the stream answered "full".
func TestWhatIsRefusedIsNotKeptForACallerThatDisconnects(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		s, other := keeping(t, open(t)), open(t)
		s.fill(t)
		ctx, goAway := context.WithCancel(t.Context())
		defer goAway()
		if _, err := other.Conn().Subscribe("$JS.API.STREAM.MSG.GET."+s.b.Names().Work(), func(*nats.Msg) { goAway() }); err != nil {
			t.Fatal(err)
		}
		if err := other.Conn().Flush(); err != nil {
			t.Fatal(err)
		}
		refused := video("second", "a cat")
		if _, err := s.Admit(ctx, refused); err == nil || ctx.Err() == nil {
			t.Fatalf("%v, and the caller is there: %v", err, ctx.Err() == nil)
		}
		s.keepsNothing(t, refused)
	})
}

// fill limits the work stream to one job and admits that job.
func (s *bundle) fill(t *testing.T) {
	t.Helper()
	stream, err := s.b.JetStream().Stream(t.Context(), s.b.Names().Work())
	if err != nil {
		t.Fatal(err)
	}
	small := stream.CachedInfo().Config
	small.MaxMsgs = 1
	if _, err := s.b.JetStream().UpdateStream(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Admit(t.Context(), video("first", "a cat")); err != nil {
		t.Fatal(err)
	}
}

// keepsNothing checks that the object store has nothing of a request.
func (s *bundle) keepsNothing(t *testing.T, r admission.Request) {
	t.Helper()
	if found, err := broker.NewBodies(s.b).Of(t.Context(), "acme", r.JobID()); err != nil || len(found) != 0 {
		t.Errorf("left behind: %v, %v", found, err)
	}
}

// TestOtherRoutesKeepNothing checks that routes do not keep requests by default.
func TestOtherRoutesKeepNothing(t *testing.T) {
	t.Parallel()
	s := setup(t, brokertest.Single(t))
	e, err := s.Admit(t.Context(), video("", strings.Repeat("a cat ", 100)))
	if err != nil || e.Job.GetExecution().GetInput() != nil {
		t.Errorf("%v, %v", e.Job.GetExecution(), err)
	}
}
