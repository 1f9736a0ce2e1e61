package admission_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
)

// A job is accepted when its work item is stored. Whoever asks for it before the
// log has its first event finds it, and the event is written.
func TestAcceptedWithoutALogIsFound(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		s := setup(t, open(t))
		entry, err := s.Admit(t.Context(), video("a", "a cat"))
		if err != nil {
			t.Fatal(err)
		}
		item := s.item(t, entry.Job.GetId())
		name := subject.TaskName{Kind: subject.Video, Tenant: "acme", ID: "video_" + "x" + entry.Job.GetId()[7:]}
		if _, err := s.Accepted(t.Context(), name); !errors.Is(err, tasklog.ErrNotFound) {
			t.Errorf("a job that nobody sent: %v", err)
		}

		item.Id = name.ID // as if its replica had died before it wrote the event
		s.storeItem(t, item)
		for range 2 {
			found, err := s.Accepted(t.Context(), name)
			if err != nil || found.Version() != 1 || found.Seq == 0 || found.Job.GetId() != name.ID {
				t.Errorf("found %v (sequence %d), %v", found.Job, found.Seq, err)
			}
		}
		if got, err := s.log.Get(t.Context(), name); err != nil || got.Version() != 1 {
			t.Errorf("the log has %v, %v", got, err)
		}
	})
}

func (s *bundle) storeItem(t testing.TB, item *genbusv1.WorkItem) {
	t.Helper()
	data, err := proto.Marshal(item)
	if err != nil {
		t.Fatal(err)
	}
	m := nats.NewMsg(s.b.Names().WorkItem(subject.Video, item.GetRoute(), item.GetTenant(), item.GetId()))
	m.Data = data
	if _, err := s.b.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}
