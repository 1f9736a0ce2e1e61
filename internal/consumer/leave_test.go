package consumer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// TestCancelledJobsOfARouteThatDoesNotMove proves that cancelled jobs leave nothing behind and
// block no other tenant on a route that is paused or whose upstream is down.
func TestCancelledJobsOfARouteThatDoesNotMove(t *testing.T) {
	t.Parallel()
	for _, paused := range []bool{false, true} {
		t.Run(fmt.Sprintf("paused %t", paused), func(t *testing.T) {
			t.Parallel()
			brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
				b := open(t)
				r := newReplica(t, b, testConfig(t, "http://127.0.0.1:1", slotsOf(2, 2), func(c *config.Config) {
					for i := range c.Routes {
						c.Routes[i].MaxQueued, c.Routes[i].ReadyJobs = 8, 3
					}
				}))
				if paused {
					if _, err := b.JetStream().PauseConsumer(t.Context(), b.Names().Work(), subject.WorkDurable(subject.Video, config.SandboxVideoRoute), time.Now().Add(time.Hour)); err != nil {
						t.Fatal(err)
					}
				}
				admit := func(tenant string) joblog.Entry {
					t.Helper()
					e, err := r.Admission.Admit(t.Context(), admission.Request{Kind: subject.Video, Tenant: tenant, Body: body.Parse([]byte(`{"model":"sandbox-video","prompt":"a cat"}`))})
					if err != nil {
						t.Fatal(err)
					}
					return e
				}
				var unfinished, ended []joblog.Entry
				for i := range 58 {
					unfinished = append(unfinished, admit("acme"))
					if len(unfinished) == 3 {
						end := cancelJob(t, r.log, unfinished[0])
						if err := errors.Join(r.log.Finish(t.Context(), end), r.Queue.RemoveEnded(t.Context(), end)); err != nil {
							t.Fatal(err)
						}
						ended, unfinished = append(ended, end), unfinished[1:]
					}
					if i%20 == 19 {
						admit("globex")
					}
				}
				for _, e := range ended {
					r.noItems(t, e.Name())
				}
			})
		})
	}
}
