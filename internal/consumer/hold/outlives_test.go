package hold_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
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

// TestAnEndOutlivesItsLog proves that a chat's reply is stored as its end although the log was lost
// during the call, and again before the job was finished, whether the log is empty or restarted.
func TestAnEndOutlivesItsLog(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"begun again": true, "empty": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokertest.Single(t)
			p := jobtest.NewProcess(t, b, jobtest.Config(t, "http://127.0.0.1:1"))
			h := hold.New(t.Context(), t.Context(), hold.Options{
				Broker: b, Log: p.Log, Queue: p.Queue, Bodies: p.Bodies, Metrics: p.Metrics, Logger: p.Logger,
				Admitted: func(context.Context, subject.JobName) (joblog.Entry, bool) { return joblog.Entry{}, false },
			})
			item := &genbusv1.WorkItem{
				Id: subject.JobID(subject.Chat, "acme", "request\x00one"), Kind: "chat", Tenant: "acme", Route: config.SandboxChatRoute,
				Model: "sandbox-chat", Fingerprint: []byte("f"), AcceptedAt: timestamppb.Now(),
			}
			data, err := proto.Marshal(item)
			if err != nil {
				t.Fatal(err)
			}
			m := nats.NewMsg(b.Names().WorkItem(subject.Chat, item.GetRoute(), "acme", item.GetId()))
			m.Data = data
			stored, err := b.Publish(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			j := h.NewJob(item, hold.Delivery{Seq: stored.Seq, Count: 1}, p.Metrics.Route(subject.Chat, item.GetRoute()))
			if err := j.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			started, err := task.Started(chatOf(j), now, task.Attempt{Upstream: config.SandboxUpstream, Deadline: now.Add(time.Hour)})
			if err := j.Next(t.Context(), started, err); err != nil {
				t.Fatal(err)
			}
			lose := func(again bool) {
				s, err := b.Stream(t.Context(), b.Names().Tasks())
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Purge(t.Context()); err != nil {
					t.Fatal(err)
				}
				if again {
					if _, err := p.Log.Commit(t.Context(), task.FromWork(item), 0); err != nil {
						t.Fatal(err)
					}
				}
			}
			lose(again)
			end := func() (task.Event, error) {
				return task.Replied(chatOf(j), time.Now(), task.Reply{JSON: []byte(`{}`), Upstream: config.SandboxUpstream})
			}
			if err := j.Persist(t.Context(), end); !errors.Is(err, hold.ErrEnded) {
				t.Fatalf("the end: %v", err)
			}
			completed := func() {
				if e, err := p.Log.Get(t.Context(), j.Name()); err != nil || e.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
					t.Errorf("the log has %v, %v", e.Job, err)
				}
			}
			completed()
			// After the second loss, the end is written as another event with its own job: others
			// may be reading the first one.
			first := j.Entry()
			lose(again)
			if err := j.Load(t.Context()); !errors.Is(err, hold.ErrEnded) {
				t.Errorf("after the end: %v", err)
			}
			completed()
			if e := j.Entry(); e.Nonce == first.Nonce || e.Job == first.Job {
				t.Errorf("the end is %v, after %v", e, first)
			}
		})
	}
}

func chatOf(j *hold.Job) *genbusv1.Chat {
	c, _ := j.Entry().Job.(*genbusv1.Chat)
	return c
}
