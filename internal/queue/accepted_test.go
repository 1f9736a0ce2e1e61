package queue_test

import (
	"errors"
	"testing"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// TestAcceptedWithoutALogIsFound proves that a stored work item makes its job visible to callers
// before the log has its first event, and that asking for the job writes the event.
func TestAcceptedWithoutALogIsFound(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		s := newReplica(t, open(t), 16)
		entry, err := s.Admit(t.Context(), video("a", "a cat"))
		if err != nil {
			t.Fatal(err)
		}
		item := s.item(t, entry.Job.GetId())
		name := subject.JobName{Kind: subject.Video, Tenant: "acme", ID: "video_" + "x" + entry.Job.GetId()[7:]}
		if _, err := s.Items.Accepted(t.Context(), name); !errors.Is(err, joblog.ErrNotFound) {
			t.Errorf("a job that nobody sent: %v", err)
		}

		item.Id = name.ID // as if its replica had died before the event
		s.put(t, s.workSubject(item), item)
		for range 2 {
			found, err := s.Items.Accepted(t.Context(), name)
			if err != nil || found.Version() != 1 || found.Seq == 0 || found.Job.GetId() != name.ID {
				t.Errorf("found %v (sequence %d), %v", found.Job, found.Seq, err)
			}
		}
		if got, err := s.log.Get(t.Context(), name); err != nil || got.Version() != 1 {
			t.Errorf("the log has %v, %v", got, err)
		}
	})
}
