package consumer

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// submittedAs returns a video's past up to its upstream ID.
func submittedAs(id string) []transition {
	return []transition{submittingTo(config.SandboxUpstream), func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
		return task.Submitted(v, now, task.Receipt{UpstreamID: id, Status: "queued"})
	}}
}

// TestOrphanOfAnErasedJob proves that the item of an erased job on an unconfigured route is removed
// and does not restore the job.
func TestOrphanOfAnErasedJob(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b, up := open(t), newSentBodies(t)
		item, l := itemOf("v", "gone", "cat"), forerunner(t, b)
		end := cancelJob(t, l, pastOf(t, l, item))
		if err := l.Erase(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		putRecorded(t, b, item, end.Seq)
		r := newReplica(t, b, testConfig(t, up.url))
		if s := r.failRemoved(t); s.GetRemoved() != 1 || len(s.GetLeft()) != 0 {
			t.Errorf("settled %v", s)
		}
		r.noItems(t, joblog.NameOf(item))
		if e, err := r.log.Get(t.Context(), joblog.NameOf(item)); !errors.Is(err, joblog.ErrNotFound) || len(up.all()) != 0 {
			t.Errorf("the log has %v, %v; sent %v", e.Job, err, up.all())
		}
	})
}

// TestOrphanWhoseLogIsLost proves that a job of an unconfigured route whose log is lost fails with
// a dead letter and is not submitted.
func TestOrphanWhoseLogIsLost(t *testing.T) {
	t.Parallel()
	b, up := brokertest.Single(t), newSentBodies(t)
	item := itemOf("v", "gone", "cat")
	putRecorded(t, b, item, 1000)
	r := newReplica(t, b, testConfig(t, up.url))
	r.failRemoved(t)
	end := last(follow(t, r.log, item.GetId()))
	if letters := deadLetters(t, b); end.Job.GetError().GetCode() != "log_lost" || len(letters) != 1 || len(up.all()) != 0 {
		t.Errorf("ended %v; dead letters %v; sent %v", end.Job.GetError(), letters, up.all())
	}
	r.noItems(t, joblog.NameOf(item))
}

// TestTwoReplicasEndTheSameJobs proves that each job ends once, unsubmitted, if two replicas fail a
// route concurrently.
func TestTwoReplicasEndTheSameJobs(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		const each = 10
		up := newSentBodies(t)
		cfg := testConfig(t, up.url)
		one, two := idleReplica(t, open(t), cfg), idleReplica(t, open(t), cfg)
		var ids []string
		for i := range each {
			ids = append(ids, storeItem(t, one.Broker, "gone", videoID(fmt.Sprint("line", i)), 0).GetId(), waitItem(t, one.Broker, "gone", videoID(fmt.Sprint("wait", i)), 0).GetId())
		}
		var calls sync.WaitGroup
		for _, r := range []*replica{one, two} {
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			calls.Go(func() { r.failRemoved(t) })
		}
		calls.Wait()
		for _, id := range ids {
			events := follow(t, one.log, id)
			end := last(events)
			if code := end.Job.GetError().GetCode(); code != "upstream_removed" || len(events) != 1 || len(up.of(id)) != 0 {
				t.Errorf("%s: %s with %q, sent %d times", id, phases(events), code, len(up.of(id)))
			}
			doneOnce(t, one.Broker, end)
			one.noItems(t, end.Name())
		}
		if letters := deadLetters(t, one.Broker); len(letters) != 0 {
			t.Errorf("dead letters: %v", letters)
		}
	})
}

// TestSubmittedOrphan proves that a submitted job of an unconfigured route leaves a dead letter
// with its upstream ID.
func TestSubmittedOrphan(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := idleReplica(t, b, testConfig(t, "http://127.0.0.1:1"))
	item := pastItem("v")
	item.Route = "gone"
	pastOf(t, r.log, item, submittingTo("another"), submittedAs("paid")[1])
	storeItem(t, b, "gone", item.GetId(), 0)
	if s := r.failRemoved(t); s.GetEnded() != 1 {
		t.Errorf("settled %v", s)
	}
	end := last(follow(t, r.log, item.GetId()))
	letters := deadLetters(t, b)
	if end.Job.GetError().GetCode() != "upstream_removed" || len(letters) != 1 || letters[0].GetUpstreamTaskId() != "paid" {
		t.Errorf("ended %v; dead letters %v", end.Job.GetError(), letters)
	}
	doneOnce(t, b, end)
}

// TestUnreadableOrphanIsKept proves that an unreadable item of an unconfigured route becomes a dead
// letter and its job ends.
func TestUnreadableOrphanIsKept(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	id := videoID("v")
	m := nats.NewMsg(b.Names().WaitItem(subject.Video, "gone", "acme", id))
	m.Data = []byte("\xff\xff")
	if _, err := b.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	r := newReplica(t, b, testConfig(t, "http://127.0.0.1:1"))
	r.failRemoved(t)
	end := last(follow(t, r.log, id))
	letters := deadLetters(t, b)
	if end.Job.GetError().GetCode() != string(errcode.Internal) || len(letters) != 1 || string(letters[0].GetData()) != "\xff\xff" {
		t.Errorf("ended %v; dead letters %v", end.Job.GetError(), letters)
	}
	r.noItems(t, end.Name())
}
