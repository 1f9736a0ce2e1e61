package admission_test

import (
	"testing"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// withOneJob admits for tenants that may have one unfinished job each.
func withOneJob(t testing.TB, b *broker.Broker) *bundle {
	t.Helper()
	cfg := config.Default()
	cfg.Limits.Tenant.MaxJobs = 1
	if err := cfg.AddSandbox("http://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	log := joblog.New(joblog.Options{Broker: b, Metrics: telemetry.NewMetrics("test"), Encoder: publisher.Encoder{Names: b.Names()}, Logger: brokertest.Logger(t)})
	return &bundle{Admission: open(cfg, b, log, telemetry.NewMetrics("test")), b: b, log: log}
}

// TestAFullTenantAttaches to a job that was accepted, also where a crash left its
// item without a log, and where another replica accepted it.
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
		if err := stream.DeleteMsg(t.Context(), crashed.Seq); err != nil { // as if the crash had been before it
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

// TestWhatIsNotAcceptedTakesNoPlace, however often it is tried.
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
