package consumer

import (
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// boundAndSubmitted returns the past of a job that was resubmitted after an unknown outcome, and
// accepted.
func boundAndSubmitted(deadline time.Duration) []transition {
	s := func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
		return task.Submitting(v, now, task.Submission{Upstream: config.SandboxUpstream, Until: now, Deadline: now.Add(deadline)})
	}
	return []transition{s, s, func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
		return task.Submitted(v, now, task.Receipt{UpstreamID: "up_1"})
	}}
}

// TestABoundTaskWithAnIDIsNotUnknown proves that a bound job with an upstream ID fails with the
// actual reason and the ID.
func TestABoundTaskWithAnIDIsNotUnknown(t *testing.T) {
	t.Parallel()
	for code, end := range map[string]func(t *testing.T, r *replica, item *genbusv1.WorkItem){
		"deadline_exceeded": func(t *testing.T, r *replica, item *genbusv1.WorkItem) {
			t.Helper()
			if _, err := r.sweeper.Check(t.Context(), joblog.NameOf(item), time.Now().Add(2*time.Hour)); err != nil {
				t.Fatal(err)
			}
		},
		"poisoned": func(t *testing.T, r *replica, item *genbusv1.WorkItem) {
			t.Helper()
			newReplica(t, r.Broker, r.cfg).stop(true) // creates the durable consumer
			putItem(t, r.Broker, item)
			deliver(t, r.Broker, 10+2)
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"upstream_removed": func(t *testing.T, r *replica, item *genbusv1.WorkItem) {
			t.Helper()
			subj := r.Broker.Names().WorkItem(subject.Video, "gone", "acme", item.GetId())
			putItemAt(t, r.Broker, subj, item)
			r.failRemoved(t)
		},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			b := brokertest.Single(t)
			r := idleReplica(t, b, testConfig(t, newSandbox(t).URL()))
			item := itemOf("v", config.SandboxVideoRoute, "a cat")
			pastOf(t, forerunner(t, b), item, boundAndSubmitted(time.Hour)...)
			end(t, r, item)
			ended := last(follow(t, r.log, item.GetId()))
			if ended.Job.GetError().GetCode() != code || videoOf(ended).GetUpstreamTaskId() != "up_1" {
				t.Errorf("ended %v with id %q", ended.Job.GetError(), videoOf(ended).GetUpstreamTaskId())
			}
			for _, l := range deadLetters(t, b) {
				if l.GetError().GetCode() != code || l.GetUpstreamTaskId() != "up_1" {
					t.Errorf("its dead letter is %v", l)
				}
			}
		})
	}
}
