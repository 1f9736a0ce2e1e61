package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/operator/orphans"
	"github.com/genbus/genbus/internal/parts"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// removes renames all routes of a configuration.
func removes(c *config.Config) {
	for i := range c.Routes {
		c.Routes[i].Name = "new-" + c.Routes[i].Name
	}
}

// slotsOf sets max_in_flight of the video and chat routes.
func slotsOf(videos, chats int) func(*config.Config) {
	return func(c *config.Config) {
		for i := range c.Routes {
			c.Routes[i].MaxInFlight = videos
			if c.Routes[i].Kind == config.KindChat {
				c.Routes[i].MaxInFlight = chats
			}
		}
	}
}

// orphans returns an Ender, which ends jobs of unconfigured routes.
func (r *replica) orphans() orphans.Ender {
	return orphans.Ender{Log: r.log, Queue: r.Queue, DeadLetters: r.holder.DeadLetters, Logger: r.Logger}
}

// failOrphans ends all jobs of a route and returns the totals. Like an operator, it retries while
// the broker is unavailable, because a cluster may lack a leader.
func (r *replica) failOrphans(t testing.TB, kind subject.Kind, route string) *genbusv1.OrphansSettled {
	t.Helper()
	sum := &genbusv1.OrphansSettled{}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		page, err := r.orphans().Fail(ctx, kind, route, sum.GetNextPageToken())
		switch {
		case broker.Unavailable(err) && broker.Wait(ctx, 50*time.Millisecond) == nil:
			continue
		case err != nil:
			t.Fatal(err)
		}
		sum.Ended, sum.Removed = sum.Ended+page.GetEnded(), sum.Removed+page.GetRemoved()
		sum.Left = append(sum.Left, page.GetLeft()...)
		if sum.NextPageToken = page.GetNextPageToken(); sum.NextPageToken == "" {
			return sum
		}
	}
}

func (r *replica) failRemoved(t testing.TB) *genbusv1.OrphansSettled {
	t.Helper()
	return r.failOrphans(t, subject.Video, "gone")
}

// TestJobsWithoutARouteAreLeftAlone proves that jobs of an unconfigured route are counted and stay
// untouched until the route is back and runs them.
func TestJobsWithoutARouteAreLeftAlone(t *testing.T) {
	t.Parallel()
	b, up, m := brokertest.Single(t), newSentBodies(t), telemetry.NewMetrics("test")
	item := storeItem(t, b, "gone", videoID("line"), 0)
	ids := []string{item.GetId(), waitItem(t, b, "gone", videoID("wait"), 0).GetId()}
	without := newReplica(t, b, testConfig(t, up.url), func(o *parts.Options) { o.Metrics = m })
	labels := map[string]string{"kind": "video", "route": "gone"}
	reaches(t, m, 2, "genbus_orphaned_jobs", labels)
	want := queue.OrphanedRoute{Kind: subject.Video, Name: "gone", Ready: 1, Backlog: 1, Oldest: item.GetAcceptedAt().AsTime()}
	var found []queue.OrphanedRoute
	var err error
	defer func() { t.Logf("found %+v, %v", found, err) }()
	without.eventually(t, fmt.Sprintf("the orphans %+v", want), func() bool {
		found, err = without.Queue.Orphans(t.Context())
		if err == nil && len(found) == 1 {
			found[0].Oldest = found[0].Oldest.UTC()
		}
		return err == nil && slices.Equal(found, []queue.OrphanedRoute{want})
	})
	other := publish(t, b, subject.Video, "other", videoRequest("other", "sandbox-video", "a cat"))
	if end := last(follow(t, without.log, other)); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		t.Errorf("a job of another route ended %v", end.Job.GetError())
	}
	for _, id := range ids {
		if _, err := without.Queue.Items.Find(t.Context(), subject.JobName{Kind: subject.Video, Tenant: "acme", ID: id}); err != nil || len(up.of(id)) != 0 {
			t.Errorf("%s has no item (%v), or was sent (%d)", id, err, len(up.of(id)))
		}
	}
	without.stop(true)
	with := newReplica(t, b, testConfig(t, up.url, videoRoutes(func(r *config.Route) {
		r.Name = map[bool]string{true: "gone", false: r.Name}[r.Name == config.SandboxVideoRoute]
	})))
	for _, id := range ids {
		end := last(follow(t, with.log, id))
		if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || len(up.of(id)) != 1 {
			t.Errorf("%s ended %v, sent %d times", id, end.Job.GetError(), len(up.of(id)))
		}
		doneOnce(t, b, end)
	}
}

// TestWaitingOrphanEndsAtItsDeadline proves that a waiting job of an unconfigured route ends once,
// at its queue deadline.
func TestWaitingOrphanEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	up := newSandbox(t)
	soon := videoRoutes(func(r *config.Route) { r.Timeouts.Queue = time.Second })
	older := idleReplica(t, b, testConfig(t, up.URL(), soon))
	e, err := older.Admission.Admit(t.Context(), admission.Request{Kind: subject.Video, Tenant: "acme", RequestID: "v", Body: body.Parse([]byte(`{"model":"sandbox-video","prompt":"a cat"}`))})
	if err != nil {
		t.Fatal(err)
	}
	r := newReplica(t, b, testConfig(t, up.URL(), soon, removes))
	end := last(follow(t, r.log, e.Job.GetId()))
	if end.Job.GetError().GetCode() != "queue_timeout" || up.Sandbox.Stats().Creates != 0 {
		t.Errorf("ended %v", end.Job.GetError())
	}
	doneOnce(t, b, end)
}

func TestManyOrphansAreEndedInPages(t *testing.T) {
	t.Parallel()
	b, up := brokertest.Single(t), newSentBodies(t)
	r := idleReplica(t, b, testConfig(t, up.url))
	for i := range orphans.MaxPage {
		storeItem(t, b, "gone", videoID(fmt.Sprint("line", i)), 0)
		waitItem(t, b, "gone", videoID(fmt.Sprint("wait", i)), 0)
	}
	if s := r.failRemoved(t); s.GetEnded() != 2*orphans.MaxPage || len(s.GetLeft()) != 0 {
		t.Errorf("failed %d, left %d", s.GetEnded(), len(s.GetLeft()))
	}
	for _, token := range []string{"x", "ready", "ready.x", "dead.1"} {
		if _, err := r.orphans().Fail(t.Context(), subject.Video, "gone", token); !errors.Is(err, queue.ErrPageToken) {
			t.Errorf("token %q: %v", token, err)
		}
	}
}

// TestUnfoundOrphanLeavesItsDeadLetter proves that failing the jobs of an unconfigured route
// restores the dead letter of a cancelled attached job.
func TestUnfoundOrphanLeavesItsDeadLetter(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := idleReplica(t, b, testConfig(t, newSandbox(t).URL()))
	item := itemOf("v", "gone", "a cat")
	item.Attached = &genbusv1.AttachedTask{Upstream: "u", UpstreamTaskId: "wrong", Named: "right", Code: "orphaned_submission"}
	pastOf(t, forerunner(t, b), item, func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
		return task.Cancelled(v, now, &genbusv1.TaskError{Code: "cancelled"})
	})
	subj := b.Names().WorkItem(subject.Video, "gone", "acme", item.GetId())
	putItemAt(t, b, subj, item)
	r.failRemoved(t)
	letters := deadLetters(t, b)
	if len(letters) != 1 || letters[0].GetError().GetCode() != "orphaned_submission" || letters[0].GetUpstreamTaskId() != "right" {
		t.Errorf("the dead letters are %v", letters)
	}
}

// TestOrphanedItemThatIsNotNeededEndsNothing proves that failing an unconfigured route does not end
// a job with a second item on a configured one.
func TestOrphanedItemThatIsNotNeededEndsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ orphan, log string }{
		"a stale item":            {orphan: "dog", log: "cat"},
		"of the same request":     {orphan: "cat", log: "cat"},
		"not recorded by anybody": {orphan: "cat"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, up := brokertest.Single(t), newSentBodies(t)
			r := idleReplica(t, b, testConfig(t, up.url))
			orphan, item := itemOf("v", "gone", c.orphan), itemOf("v", config.SandboxVideoRoute, "cat")
			subj := b.Names().WorkItem(subject.Video, "gone", "acme", orphan.GetId())
			putItemAt(t, b, subj, orphan)
			putItemAt(t, b, b.Names().WaitItem(subject.Video, item.GetRoute(), "acme", item.GetId()), item)
			if c.log != "" {
				pastOf(t, forerunner(t, b), item)
			}
			r.failRemoved(t)
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
