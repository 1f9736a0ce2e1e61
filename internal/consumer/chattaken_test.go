package consumer

import (
	"context"
	"errors"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// TestAnAttemptIsTakenOnlyAfterTheLogWasRead: a look at the log that comes before its
// first reading finds the attempt of the dead replica, and takes the chat from nobody.
// An attempt of another that begins after the reading does.
func TestAnAttemptIsTakenOnlyAfterTheLogWasRead(t *testing.T) {
	t.Parallel()
	b, up := brokertest.Single(t), newSlowUpstream(t)
	e := abandon(t, b, up.url, subject.Chat, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS, func() {})
	items, err := b.JetStream().Consumer(t.Context(), b.Names().Work(), subject.WorkDurable(subject.Chat, config.SandboxChatRoute))
	if err != nil {
		t.Fatal(err)
	}
	ours, other := idleReplica(t, b, testConfig(t, up.url)), idleReplica(t, b, testConfig(t, up.url))
	d, item, ok := ours.open(brokertest.Next(t, items))
	if !ok {
		t.Fatal("the work item cannot be read")
	}
	route := &chatRoute{Consumer: ours.Consumer, routeID: routeID{subject.Chat, config.SandboxChatRoute}, metrics: ours.Metrics.Route(subject.Chat, config.SandboxChatRoute)}
	j := route.newJob(d, item)
	defer j.stop(nil)

	j.confirm()
	ours.jobs.Wait()
	if _, ok := j.load(); !ok || j.ctx.Err() != nil || j.chat().GetAttempt() != 1 {
		t.Fatalf("the chat is not ours: read %t, %v", ok, context.Cause(j.ctx))
	}

	now := time.Now()
	second, err := task.Started(j.chat(), now, task.Attempt{Upstream: config.SandboxUpstream, Deadline: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.log.Commit(t.Context(), second, e.Seq); err != nil {
		t.Fatal(err)
	}
	if out, ok := j.load(); ok || out != Drop() {
		t.Errorf("read again, the chat is ours: %v", out)
	}
	j.confirm()
	ours.jobs.Wait()
	if !errors.Is(context.Cause(j.ctx), errNotOurs) {
		t.Errorf("the call goes on: %v", context.Cause(j.ctx))
	}
}
