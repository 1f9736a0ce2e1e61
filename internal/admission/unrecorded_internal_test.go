package admission

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestWhatTheLogDidNotTakeIsRecordedLater, while it waits for its turn and nobody
// asks for it, however long. What is old and stands in line is for the consumer to end.
// Others that are remembered with it, and are gone or unreadable, hold nothing up.
func TestWhatTheLogDidNotTakeIsRecordedLater(t *testing.T) {
	t.Parallel()
	b, log := brokertest.Single(t), brokertest.Logger(t)
	tasks := tasklog.New(tasklog.Options{Broker: b, Metrics: telemetry.NewMetrics("test"), Encoder: publisher.Encoder{Names: b.Names()}, Logger: log})
	a := New(config.NewLive(config.Default()), b, tasks, broker.NewBodies(b), telemetry.NewMetrics("test"))
	var names []subject.TaskName
	for _, id := range []string{"gone", "unreadable", "old", "old in line", "young"} {
		item := &genbusv1.WorkItem{Id: "video_" + strings.ReplaceAll(id, " ", ""), Kind: "video", Tenant: "acme", Route: "r", Model: "m", Fingerprint: []byte("fp"), AcceptedAt: timestamppb.Now()}
		if strings.HasPrefix(id, "old") {
			item.AcceptedAt = timestamppb.New(time.Now().Add(-2 * tasklog.LostAfter))
		}
		n := subject.TaskName{Kind: subject.Video, Tenant: "acme", ID: item.GetId()}
		names = append(names, n)
		if id == "gone" {
			continue
		}
		data, err := proto.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		m := nats.NewMsg(b.Names().WaitItem(subject.Video, "r", "acme", n.ID))
		if id == "old in line" {
			m.Subject = b.Names().WorkItem(subject.Video, "r", "acme", n.ID)
		}
		if m.Data = data; id == "unreadable" {
			m.Data = []byte("x")
		}
		if _, err := b.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	a.unrecorded.add(names...)
	left, err := a.recordEach(t.Context(), a.unrecorded.take())
	if len(left) != 1 || left[0].ID != "video_unreadable" || err == nil || !strings.Contains(err.Error(), left[0].ID) {
		t.Errorf("left %v, %v", left, err)
	}
	for _, n := range names {
		e, err := tasks.Get(t.Context(), n)
		if recorded := err == nil && e.Version() == 1; recorded != (n.ID == "video_young" || n.ID == "video_old") {
			t.Errorf("%s: %v, %v", n.ID, e.Job, err)
		}
	}
}

// TestUnrecordedAreBounded: what is remembered takes no more memory than stated.
func TestUnrecordedAreBounded(t *testing.T) {
	t.Parallel()
	u := newUnrecorded()
	for range 3 {
		u.add(make([]subject.TaskName, maxUnrecorded/2+1)...)
	}
	if n := len(u.take()); n != maxUnrecorded {
		t.Errorf("%d are remembered, want %d", n, maxUnrecorded)
	}
}
