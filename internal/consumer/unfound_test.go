package consumer

import (
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// attachedTo returns the work item of a job attached to a task that does not exist, from a dead
// letter that named another task.
func attachedTo(upstream, route string) *genbusv1.WorkItem {
	item := itemOf("v", route, "a cat")
	item.Attached = &genbusv1.AttachedTask{
		Upstream: upstream, UpstreamTaskId: "wrong", Named: "named", Code: "orphaned_submission", Deadline: timestamppb.New(time.Now().Add(time.Hour)),
	}
	return item
}

// checkUnfound checks that a job ended with a code and that the only dead letter is the one it was
// made from.
func checkUnfound(t *testing.T, b *broker.Broker, end joblog.Entry, code string) {
	t.Helper()
	if end.Job.GetError().GetCode() != code {
		t.Errorf("ended %v with %v", end.Job.GetStatus(), end.Job.GetError())
	}
	letters := deadLetters(t, b)
	if len(letters) != 1 || letters[0].GetError().GetCode() != "orphaned_submission" || letters[0].GetUpstreamTaskId() != "named" || letters[0].GetWork().GetModel() != "sandbox-video" {
		t.Errorf("dead letters: %v", letters)
	}
}

// TestAnIDThatItsUpstreamDoesNotKnow proves that the dead letter of an attached job returns if the
// upstream reports the task as failed because it does not know it.
func TestAnIDThatItsUpstreamDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"not_found", "EXPIRED"} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			b, item := brokertest.Single(t), attachedTo(config.SandboxUpstream, config.SandboxVideoRoute)
			r := idleReplica(t, b, testConfig(t, scripted(t, map[string]http.HandlerFunc{pollPath: respond(`{"task_id":"wrong","status":%q}`, word)})))
			r.videos.Missing = time.Nanosecond
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			putItem(t, b, item)
			end := last(follow(t, r.log, item.GetId()))
			doneOnce(t, b, end)
			checkUnfound(t, b, end, "upstream_failed")
		})
	}
}

// TestEveryEndOfAnUnfoundTaskLeavesItsDeadLetter proves that every failure of an attached job whose
// task was never found restores its dead letter with the original code and ID, and adds no other.
func TestEveryEndOfAnUnfoundTaskLeavesItsDeadLetter(t *testing.T) {
	t.Parallel()
	for code, c := range map[string]struct {
		upstream string
		end      func(t *testing.T, b *broker.Broker, cfg *config.Config, item *genbusv1.WorkItem) joblog.Entry
	}{
		"poisoned":         {config.SandboxUpstream, endPoisoned},
		"upstream_removed": {"gone", endTaken},
		"log_lost":         {config.SandboxUpstream, endWithoutLog},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			b, item := brokertest.Single(t), attachedTo(c.upstream, config.SandboxVideoRoute)
			end := c.end(t, b, testConfig(t, newSandbox(t).URL()), item)
			doneOnce(t, b, end)
			checkUnfound(t, b, end, code)
		})
	}
}

func endTaken(t *testing.T, b *broker.Broker, cfg *config.Config, item *genbusv1.WorkItem) joblog.Entry {
	t.Helper()
	pastOf(t, forerunner(t, b), item)
	putItem(t, b, item)
	return last(follow(t, newReplica(t, b, cfg).log, item.GetId()))
}

// endPoisoned makes a replica take a job whose holders died often.
func endPoisoned(t *testing.T, b *broker.Broker, cfg *config.Config, item *genbusv1.WorkItem) joblog.Entry {
	t.Helper()
	newReplica(t, b, cfg).stop(true) // creates the consumer
	pastOf(t, forerunner(t, b), item)
	putItem(t, b, item)
	deliver(t, b, 10+2)
	return last(follow(t, newReplica(t, b, cfg).log, item.GetId()))
}

// endWithoutLog makes a replica take a job that the log has lost.
func endWithoutLog(t *testing.T, b *broker.Broker, cfg *config.Config, item *genbusv1.WorkItem) joblog.Entry {
	t.Helper()
	putRecorded(t, b, item, 1000)
	return last(follow(t, newReplica(t, b, cfg).log, item.GetId()))
}

// TestAnUnfoundTaskOfARemovedRouteLeavesItsDeadLetter proves the same for failing the job of an
// unconfigured route.
func TestAnUnfoundTaskOfARemovedRouteLeavesItsDeadLetter(t *testing.T) {
	t.Parallel()
	for name, recorded := range map[string]bool{"recorded": true, "not recorded": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, item := brokertest.Single(t), attachedTo(config.SandboxUpstream, "gone")
			r := idleReplica(t, b, testConfig(t, newSandbox(t).URL()))
			if recorded {
				pastOf(t, forerunner(t, b), item)
			}
			subj := b.Names().WorkItem(subject.Video, "gone", "acme", item.GetId())
			putItemAt(t, b, subj, item)
			r.failRemoved(t)
			end := last(follow(t, r.log, item.GetId()))
			doneOnce(t, b, end)
			checkUnfound(t, b, end, "upstream_removed")
		})
	}
}

// TestAStrandedUnfoundTaskLeavesItsDeadLetter proves that the log suffices to restore the dead
// letter if the work item is gone.
func TestAStrandedUnfoundTaskLeavesItsDeadLetter(t *testing.T) {
	t.Parallel()
	b, item := brokertest.Single(t), attachedTo(config.SandboxUpstream, config.SandboxVideoRoute)
	r := idleReplica(t, b, testConfig(t, newSandbox(t).URL()))
	e := pastOf(t, forerunner(t, b), item)
	if _, err := r.sweeper.Check(t.Context(), e.Name(), time.Now().Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	end := last(follow(t, r.log, item.GetId()))
	doneOnce(t, b, end)
	checkUnfound(t, b, end, "deadline_exceeded")
}
