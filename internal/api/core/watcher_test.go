package core_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

func chatItem() *genbusv1.WorkItem {
	return &genbusv1.WorkItem{
		Id: subject.JobID(subject.Chat, "default", "one"), Kind: "chat", Tenant: "default", Route: config.SandboxChatRoute,
		Model: "sandbox-chat", AcceptedAt: timestamppb.Now(),
	}
}

// TestAnEndThatIsTheFirstEvent checks that a caller learns of a chat whose first event is its
// failure.
func TestAnEndThatIsTheFirstEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := chatItem()
	failed := w.Commit(joblog.Entry{}, task.FailedAtOnce(item, time.Now(), errcode.New(errcode.LogLost, "lost").TaskError()), nil)
	e, err := core.Await(w.Core.Watcher, t.Context(), joblog.Entry{Event: task.FromWork(item)})
	if err != nil || e.Seq != failed.Seq || !e.Terminal() {
		t.Errorf("%v, %v", e.Job, err)
	}
}

// TestALaterChatIsNotWaitedFor checks that waiting ends if the chat was erased and a later chat
// with its id has ended with fewer events.
func TestALaterChatIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := chatItem()
	w.Commit(joblog.Entry{}, task.FromWork(item), nil)
	erased := w.StartChat(item.GetTenant(), item.GetId())
	s, err := w.Broker.Stream(t.Context(), w.Broker.Names().Tasks())
	if err == nil {
		err = s.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Commit(joblog.Entry{}, task.FailedAtOnce(item, time.Now(), errcode.New(errcode.LogLost, "lost").TaskError()), nil)
	e, err := core.Await(w.Core.Watcher, t.Context(), erased)
	if errcode.CodeOf(err) != errcode.ChatNotFound || e.Job.GetId() != item.GetId() {
		t.Errorf("%v, %v", e.Job, err)
	}
}
