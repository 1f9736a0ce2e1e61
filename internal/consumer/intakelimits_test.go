package consumer

import (
	"fmt"
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

// TestTheInboxWaitsForItsTenantsLimits: nobody can be told to come back later, so
// that what is too much now is accepted later, and nothing becomes a dead letter.
func TestTheInboxWaitsForItsTenantsLimits(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]config.TenantLimits{
		"requests":        {RequestsPerSecond: 5, Burst: 2},
		"unfinished jobs": {MaxJobs: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up, b := newSandbox(t), brokertest.Single(t)
			cfg := testConfig(t, up.URL(), func(c *config.Config) { c.Limits.Tenant = limits })
			ids := make([]string, 0, 3)
			for i := range 3 { // before anybody takes them, so that they come at once
				key := fmt.Sprintf("%s-%d", name, i)
				ids = append(ids, publish(t, b, subject.Video, key, videoRequest(key, "sandbox-video", "a cat")))
			}
			r := newReplica(t, b, cfg)
			for _, id := range ids {
				if end := last(follow(t, r.log, id)); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
					t.Errorf("%s ended %v", id, end.Job.GetError())
				}
			}
			if letters := deadLetters(t, b); len(letters) != 0 {
				t.Errorf("dead letters: %v", letters)
			}
			if n := up.Sandbox.Stats().Creates; n != 3 {
				t.Errorf("%d creates", n)
			}
		})
	}
}
