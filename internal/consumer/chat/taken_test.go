package chat

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

// chatItem returns the work item of a chat of the sandbox's route.
func chatItem() *genbusv1.WorkItem {
	item := jobtest.ItemOf("c", config.SandboxChatRoute, "hi")
	item.Kind, item.Id, item.Model = string(subject.Chat), subject.JobID(subject.Chat, "acme", "request\x00c"), "sandbox-chat"
	return item
}

// abandoned returns a chat whose replica died in the first attempt: its log, and its work item as
// redelivered.
func abandoned(t *testing.T, b *broker.Broker) (joblog.Entry, *genbusv1.WorkItem, hold.Delivery) {
	t.Helper()
	item := chatItem()
	dead := jobtest.Forerunner(t, b)
	e, err := dead.Commit(t.Context(), task.FromWork(item), 0)
	if err != nil {
		t.Fatal(err)
	}
	if e, err = dead.Commit(t.Context(), attempt(t, e), e.Seq); err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(item)
	if err != nil {
		t.Fatal(err)
	}
	m := nats.NewMsg(b.Names().WorkItem(subject.Chat, item.GetRoute(), "acme", item.GetId()))
	m.Data = data
	if _, err := b.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	items, err := b.JetStream().CreateConsumer(t.Context(), b.Names().Work(), jetstream.ConsumerConfig{
		FilterSubject: m.Subject, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := brokertest.Next(t, items).Nak(); err != nil { // the dead replica had it first
		t.Fatal(err)
	}
	d, err := hold.NewDelivery(b.Conn(), brokertest.Next(t, items))
	if err != nil {
		t.Fatal(err)
	}
	return e, item, d
}

// attempt returns the event that begins the next attempt.
func attempt(t *testing.T, e joblog.Entry) task.Event {
	t.Helper()
	c, _ := e.Job.(*genbusv1.Chat)
	now := time.Now()
	next, err := task.Started(c, now, task.Attempt{Upstream: config.SandboxUpstream, Deadline: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// TestAnAttemptIsTakenOnlyAfterTheLogWasRead proves that a dead replica's attempt, found before the
// first read of the log, does not take the chat from its holder, and that another replica's later
// attempt does.
func TestAnAttemptIsTakenOnlyAfterTheLogWasRead(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	e, item, d := abandoned(t, b)
	p := jobtest.NewProcess(t, b, jobtest.Config(t, "http://127.0.0.1:1"))
	p.Start(t)
	h := p.Holder(t)
	metrics := p.Metrics.Route(subject.Chat, config.SandboxChatRoute)
	r := &Runner{Holder: h, Config: p.Config, Routes: p.Routes, Encoder: p.Encoder, Route: config.SandboxChatRoute, Metrics: metrics}
	j := &job{runner: r, held: h.NewJob(item, d, metrics)}
	j.ctx, j.stop = context.WithCancelCause(j.held.Message.Context())
	defer j.stop(nil)

	j.Confirm()
	h.Jobs.Wait()
	if err := j.held.Load(j.ctx); err != nil || j.ctx.Err() != nil || j.chat().GetAttempt() != 1 {
		t.Fatalf("the chat is not ours: read %v, %v", err, context.Cause(j.ctx))
	}

	if _, err := jobtest.Forerunner(t, b).Commit(t.Context(), attempt(t, j.held.Entry()), e.Seq); err != nil {
		t.Fatal(err)
	}
	j.Confirm()
	h.Jobs.Wait()
	if !errors.Is(context.Cause(j.ctx), errNotOurs) {
		t.Errorf("the call goes on: %v", context.Cause(j.ctx))
	}
	if err := j.held.Load(t.Context()); !errors.Is(err, hold.ErrNotOurs) {
		t.Errorf("read again, the chat is ours: %v", err)
	}
}
