package jobindex_test

import (
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// TestRates checks the counts of each route, and that a replica that reads the log later counts the
// same.
func TestRates(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		first := newReplica(t, b)
		for _, id := range []string{"video_1", "video_2", "video_3"} {
			e := submit(t, first, id)
			if id == "video_1" {
				continue
			}
			// Both submissions are refused; only the first counts as a start.
			for range 2 {
				e = must[joblog.Entry](t)(first.Commit(t.Context(), must[task.Event](t)(task.Submitting(e.Job.(*genbusv1.VideoTask), time.Now(), task.Submission{Upstream: "u"})), e.Seq))
				e = must[joblog.Entry](t)(first.Commit(t.Context(), must[task.Event](t)(task.Requeued(e.Job.(*genbusv1.VideoTask), time.Now(), time.Now(), "busy")), e.Seq))
			}
			if id == "video_3" {
				cancelled(t, first, e)
			}
		}
		want := jobtable.Minute{Accepted: 3, Started: 2, Ended: 1}
		for name, r := range map[string]*replica{"that has all": first, "that begins": newReplica(t, b)} {
			eventually(t, "a replica "+name+" has counted", func() bool {
				got, err := r.Rates(t.Context())
				sum := jobtable.Minute{}
				for _, m := range got.Of(subject.Video, "r") {
					sum = jobtable.Minute{Accepted: sum.Accepted + m.Accepted, Started: sum.Started + m.Started, Ended: sum.Ended + m.Ended, Failed: sum.Failed + m.Failed}
				}
				return err == nil && sum == want && got.Unfinished == 2 && len(got.Routes) == 1 && time.Since(time.Unix(0, got.AsOf)) < time.Minute
			})
		}
	})
}

// TestRatesAreAskedFor checks that a replica without the index gets the rates from a keeper.
func TestRatesAreAskedFor(t *testing.T) {
	t.Parallel()
	_, asks := threeReplicas(t)
	submit(t, asks, "video_1")
	eventually(t, "the job is counted", func() bool {
		got, err := asks.Rates(t.Context())
		return err == nil && got.Unfinished == 1 && len(got.Routes) == 1 && got.AsOf > 0
	})
	if jobs, total, err := asks.UnfinishedByTenant(t.Context(), 10, nil); err != nil || jobs["acme"] != 1 || total != 1 {
		t.Errorf("unfinished are %v, %d, %v", jobs, total, err)
	}
	if asks.Ready() {
		t.Error("the replica keeps the index itself")
	}
}
