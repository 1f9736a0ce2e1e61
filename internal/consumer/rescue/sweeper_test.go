package rescue

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

// TestDroppedDeadlinesOfStartedJobsAreRecalled proves that all stuck jobs end although their
// deadlines exceed the limit, and that waiting jobs do not displace them.
func TestDroppedDeadlinesOfStartedJobsAreRecalled(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	p := jobtest.NewProcess(t, b, jobtest.Config(t, "http://127.0.0.1:1"))
	h := p.Holder(t)
	s := New(Options{Life: h.Life, Clock: b.Clock(), Log: p.Log, Queue: p.Queue, DeadLetters: p.DeadLetters, Logger: p.Logger})
	s.starts, s.ends = newDeadlines(2), newDeadlines(2)
	p.Index.Observe(s)
	p.Start(t)
	var names []subject.JobName
	for i := range 7 {
		waits := jobtest.ItemOf(fmt.Sprint("waits", i), config.SandboxVideoRoute, "a cat")
		waits.QueueDeadline = timestamppb.New(time.Now().Add(time.Minute))
		jobtest.PastOf(t, jobtest.Forerunner(t, b), waits)
		item := jobtest.ItemOf(fmt.Sprint("v", i), config.SandboxVideoRoute, "a cat")
		jobtest.PastOf(t, jobtest.Forerunner(t, b), item, func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
			return task.Submitting(v, now, task.Submission{Upstream: config.SandboxUpstream, Until: now, Deadline: now.Add(-2 * stuckAfter)})
		})
		names = append(names, joblog.NameOf(item))
	}
	jobtest.Shortly(t, "some are forgotten", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.ends.dropped && s.starts.dropped
	})
	h.Jobs.Go(s.Run) // until the holder stops fetching
	for _, n := range names {
		if end := jobtest.Last(jobtest.Follow(t, p.Log, n.ID)); end.Job.GetError().GetCode() != "submission_outcome_unknown" {
			t.Errorf("%s ended %v", n.ID, end.Job.GetError())
		}
	}
}

// TestAnEventThatDoesNotSayWhen proves that an event without a deadline, as from an older version,
// causes an early check.
func TestAnEventThatDoesNotSayWhen(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	n := joblog.Summary{Name: subject.JobName{Kind: subject.Video, Tenant: "acme", ID: jobtest.VideoID("v")}, Status: "in_progress", EndBy: time.Now().Add(time.Hour)}
	s.Observe(n)
	n.EndBy = time.Time{}
	s.Observe(n)
	if by := s.Next(); by.After(time.Now().Add(stuckAfter+sweepSpread)) || by.Before(time.Now().Add(stuckAfter/2)) {
		t.Errorf("it is looked at at %s", by)
	}
	n.Status = "completed"
	s.Observe(n)
	if by, some := s.ends.next(); some {
		t.Errorf("it has ended, and is looked at at %s", by)
	}
}

// TestResetDeadlinesStayDropped proves that neither a running check nor a recall brings back
// deadlines that Reset has dropped.
func TestResetDeadlinesStayDropped(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	p := jobtest.NewProcess(t, b, jobtest.Config(t, "http://127.0.0.1:1"))
	s := New(Options{Life: p.Holder(t).Life, Clock: b.Clock(), Log: p.Log, Queue: p.Queue, DeadLetters: p.DeadLetters, Logger: p.Logger})
	item := jobtest.ItemOf("waits", config.SandboxVideoRoute, "a cat")
	item.QueueDeadline = timestamppb.New(time.Now().Add(time.Hour))
	jobtest.PastOf(t, jobtest.Forerunner(t, b), item)
	name := joblog.NameOf(item)
	s.Observe(joblog.Summary{Name: name, Status: "queued", StartBy: time.Now().Add(-time.Minute)})
	d, of, now := s.due()
	if of == nil {
		t.Fatal("no deadline has passed")
	}
	s.Observe(joblog.Summary{Name: subject.JobName{Kind: name.Kind, Tenant: name.Tenant, ID: "video_other"}, Status: "queued", StartBy: time.Now().Add(time.Hour)})
	s.starts.dropped = true
	s.Reset()
	if len(s.starts.queue.all) != 0 || s.starts.hasCapacity() {
		t.Errorf("%d deadlines are known", len(s.starts.queue.all))
	}
	s.Observe(joblog.Summary{Name: name, Status: "queued", StartBy: time.Now().Add(time.Minute)})
	s.sweep(d, of, now) // the log says that the job may wait for an hour
	if next := time.Until(s.Next()); next > 2*time.Minute || len(s.starts.queue.all) != 1 {
		t.Errorf("the next deadline is in %s, of %d", next, len(s.starts.queue.all))
	}
}
