package consumer

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
)

// onCluster makes a configuration as on a cluster: other replicas may hold jobs.
func onCluster(c *config.Config) { c.NATS.URL = "nats://127.0.0.1:4222" }

// sendVideos publishes videos of a length and returns their job IDs.
func sendVideos(t testing.TB, b *broker.Broker, name string, n int, length time.Duration) []string {
	t.Helper()
	var ids []string
	for i := range n {
		request := fmt.Sprint(name, i)
		ids = append(ids, publish(t, b, subject.Video, request, videoRequest(request, fmt.Sprintf("sandbox-video:duration_ms=%d", length.Milliseconds()), "a cat")))
	}
	return ids
}

// TestDeletedDurablesAreMadeAgain proves that all jobs complete, submitted once, although the
// durable consumers of the route and the inbox are deleted.
func TestDeletedDurablesAreMadeAgain(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up, b := newSandbox(t), open(t)
		cfg := testConfig(t, up.URL(), onCluster, slotsOf(6, 6))
		r := newReplica(t, b, cfg)
		newReplica(t, open(t), cfg)
		ids := sendVideos(t, b, "before", 20, 2*time.Second)
		for _, id := range ids[:4] {
			follow(t, r.log, id, genbusv1.JobPhase_JOB_PHASE_SUBMITTED)
		}
		for stream, durables := range map[string][]string{
			b.Names().Work():     {subject.WorkDurable(subject.Video, config.SandboxVideoRoute)},
			b.Names().Wait():     {subject.WorkDurable(subject.Video, config.SandboxVideoRoute)},
			b.Names().Requests(): {subject.IntakeDurable(subject.Video), subject.IntakeDurable(subject.Chat)},
		} {
			for _, durable := range durables {
				if err := b.JetStream().DeleteConsumer(t.Context(), stream, durable); err != nil {
					t.Fatal(err)
				}
			}
		}
		ids = append(ids, sendVideos(t, b, "after", 4, 300*time.Millisecond)...)
		for _, id := range ids {
			end := last(follow(t, r.log, id))
			if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
				t.Errorf("%s ended %v", id, end.Job.GetError())
			}
			doneOnce(t, b, end)
		}
		if s := up.Sandbox.Stats(); s.MaxCreatesPerKey != 1 || s.Tasks != len(ids) {
			t.Errorf("%d creates for one key, %d tasks of %d", s.MaxCreatesPerKey, s.Tasks, len(ids))
		}
		r.eventually(t, "the count of those that wait is there again", func() bool {
			_, err := b.Consumer(t.Context(), b.Names().Wait(), subject.WorkDurable(subject.Video, config.SandboxVideoRoute))
			return err == nil
		})
	})
}

// TestAHeldChatIsLeftToItsHolder proves that a first delivery after the durable consumer was
// recreated does not take a running chat from its holder.
func TestAHeldChatIsLeftToItsHolder(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up, b := newSlowUpstream(t), open(t)
		cfg := testConfig(t, up.url, onCluster)
		holder := newReplica(t, b, cfg)
		id := inFlight(t, b, holder.log, up, 0)[0]
		other := newReplica(t, open(t), cfg)
		durable := subject.WorkDurable(subject.Chat, config.SandboxChatRoute)
		if err := b.JetStream().DeleteConsumer(t.Context(), b.Names().Work(), durable); err != nil {
			t.Fatal(err)
		}
		other.eventually(t, "the item came again", func() bool {
			c, err := b.Consumer(t.Context(), b.Names().Work(), durable)
			return err == nil && c.CachedInfo().NumAckPending == 1
		})
		// The test is about time: the holder's extensions keep the item for longer than AckWait.
		if err := broker.Wait(t.Context(), 2*cfg.Routes[0].AckWait); err != nil {
			t.Fatal(err)
		}
		close(up.done)
		end := last(follow(t, other.log, id))
		if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || end.Job.GetExecution().GetAttempt() != 1 || end.Job.GetExecution().GetWriter() != holder.log.Writer() {
			t.Errorf("ended %v in attempt %d", end.Job.GetError(), end.Job.GetExecution().GetAttempt())
		}
		up.askedOnce(t, 0, 1)
		doneOnce(t, b, end)
	})
}

// TestItemOfADeadHolderComesAgain proves that a dead holder's job is left alone at its first
// delivery by a recreated durable consumer, and taken at the second.
func TestItemOfADeadHolderComesAgain(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up, b := newSlowUpstream(t), open(t)
		cfg := testConfig(t, up.url, onCluster)
		holder := newReplica(t, b, cfg)
		id := publish(t, b, subject.Video, "v", videoRequest("v", "sandbox-video", "a cat"))
		follow(t, holder.log, id, genbusv1.JobPhase_JOB_PHASE_SUBMITTED)
		holder.stop(false)
		close(up.done)
		if err := b.JetStream().DeleteConsumer(t.Context(), b.Names().Work(), subject.WorkDurable(subject.Video, config.SandboxVideoRoute)); err != nil {
			t.Fatal(err)
		}
		next := newReplica(t, open(t), cfg)
		end := last(follow(t, next.log, id))
		if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || end.Job.GetExecution().GetWriter() != next.log.Writer() {
			t.Errorf("ended %v", end.Job.GetError())
		}
		if x := end.Job.GetExecution(); x.GetDeliveries() < 2 {
			t.Errorf("it was taken with delivery %d", x.GetDeliveries())
		}
		doneOnce(t, b, end)
	})
}

// TestDeletedQueueIsMadeAgain proves that held jobs complete after GENBUS_WORK was deleted, that
// their acknowledgements hit nothing in the recreated stream, and that new jobs run.
func TestDeletedQueueIsMadeAgain(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up, b := newSlowUpstream(t), open(t)
		r := newReplica(t, b, testConfig(t, up.url, onCluster))
		held := sendMore(t, r, b, nil, 6)
		for _, stream := range []string{b.Names().Work(), b.Names().Requests()} {
			if err := b.JetStream().DeleteStream(t.Context(), stream); err != nil {
				t.Fatal(err)
			}
		}
		r.eventually(t, "the streams are there again", func() bool {
			_, err := b.Consumer(t.Context(), b.Names().Requests(), subject.IntakeDurable(subject.Video))
			if err == nil {
				_, err = b.Consumer(t.Context(), b.Names().Work(), subject.WorkDurable(subject.Video, config.SandboxVideoRoute))
			}
			return err == nil
		})
		if b.Streams().Recreated(b.Names().Work()) != 1 || b.Streams().Recreated(b.Names().Tasks()) != 0 {
			t.Errorf("the queue was recreated %d times, the log %d times", b.Streams().Recreated(b.Names().Work()), b.Streams().Recreated(b.Names().Tasks()))
		}
		// As many as were held: if the recreated stream began at 1, the holders would acknowledge
		// these items.
		const after = 8
		ids := sendMore(t, r, b, slices.Clone(held), after)
		polls := func() int { return up.number(func() int { return up.polls[held[0]] }) }
		before := polls()
		shortly(t, "both are held for longer than AckWait", func() bool { return polls() > before+35 })
		up.end(held...)
		completed := func(ids []string) {
			t.Helper()
			for _, id := range ids {
				end := last(follow(t, r.log, id))
				if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
					t.Errorf("%s ended %v", id, end.Job.GetError())
				}
				doneOnce(t, b, end)
			}
		}
		completed(held)
		shortly(t, "the first ones are acknowledged", func() bool { return heldJobs(r.holder) == after })
		if err := b.WriteConn().Flush(); err != nil {
			t.Fatal(err)
		}
		if n := messages(t, b, b.Names().Work()); n != after {
			t.Errorf("%d items are left of %d", n, after)
		}
		close(up.done)
		completed(ids[len(held):])
		up.askedOnce(t, len(ids), 0)
	})
}

// TestLateAckFindsNothingInANewStream proves that an acknowledgement of a deleted stream removes no
// message of the recreated one.
func TestLateAckFindsNothingInANewStream(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		durable := func() jetstream.Consumer {
			c, err := b.Streams().RestoreConsumer(t.Context(), b.Names().Work(), jetstream.ConsumerConfig{
				Durable: "d", FilterSubject: b.Names().WorkRoutePattern(subject.Video, "r"), AckPolicy: jetstream.AckExplicitPolicy,
			})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		storeItem(t, b, "r", "video_1", 0)
		late := brokertest.Next(t, durable())
		if err := b.JetStream().DeleteStream(t.Context(), b.Names().Work()); err != nil {
			t.Fatal(err)
		}
		c := durable() // creates the stream too
		storeItem(t, b, "r", "video_2", 0)
		brokertest.Next(t, c)
		if err := late.DoubleAck(t.Context()); err != nil {
			t.Logf("the late ack: %v", err)
		}
		if n := messages(t, b, b.Names().Work()); n != 1 {
			t.Errorf("%d items are left of one", n)
		}
	})
}

// TestAVideoWhoseLogBeganAgainIsNotSubmittedTwice proves that a held video whose log was lost and
// restarted ends without another create, and that a dead letter names its task.
func TestAVideoWhoseLogBeganAgainIsNotSubmittedTwice(t *testing.T) {
	t.Parallel()
	for name, inCreate := range map[string]bool{"in its create": true, "after it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
				var creates atomic.Int64
				begun, goOn := make(chan struct{}, 10), make(chan struct{})
				url := scripted(t, map[string]http.HandlerFunc{
					createPath: func(w http.ResponseWriter, r *http.Request) {
						creates.Add(1)
						begun <- struct{}{}
						<-goOn
						acceptsByPrompt(w, r)
					},
					pollPath: respond(`{"task_id":"paid","status":"processing"}`),
				})
				b := open(t)
				r := newReplica(t, b, testConfig(t, url, videoRoutes(func(r *config.Route) { r.Timeouts.Create = time.Minute })))
				id := publish(t, b, subject.Video, "v", videoRequest("v", "sandbox-video", "paid"))
				<-begun
				if !inCreate {
					close(goOn)
					follow(t, r.log, id, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)
				}
				purge(t, b, b.Names().Tasks(), b.Names().Task(subject.Video, "acme", id))
				if e, err := r.Queue.Items.Accepted(t.Context(), subject.JobName{Kind: subject.Video, Tenant: "acme", ID: id}); err != nil || e.Version() != 1 {
					t.Fatalf("the caller is told %v, %v", e.Job, err)
				}
				if inCreate {
					close(goOn)
				} else {
					r.holder.Reclaim(t.Context()) // as after a reconnect
				}
				end := last(follow(t, r.log, id))
				if end.Job.GetError().GetCode() != string(errcode.LogLost) {
					t.Errorf("ended %v", end.Job)
				}
				r.noItems(t, end.Name())
				doneOnce(t, b, end)
				if n := creates.Load(); n != 1 {
					t.Errorf("%d creates", n)
				}
				named := slices.ContainsFunc(deadLetters(t, b), func(l *genbusv1.DeadLetter) bool { return l.GetUpstreamTaskId() == "paid" })
				if !named {
					t.Errorf("no dead letter names the upstream's task: %v", deadLetters(t, b))
				}
			})
		})
	}
}

// TestLogAndQueueLostTogether proves that held jobs survive the loss of log and queue: an answered
// chat completes, and the others end as log_lost with a dead letter.
func TestLogAndQueueLostTogether(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	lost := make(chan struct{})
	up.Sandbox.SetBehaviour(func(r *http.Request, body []byte) *sandbox.Behaviour {
		if bytes.Contains(body, []byte("sandbox-chat")) { // neither chat ends before
			select {
			case <-lost:
			case <-r.Context().Done():
			}
		}
		return nil // as the request asks
	})
	r := newReplica(t, b, testConfig(t, up.URL(), onCluster))
	video := sendVideos(t, b, "paid", 1, time.Minute)[0]
	chat := publish(t, b, subject.Chat, "paid", chatRequest("paid", "sandbox-chat:chunks=10,chunk_interval_ms=50", true))
	refused := publish(t, b, subject.Chat, "refused", chatRequest("refused", "sandbox-chat:status=500", false))
	submitted := last(follow(t, r.log, video, genbusv1.JobPhase_JOB_PHASE_SUBMITTED))
	for _, id := range []string{chat, refused} {
		follow(t, r.log, id, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)
	}
	for _, stream := range []string{b.Names().Tasks(), b.Names().Work()} {
		if err := b.JetStream().DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	close(lost)
	for id, code := range map[string]errcode.Code{video: errcode.LogLost, chat: "", refused: errcode.LogLost} {
		end := last(follow(t, r.log, id))
		if end.Job.GetError().GetCode() != string(code) {
			t.Errorf("%s ended %v", id, end.Job)
		}
		doneOnce(t, b, end)
		if c, is := end.Job.(*genbusv1.Chat); is && code == "" && len(c.GetReplyJson()) == 0 {
			t.Errorf("the reply is gone: %v", c)
		}
	}
	letters := map[string]*genbusv1.DeadLetter{}
	for _, l := range deadLetters(t, b) {
		letters[l.GetId()] = l
	}
	if l := letters[video]; len(letters) != 2 || l.GetUpstreamTaskId() != videoOf(submitted).GetUpstreamTaskId() || l.GetWork().GetModel() == "" {
		t.Errorf("dead letters: %v", letters)
	}
	if l := letters[refused]; len(l.GetData()) == 0 {
		t.Errorf("the dead letter of the chat: %v", l)
	}
}
