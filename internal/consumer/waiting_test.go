package consumer

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// TestOneTenantsQueueDoesNotHoldUpAnother proves that the first job of another tenant only waits
// for jobs in flight or ready, and for one more.
func TestOneTenantsQueueDoesNotHoldUpAnother(t *testing.T) {
	t.Parallel()
	const inFlight, places, movers, many = 2, 4, 8, 60
	up, b := newSentBodies(t), brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, up.url, videoRoutes(func(r *config.Route) {
		r.MaxInFlight, r.ReadyJobs, r.Poll.Interval = inFlight, places, 20*time.Millisecond
	})))
	up.unfinished.Store(true) // jobs in flight stay until the other tenant's job is accepted
	for i := range many {
		admitVideo(t, r, "acme", fmt.Sprint("acme", i))
	}
	other := admitVideo(t, r, "other", "other")
	up.unfinished.Store(false)
	end := entryOf(t, r, other.Name())
	at := slices.Index(up.all(), "other")
	if bound := inFlight + places + 1 + movers; end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || at < 0 || at > bound {
		t.Errorf("%d jobs of the other tenant were sent before; the bound is %d", at, bound)
	}
	r.eventually(t, "all jobs are sent", func() bool { return len(up.all()) == many+1 })
}

// TestErasedJobIsNeverRun proves that jobs erased before their start never run while two replicas
// dispatch, and leave nothing behind.
func TestErasedJobIsNeverRun(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		const many = 40
		up := newSentBodies(t)
		cfg := testConfig(t, up.url, videoRoutes(func(r *config.Route) { r.MaxInFlight, r.ReadyJobs = 2, 1 }))
		replicas := []*replica{newReplica(t, open(t), cfg), newReplica(t, open(t), cfg)}
		up.unfinished.Store(true) // so that most jobs wait when the first one is erased
		jobs := make([]joblog.Entry, 0, many)
		for i := range many {
			jobs = append(jobs, admitVideo(t, replicas[i%2], "acme", fmt.Sprint(i)))
		}
		up.unfinished.Store(false)
		var mu sync.Mutex
		var erased []subject.JobName
		var wg sync.WaitGroup
		for i, job := range jobs {
			wg.Go(func() {
				r := replicas[i%2]
				current, err := r.log.Get(t.Context(), job.Name())
				if err != nil || current.Job.GetExecution().GetPhase() != genbusv1.JobPhase_JOB_PHASE_QUEUED {
					return
				}
				next, err := task.Cancelled(current.Job, time.Now(), errcode.New(errcode.Cancelled, "x").TaskError())
				if err != nil {
					t.Error(err)
					return
				}
				end, err := r.log.Commit(t.Context(), next, current.Seq)
				if err != nil {
					return // it was started
				}
				if err := errors.Join(r.Queue.RemoveAfter(t.Context(), end, 0), r.log.Erase(t.Context(), end)); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				erased = append(erased, end.Name())
				mu.Unlock()
			})
		}
		wg.Wait()
		if len(erased) < many/4 {
			t.Errorf("only %d were erased", len(erased))
		}
		for _, job := range jobs {
			replicas[0].noItems(t, job.Name())
		}
		for _, n := range erased {
			if e, err := replicas[0].log.Get(t.Context(), n); !errors.Is(err, joblog.ErrNotFound) || len(up.of(n.ID)) != 0 {
				t.Errorf("%s: the log has %v, %v; sent %v", n.ID, e.Job, err, up.of(n.ID))
			}
		}
	})
}

func TestWaitingJobsOutliveAReplica(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		const many = 30
		up := newSentBodies(t)
		cfg := testConfig(t, up.url, videoRoutes(func(r *config.Route) { r.MaxInFlight, r.ReadyJobs, r.Poll.Interval = 2, 2, 20*time.Millisecond }), createsSoon)
		dies := newReplica(t, open(t), cfg)
		jobs := make([]joblog.Entry, 0, many)
		for i := range many {
			jobs = append(jobs, admitVideo(t, dies, "acme", fmt.Sprint(i)))
		}
		dies.eventually(t, "some jobs are sent", func() bool { return len(up.all()) > 3 })
		dies.stop(false)
		r := newReplica(t, open(t), cfg)
		for _, job := range jobs {
			end := entryOf(t, r, job.Name())
			sent := up.of(job.Job.GetId())
			// A create that was cut off is not sent again, whether or not the upstream has read it.
			unknown := end.Job.GetError().GetCode() == "submission_outcome_unknown"
			if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED && !unknown || len(sent) > 1 || len(sent) == 0 && !unknown {
				t.Errorf("%s ended %v, sent %v", job.Job.GetId(), end.Job.GetError(), sent)
			}
			r.noItems(t, job.Name())
		}
	})
}
