package video

import (
	"testing"

	"go.uber.org/goleak"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/subject"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

// process is a replica whose runners get only the jobs that a test holds.
type process struct {
	*jobtest.Process
	runners *Runners
}

func newProcess(t testing.TB, b *broker.Broker, url string, change ...func(*config.Config)) process {
	t.Helper()
	p := jobtest.NewProcess(t, b, jobtest.Config(t, url, change...))
	p.Start(t)
	return process{p, New(Options{
		Holder: p.Holder(t), Config: p.Config, Routes: p.Routes, Content: p.Content, ReserveDeadLetter: p.DeadLetterQuota.Reserve,
	})}
}

func (p process) runner() *Runner {
	return p.runners.Runner(config.SandboxVideoRoute, p.Metrics.Route(subject.Video, config.SandboxVideoRoute))
}

// held returns a job of the sandbox's route with its log, at its second delivery. The test runs its
// steps.
func (p process) held(t *testing.T, item *genbusv1.WorkItem) *job {
	return p.heldBy(t, p.runner(), item, 2)
}

// heldBy is held for a runner and a number of deliveries.
func (p process) heldBy(t testing.TB, r *Runner, item *genbusv1.WorkItem, deliveries uint64) *job {
	t.Helper()
	j := r.newJob(p.runners.Holder.NewJob(item, hold.Delivery{Count: deliveries}, r.metrics), func() {})
	route, ok := p.Routes.Video(config.SandboxVideoRoute)
	if !ok {
		t.Fatal("there is no route")
	}
	j.task.route = route
	if err := j.held.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return j
}
