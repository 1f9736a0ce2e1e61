package consumer

import (
	"fmt"
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// inFlight publishes videos and one streamed chat, and waits until the upstream has all of them.
func inFlight(t testing.TB, b *broker.Broker, l *joblog.Log, up *slowUpstream, videos int) (ids []string) {
	t.Helper()
	for i := range videos {
		request := fmt.Sprint("v", i)
		ids = append(ids, publish(t, b, subject.Video, request, videoRequest(request, "sandbox-video", "a cat")))
	}
	ids = append(ids, publish(t, b, subject.Chat, "c", chatRequest("c", "sandbox-chat", true)))
	for _, id := range ids {
		follow(t, l, id, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)
	}
	shortly(t, "the chat is streamed", func() bool { return up.number(func() int { return up.chats }) == 1 })
	return ids
}

// directLog returns a log that bypasses the replica's faults.
func directLog(t testing.TB, b *broker.Broker, cfg *config.Config) *joblog.Log {
	t.Helper()
	r := idleReplica(t, b, cfg)
	return r.log
}

// allCompleted waits until all jobs have completed in their first attempt.
func allCompleted(t testing.TB, b *broker.Broker, l *joblog.Log, ids []string) {
	t.Helper()
	for _, id := range ids {
		events := follow(t, l, id)
		end := last(events)
		if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || end.Job.GetExecution().GetAttempt() > 1 {
			t.Errorf("%s: %s with %v after %d attempts", id, phases(events), end.Job.GetError(), end.Job.GetExecution().GetAttempt())
		}
		doneOnce(t, b, end)
	}
	if letters := deadLetters(t, b); len(letters) != 0 {
		t.Errorf("dead letters: %v", letters)
	}
}

func heldJobs(h *hold.Holder) (n int) {
	h.Each(func(hold.Held) { n++ })
	return n
}

// redelivered counts the held items that were delivered more than once.
func redelivered(t testing.TB, b *broker.Broker) (n int) {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), b.Names().Work())
	if err != nil {
		t.Fatal(err)
	}
	all := s.ListConsumers(t.Context())
	for info := range all.Info() {
		n += info.NumRedelivered
	}
	if all.Err() != nil {
		t.Fatal(all.Err())
	}
	return n
}

func heldJob(h *hold.Holder, id string) (found hold.Held) {
	h.Each(func(j hold.Held) {
		if j.Job().Name().ID == id {
			found = j
		}
	})
	return found
}
