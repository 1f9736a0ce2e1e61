package admission_test

import (
	"slices"
	"testing"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/subject"
)

// withOneJob is setup with a limit of one unfinished job per tenant.
func withOneJob(t testing.TB, b *broker.Broker) *bundle {
	t.Helper()
	return limited(t, b, config.TenantLimits{MaxJobs: 1})
}

func limited(t testing.TB, b *broker.Broker, limits config.TenantLimits) *bundle {
	t.Helper()
	cfg := sandbox(t)
	cfg.Limits.Tenant = limits
	return open(t, b, cfg)
}

// TestAFullTenantAttaches checks that a full tenant still attaches to its jobs, including one
// without a log after a crash and one that another replica accepted.
func TestAFullTenantAttaches(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		s, other := withOneJob(t, open(t)), setup(t, open(t))
		crashed, err := other.Admit(t.Context(), video("crashed", "a cat"))
		if err != nil {
			t.Fatal(err)
		}
		elsewhere, err := other.Admit(t.Context(), video("elsewhere", "a cat"))
		if err != nil {
			t.Fatal(err)
		}
		stream, err := s.b.JetStream().Stream(t.Context(), s.b.Names().Tasks())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.DeleteMsg(t.Context(), crashed.Seq); err != nil { // as if the crash had happened before the event
			t.Fatal(err)
		}
		first, err := s.Admit(t.Context(), video("first", "a cat"))
		if err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			name string
			e    joblog.Entry
		}{{"first", first}, {"crashed", crashed}, {"elsewhere", elsewhere}} {
			again, err := s.Admit(t.Context(), video(tc.name, "a cat"))
			if err != nil || again.Job.GetId() != tc.e.Job.GetId() {
				t.Errorf("%s: %v, %v", tc.name, again.Job, err)
			}
		}
		for name, r := range map[string]admission.Request{"without a name": video("", "a cat"), "with a new name": video("new", "a cat")} {
			if _, err := s.Admit(t.Context(), r); errcode.CodeOf(err) != errcode.TenantFull {
				t.Errorf("a job %s: %v", name, err)
			}
		}
		if _, err := s.Admit(t.Context(), video("crashed", "a dog")); errcode.CodeOf(err) != errcode.IdempotencyKeyReused {
			t.Errorf("another body: %v", err)
		}
		free := video("", "a cat")
		free.Tenant = "globex"
		if _, err := s.Admit(t.Context(), free); err != nil {
			t.Errorf("another tenant: %v", err)
		}
	})
}

// TestRefusalsAreCounted checks that only refusals due to the tenant's own limits count.
func TestRefusalsAreCounted(t *testing.T) {
	t.Parallel()
	s := withOneJob(t, brokertest.Single(t))
	for _, r := range []admission.Request{video("a", "a cat"), video("a", "a cat"), video("b", "a cat"), video("c", "a cat"), {Kind: subject.Video, Tenant: "acme", Body: body.Parse([]byte(`{}`))}} {
		_, _ = s.Admit(t.Context(), r)
	}
	if _, err := s.Acquire(t.Context(), "acme"); errcode.CodeOf(err) != errcode.TenantFull {
		t.Errorf("an inline chat: %v", err)
	}
	if got := s.Refusals(10); !slices.Equal(got, []quota.Refused{{Tenant: "acme", Count: 3}}) {
		t.Errorf("refused are %v, want b, c and the chat", got)
	}
	s = limited(t, s.b, config.TenantLimits{RequestsPerSecond: 0.001, Burst: 1})
	for range 2 {
		_ = s.Request("acme")
		_ = s.CheckRateLimit(admission.Request{Kind: subject.Chat, Tenant: "acme"})
		_ = s.CheckRateLimit(admission.Request{Kind: subject.Chat, Tenant: "no name"})
	}
	if got := s.Refusals(10); !slices.Equal(got, []quota.Refused{{Tenant: "acme", Count: 3}}) {
		t.Errorf("refused are %v, want all requests but one", got)
	}
}

// TestWhatIsNotAcceptedTakesNoPlace checks that refused requests take no slot.
func TestWhatIsNotAcceptedTakesNoPlace(t *testing.T) {
	t.Parallel()
	s := withOneJob(t, brokertest.Single(t))
	for range 3 {
		if _, err := s.Admit(t.Context(), admission.Request{Kind: subject.Video, Tenant: "acme", Body: body.Parse([]byte(`{"model":"none","prompt":"p"}`))}); err == nil {
			t.Fatal("an unknown model is accepted")
		}
	}
	if _, err := s.Admit(t.Context(), video("", "a cat")); err != nil {
		t.Errorf("the only job: %v", err)
	}
}
