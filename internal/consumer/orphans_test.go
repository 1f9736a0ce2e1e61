package consumer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// adoptOrphan adopts the job of an item, which stands there or is gone. As the watch
// does, it comes again when the broker is away: a cluster may be without a leader.
func (r *replica) adoptOrphan(ctx context.Context, subj string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := r.adoptNow(ctx, subj)
	for broker.Unavailable(err) && broker.Wait(ctx, 50*time.Millisecond) == nil {
		err = r.adoptNow(ctx, subj)
	}
	return err
}

func (r *replica) adoptNow(ctx context.Context, subj string) error {
	n, stream, err := r.parseItem(subj)
	if err != nil {
		return err
	}
	m, err := r.Broker.Last(ctx, stream, subj)
	if errors.Is(err, broker.ErrNoMessage) {
		return nil
	}
	if err != nil {
		return err
	}
	return newOrphanWatch(r.Consumer, routeID{n.Kind, n.Route}).adoptOrphan(ctx, m)
}

// TestOrphansBehindTheLine: a job waits for its turn on a route that is gone. It is
// named at the start, and moved or ended as one in line is.
func TestOrphansBehindTheLine(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b, up := open(t), newSandbox(t)
		waitItem(t, b, "gone", videoID("failed"), 0)
		refused := idleReplica(t, b, testConfig(t, up.URL()))
		if err := refused.checkOrphans(t.Context()); err == nil || !strings.Contains(err.Error(), `"gone" (1 jobs)`) {
			t.Errorf("the start: %v", err)
		}
		failing := newReplica(t, b, testConfig(t, up.URL(), func(c *config.Config) { c.Orphans = config.OrphansFail }))
		end := last(follow(t, failing.log, videoID("failed")))
		if end.Job.GetError().GetCode() != "upstream_removed" {
			t.Errorf("ended %v", end.Job.GetError())
		}
		doneOnce(t, b, end)
		failing.noItems(t, end.Name())
		failing.stop(true)
		waitItem(t, b, "gone", videoID("rerouted"), 0)
		rerouting := newReplica(t, b, testConfig(t, up.URL(), func(c *config.Config) { c.Orphans = config.OrphansReroute }))
		end = last(follow(t, rerouting.log, videoID("rerouted")))
		if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
			t.Errorf("ended %v", end.Job.GetError())
		}
		doneOnce(t, b, end)
		rerouting.noItems(t, end.Name())
	})
}

// TestUnfoundOrphanLeavesItsLetter: an attached job was cancelled while it waited on a
// route that is gone.
func TestUnfoundOrphanLeavesItsLetter(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := idleReplica(t, b, testConfig(t, newSandbox(t).URL(), func(c *config.Config) { c.Orphans = config.OrphansFail }))
	item := itemOf("v", "gone", "a cat")
	item.Attached = &genbusv1.AttachedTask{Upstream: "u", UpstreamTaskId: "wrong", Named: "right", Code: "orphaned_submission"}
	pastOf(t, forerunner(t, b), item, func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
		return task.Cancelled(v, now, &genbusv1.TaskError{Code: "cancelled"})
	})
	subj := b.Names().WorkItem(subject.Video, "gone", "acme", item.GetId())
	putItemAt(t, b, subj, item)
	if err := r.adoptOrphan(t.Context(), subj); err != nil {
		t.Fatal(err)
	}
	letters := deadLetters(t, b)
	if len(letters) != 1 || letters[0].GetError().GetCode() != "orphaned_submission" || letters[0].GetUpstreamTaskId() != "right" {
		t.Errorf("the letters are %v", letters)
	}
}

// TestOrphanedItemThatIsNotNeededEndsNothing: during a rolling deploy two
// configurations stored items of one id on two routes, one of which is gone. The job
// goes on by the other one.
func TestOrphanedItemThatIsNotNeededEndsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ orphan, log string }{
		"a stray":                 {orphan: "dog", log: "cat"},
		"of the same request":     {orphan: "cat", log: "cat"},
		"not recorded by anybody": {orphan: "cat"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, up := brokertest.Single(t), newSentBodies(t)
			r := idleReplica(t, b, testConfig(t, up.url, func(c *config.Config) { c.Orphans = config.OrphansFail }))
			orphan, item := itemOf("v", "gone", c.orphan), itemOf("v", config.SandboxVideoRoute, "cat")
			subj := b.Names().WorkItem(subject.Video, "gone", "acme", orphan.GetId())
			putItemAt(t, b, subj, orphan)
			putItemAt(t, b, b.Names().WaitItem(subject.Video, item.GetRoute(), "acme", item.GetId()), item)
			if c.log != "" {
				pastOf(t, forerunner(t, b), item)
			}
			if err := r.adoptOrphan(t.Context(), subj); err != nil {
				t.Fatal(err)
			}
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			end := last(follow(t, r.log, item.GetId()))
			if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || len(up.of(item.GetId())) != 1 {
				t.Errorf("ended %v, sent %v", end.Job.GetError(), up.of(item.GetId()))
			}
			r.noItems(t, end.Name())
		})
	}
}
