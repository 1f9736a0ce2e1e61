package publisher_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// BenchmarkEvent encodes the first event of a chat.
func BenchmarkEvent(b *testing.B) {
	enc := publisher.Encoder{Names: subject.Default()}
	now := time.Now()
	e := task.FromWork(&genbusv1.WorkItem{
		Id: "chat_iurgy5vlxytb6v4lrm2ixu2uqm", Kind: "chat", Tenant: "acme", Route: "chats", Model: "m", RequestId: "r",
		AcceptedAt: timestamppb.New(now), QueueDeadline: timestamppb.New(now.Add(time.Hour)),
	})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := enc.Event(b.Context(), e); err != nil {
			b.Fatal(err)
		}
	}
}
