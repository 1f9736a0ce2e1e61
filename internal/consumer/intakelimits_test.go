package consumer

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/intake"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
)

// TestTheInboxWaitsForItsTenantsLimits proves that inbox requests above a tenant's limits are
// accepted later, without dead letters.
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
			for i := range 3 { // before a replica takes them, so that they arrive together
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

// TestAFullTenantDoesNotBlockTheInbox proves that a tenant's requests above its limit do not block
// other tenants.
func TestAFullTenantDoesNotBlockTheInbox(t *testing.T) {
	t.Parallel()
	up, err := sandbox.Start("127.0.0.1:0", sandbox.Options{VideoDuration: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := up.Close(); err != nil {
			t.Error(err)
		}
	})
	b := brokertest.Single(t)
	const beyond = 2 * intake.Slots // how many wait at a time depends on the pace of the retries
	for i := range beyond {
		publish(t, b, subject.Video, fmt.Sprint(i), videoRequest(fmt.Sprint(i), "sandbox-video", "a cat"))
	}
	r := newReplica(t, b, testConfig(t, up.URL(), func(c *config.Config) { c.Limits.Tenant = config.TenantLimits{MaxJobs: 2} }))
	r.eventually(t, "the inbox holds more than there are slots", func() bool { return inboxHolds(t, b) > intake.Slots })
	m := nats.NewMsg(b.Names().Request(subject.Video, "other"))
	m.Data, m.Header[subject.HeaderContentType] = []byte(`{"model":"sandbox-video","prompt":"a dog"}`), []string{subject.ContentTypeJSON}
	if _, err := b.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	r.eventually(t, "the other tenant's task is submitted", func() bool { return up.Sandbox.Stats().Creates == 3 })
}

// inboxHolds counts the videos in the inbox that were delivered and wait.
func inboxHolds(t testing.TB, b *broker.Broker) int {
	t.Helper()
	cons, err := b.JetStream().Consumer(t.Context(), b.Names().Requests(), subject.IntakeDurable(subject.Video))
	if err != nil {
		return 0
	}
	return cons.CachedInfo().NumAckPending
}
