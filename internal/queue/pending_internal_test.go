package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// TestWhatTheLogDidNotTakeIsLoggedLater proves that the first events of backlog jobs are written
// later however old they are, that old ready jobs are left to the consumer, and that missing or
// unreadable jobs do not block others.
func TestWhatTheLogDidNotTakeIsLoggedLater(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	q, _ := idle(t, b)
	var names []subject.JobName
	for _, id := range []string{"gone", "unreadable", "old", "old ready", "young"} {
		item := &genbusv1.WorkItem{Id: "video_" + strings.ReplaceAll(id, " ", ""), Kind: "video", Tenant: "acme", Route: "r", Model: "m", Fingerprint: []byte("fp"), AcceptedAt: timestamppb.Now()}
		if strings.HasPrefix(id, "old") {
			item.AcceptedAt = timestamppb.New(time.Now().Add(-2 * joblog.LostAfter))
		}
		n := subject.JobName{Kind: subject.Video, Tenant: "acme", ID: item.GetId()}
		names = append(names, n)
		if id == "gone" {
			continue
		}
		data, err := proto.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		m := nats.NewMsg(b.Names().WaitItem(subject.Video, "r", "acme", n.ID))
		if id == "old ready" {
			m.Subject = b.Names().WorkItem(subject.Video, "r", "acme", n.ID)
		}
		if m.Data = data; id == "unreadable" {
			m.Data = []byte("x")
		}
		if _, err := b.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	q.pending.add(names...)
	left, err := q.pending.logEach(t.Context(), q.pending.take())
	if len(left) != 1 || left[0].ID != "video_unreadable" || err == nil || !strings.Contains(err.Error(), left[0].ID) {
		t.Errorf("left %v, %v", left, err)
	}
	for _, n := range names {
		e, err := q.log.Get(t.Context(), n)
		if logged := err == nil && e.Version() == 1; logged != (n.ID == "video_young" || n.ID == "video_old") {
			t.Errorf("%s: %v, %v", n.ID, e.Job, err)
		}
	}
}

// TestPendingFirstEventsAreBounded proves that the set respects its limit and stores each job once.
func TestPendingFirstEventsAreBounded(t *testing.T) {
	t.Parallel()
	p := newPendingFirstEvents(Items{})
	for half := range 3 {
		for range 2 {
			for i := range maxPending/2 + 1 {
				p.add(subject.JobName{Kind: subject.Video, Tenant: fmt.Sprint(half), ID: fmt.Sprint(i)})
			}
		}
	}
	if n := len(p.take()); n != maxPending {
		t.Errorf("%d are remembered, want %d", n, maxPending)
	}
}
