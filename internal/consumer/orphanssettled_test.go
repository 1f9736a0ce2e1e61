package consumer

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// submittedAs is a task's past up to the upstream's id.
func submittedAs(id string) []transition {
	return []transition{submittingTo(config.SandboxUpstream), func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
		return task.Submitted(v, now, task.Receipt{UpstreamID: id, Status: "queued"})
	}}
}

// TestOrphanOfAnErasedJob: the item came into the line of a removed route while its
// job was erased. Nothing of it is run, and nothing brings the job back.
func TestOrphanOfAnErasedJob(t *testing.T) {
	t.Parallel()
	for mode, settle := range settled {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
				b, up := open(t), newSentBodies(t)
				item, l := itemOf("v", "gone", "cat"), forerunner(t, b)
				end := cancelJob(t, l, pastOf(t, l, item))
				if err := l.Erase(t.Context(), end); err != nil {
					t.Fatal(err)
				}
				putRecorded(t, b, item, end.Seq)
				r := newReplica(t, b, testConfig(t, up.url))
				if s := settle(r, t); s.GetRemoved() != 1 || len(s.GetLeft()) != 0 {
					t.Errorf("settled %v", s)
				}
				r.noItems(t, joblog.NameOf(item))
				if e, err := r.log.Get(t.Context(), joblog.NameOf(item)); !errors.Is(err, joblog.ErrNotFound) || len(up.all()) != 0 {
					t.Errorf("the log has %v, %v; sent %v", e.Job, err, up.all())
				}
			})
		})
	}
}

// TestOrphanWhoseLogIsLost: the job was in a log that the stream does not have any
// more. Whether it was submitted is not known, so that it is not, wherever it was.
func TestOrphanWhoseLogIsLost(t *testing.T) {
	t.Parallel()
	for mode, settle := range settled {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b, up := brokertest.Single(t), newSentBodies(t)
			item := itemOf("v", "gone", "cat")
			putRecorded(t, b, item, 1000)
			r := newReplica(t, b, testConfig(t, up.url))
			settle(r, t)
			end := last(follow(t, r.log, item.GetId()))
			if letters := deadLetters(t, b); end.Job.GetError().GetCode() != "log_lost" || len(letters) != 1 || len(up.all()) != 0 {
				t.Errorf("ended %v; letters %v; sent %v", end.Job.GetError(), letters, up.all())
			}
			r.noItems(t, joblog.NameOf(item))
		})
	}
}

// TestTwoReplicasSettleTheSameJobs, in line and behind it, at the same time: each ends
// once, and is submitted at most once.
func TestTwoReplicasSettleTheSameJobs(t *testing.T) {
	t.Parallel()
	for mode, settle := range settled {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
				const each = 10
				up := newSentBodies(t)
				cfg := testConfig(t, up.url)
				one, two := idleReplica(t, open(t), cfg), idleReplica(t, open(t), cfg)
				var ids []string
				for i := range each {
					ids = append(ids, storeItem(t, one.Broker, "gone", videoID(fmt.Sprint("line", i)), 0).GetId(), waitItem(t, one.Broker, "gone", videoID(fmt.Sprint("wait", i)), 0).GetId())
				}
				var calls sync.WaitGroup
				for _, r := range []*replica{one, two} {
					if err := r.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
					calls.Go(func() { settle(r, t) })
				}
				calls.Wait()
				for _, id := range ids {
					events := follow(t, one.log, id)
					end := last(events)
					code, sent := end.Job.GetError().GetCode(), len(up.of(id))
					if mode == "fail" && (code != "upstream_removed" || len(events) != 1 || sent != 0) ||
						mode == "move" && (end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || sent != 1) {
						t.Errorf("%s: %s with %q, sent %d times", id, phases(events), code, sent)
					}
					doneOnce(t, one.Broker, end)
					one.noItems(t, end.Name())
				}
				if letters := deadLetters(t, one.Broker); len(letters) != 0 {
					t.Errorf("dead letters: %v", letters)
				}
			})
		})
	}
}

// TestSubmittedOrphanIsPolled by a route that does not serve its model, and not submitted
// again. One that was not submitted is left.
func TestSubmittedOrphanIsPolled(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b, url := open(t), scripted(t, map[string]http.HandlerFunc{pollPath: saysCompleted})
		r := idleReplica(t, b, testConfig(t, url, removes, videoRoutes(func(r *config.Route) { r.Models = []string{r.Name + "-only"} })))
		for request, past := range map[string][]transition{"queued": nil, "submitted": submittedAs("paid")} {
			item := pastItem(request)
			pastOf(t, r.log, item, past...)
			storeItem(t, b, config.SandboxVideoRoute, item.GetId(), 0)
		}
		to, _ := r.Config.Now().RouteNamed(config.KindVideo, "new-"+config.SandboxVideoRoute)
		s := r.settleOrphans(t, subject.Video, config.SandboxVideoRoute, &to)
		if s.GetMoved() != 1 || len(s.GetLeft()) != 1 || s.GetLeft()[0].GetId() != videoID("queued") {
			t.Errorf("settled %v", s)
		}
		if _, err := b.Last(t.Context(), b.Names().Work(), b.Names().WorkItem(subject.Video, to.Name, "acme", videoID("submitted"))); err != nil {
			t.Errorf("the submitted task is not in line: %v", err)
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		end := last(follow(t, r.log, videoID("submitted")))
		if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || end.Job.GetExecution().GetAttempt() != 1 || end.Job.GetExecution().GetRoute() != to.Name {
			t.Errorf("the submitted task ended %v", end.Job)
		}
		doneOnce(t, b, end)
	})
}

// TestSubmittedOrphanWithoutItsUpstream ends as removed, with a letter that has its id.
func TestSubmittedOrphanWithoutItsUpstream(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := idleReplica(t, b, testConfig(t, "http://127.0.0.1:1"))
	item := pastItem("v")
	pastOf(t, r.log, item, submittingTo("another"), submittedAs("paid")[1])
	storeItem(t, b, "gone", item.GetId(), 0)
	if s := r.moveGone(t); s.GetEnded() != 1 {
		t.Errorf("settled %v", s)
	}
	end := last(follow(t, r.log, item.GetId()))
	letters := deadLetters(t, b)
	if end.Job.GetError().GetCode() != "upstream_removed" || len(letters) != 1 || letters[0].GetUpstreamTaskId() != "paid" {
		t.Errorf("ended %v; letters %v", end.Job.GetError(), letters)
	}
	doneOnce(t, b, end)
}

// TestChatThatWasCutOffGoesOn by its new route, with its next attempt, as it would by
// the old one.
func TestChatThatWasCutOffGoesOn(t *testing.T) {
	t.Parallel()
	b, up := brokertest.Single(t), newSlowUpstream(t)
	older := newReplica(t, b, testConfig(t, up.url))
	id := publish(t, b, subject.Chat, "c", chatRequest("c", "sandbox-chat", true))
	shortly(t, "the chat is streamed", func() bool { return up.number(func() int { return up.chats }) == 1 })
	older.stop(false)
	close(up.done)
	newer := newReplica(t, b, testConfig(t, up.url, removes))
	to, _ := newer.Config.Now().RouteNamed(config.KindChat, "new-"+config.SandboxChatRoute)
	newer.settleOrphans(t, subject.Chat, config.SandboxChatRoute, &to)
	end := last(follow(t, newer.log, id))
	if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || end.Job.GetExecution().GetAttempt() != 2 || end.Job.GetExecution().GetRoute() != to.Name {
		t.Errorf("ended %v", end.Job)
	}
	doneOnce(t, b, end)
}

// TestUnreadableOrphanIsKept as a dead letter, and its job ends.
func TestUnreadableOrphanIsKept(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	id := videoID("v")
	m := nats.NewMsg(b.Names().WaitItem(subject.Video, "gone", "acme", id))
	m.Data = []byte("\xff\xff")
	if _, err := b.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	r := newReplica(t, b, testConfig(t, "http://127.0.0.1:1"))
	r.moveGone(t)
	end := last(follow(t, r.log, id))
	letters := deadLetters(t, b)
	if end.Job.GetError().GetCode() != string(errcode.Internal) || len(letters) != 1 || string(letters[0].GetData()) != "\xff\xff" {
		t.Errorf("ended %v; letters %v", end.Job.GetError(), letters)
	}
	r.noItems(t, end.Name())
}

// TestMovedOrphanIsMarkedAsRecorded, so that no replica takes it for a new job when it is
// erased on its way.
func TestMovedOrphanIsMarkedAsRecorded(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := idleReplica(t, b, testConfig(t, "http://127.0.0.1:1"))
	e := pastOf(t, r.log, pastItem("v"))
	storeItem(t, b, "gone", videoID("v"), 0)
	r.moveGone(t)
	there, err := r.Queue.Items.Find(t.Context(), e.Name())
	if err != nil || there.Subject != b.Names().WaitItem(subject.Video, config.SandboxVideoRoute, "acme", videoID("v")) {
		t.Fatalf("it stands on %s: %v", there.Subject, err)
	}
	if got := there.Header.Get(subject.HeaderRecorded); got != fmt.Sprint(e.Seq) {
		t.Errorf("marked %q, want %d", got, e.Seq)
	}
}
