package orphans

import (
	"errors"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/task"
)

// TestOrphanThatGoesOnIsNotEnded checks that a job is not ended if its holder continued it after
// the log was read.
func TestOrphanThatGoesOnIsNotEnded(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		p := jobtest.NewProcess(t, b, jobtest.Config(t, "http://127.0.0.1:1"))
		item := jobtest.ItemOf("v", "gone", "cat")
		queued := jobtest.PastOf(t, p.Log, item)
		known := queued
		for _, step := range []jobtest.Transition{
			func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
				return task.Submitting(v, now, task.Submission{Upstream: config.SandboxUpstream, Until: now.Add(time.Minute), Deadline: now.Add(time.Hour)})
			},
			func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
				return task.Submitted(v, now, task.Receipt{UpstreamID: "paid", Status: "queued"})
			},
		} {
			e, err := step(jobtest.VideoOf(known), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if known, err = p.Log.Commit(t.Context(), e, known.Seq); err != nil {
				t.Fatal(err)
			}
		}
		s := Ender{Log: p.Log, Queue: p.Queue, Logger: p.Logger}
		if err := s.endJob(t.Context(), item, queued); !errors.Is(err, errMovedOn) {
			t.Errorf("ended: %v", err)
		}
		if e, err := p.Log.Get(t.Context(), joblog.NameOf(item)); err != nil || e.Seq != known.Seq {
			t.Errorf("the log has %v, %v", e.Job, err)
		}
	})
}
