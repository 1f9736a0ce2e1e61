package consumer

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// purge removes a stream's messages on a subject, as an operator may.
func purge(t testing.TB, b *broker.Broker, stream, subj string) {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), jetstream.WithPurgeSubject(subj)); err != nil {
		t.Fatal(err)
	}
}

// delivered fetches a work item that no route of the replica consumes.
func delivered(t testing.TB, b *broker.Broker, subj string) jetstream.Msg {
	t.Helper()
	c, err := b.JetStream().CreateConsumer(t.Context(), b.Names().Work(), jetstream.ConsumerConfig{
		FilterSubject: subj, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	return brokertest.Next(t, c)
}

// letGo waits until a replica no longer holds a job.
func (r *replica) letGo(t testing.TB, id string) {
	t.Helper()
	for begin := time.Now(); heldJob(r.holder, id) != nil; {
		if err := broker.Wait(t.Context(), 10*time.Millisecond); err != nil || time.Since(begin) > patience {
			t.Fatalf("%s is still held", id)
		}
	}
}

// TestItemOfAnErasedJobIsNotBegun proves that a delivered item does not run if its job was erased
// before the holder read the log.
func TestItemOfAnErasedJobIsNotBegun(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up, b := newSandbox(t), open(t)
		r := newReplica(t, b, testConfig(t, up.URL()))
		id := storeItem(t, b, "of-another-replica", videoID("v"), 0).GetId()
		subj := b.Names().WorkItem(subject.Video, "of-another-replica", "acme", id)
		m := delivered(t, b, subj)
		purge(t, b, b.Names().Work(), subj)
		released := make(chan struct{})
		r.take(routeID{subject.Video, config.SandboxVideoRoute}, r.Metrics.Route(subject.Video, config.SandboxVideoRoute))(m, sync.OnceFunc(func() { close(released) }))
		select {
		case <-released:
		case <-time.After(patience):
			t.Fatal("the item is still held")
		}
		if _, err := r.log.Get(t.Context(), subject.JobName{Kind: subject.Video, Tenant: "acme", ID: id}); !errors.Is(err, joblog.ErrNotFound) {
			t.Errorf("the erased job is back: %v", err)
		}
		if n := up.Sandbox.Stats().Creates; n != 0 {
			t.Errorf("%d creates", n)
		}
	})
}

// TestLogThatVanishesDuringACreate proves that the upstream ID of a create whose log vanished is
// kept as a dead letter, and that the job ends unless its item was removed too.
func TestLogThatVanishesDuringACreate(t *testing.T) {
	t.Parallel()
	for name, withItem := range map[string]bool{"the log and the item": true, "the log alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, begun, goOn := brokertest.Single(t), make(chan struct{}), make(chan struct{})
			url := scripted(t, map[string]http.HandlerFunc{createPath: func(w http.ResponseWriter, r *http.Request) {
				close(begun)
				<-goOn
				acceptsByPrompt(w, r)
			}})
			r := newReplica(t, b, testConfig(t, url, videoRoutes(func(r *config.Route) { r.Timeouts.Create = time.Minute })))
			id := publish(t, b, subject.Video, "v", videoRequest("v", "sandbox-video", "paid"))
			<-begun
			purge(t, b, b.Names().Tasks(), b.Names().Task(subject.Video, "acme", id))
			if withItem {
				purge(t, b, b.Names().Work(), b.Names().WorkAnyRoute(subject.Video, "acme", id))
			}
			close(goOn)
			r.letGo(t, id)
			letters := deadLetters(t, b)
			if !withItem && len(letters) == 2 && letters[0].GetError().GetCode() == "log_lost" {
				letters = letters[1:] // the job's dead letter comes before its submission's
			}
			if len(letters) != 1 || letters[0].GetError().GetCode() != "orphaned_submission" || letters[0].GetUpstreamTaskId() != "paid" || letters[0].GetUpstream() != config.SandboxUpstream {
				t.Errorf("dead letters: %v", letters)
			}
			e, err := r.log.Get(t.Context(), subject.JobName{Kind: subject.Video, Tenant: "acme", ID: id})
			if withItem && !errors.Is(err, joblog.ErrNotFound) || !withItem && e.Job.GetError().GetCode() != "log_lost" {
				t.Errorf("the log has %v, %v", e.Job, err)
			}
			if !withItem {
				doneOnce(t, b, e)
			}
		})
	}
}

// TestRequestIDIsFreeAfterAnErasure proves that a job is erased only after its holder has the
// answer to a running create, and that its request ID then makes a new job, each created once.
func TestRequestIDIsFreeAfterAnErasure(t *testing.T) {
	t.Parallel()
	b, begun, goOn := brokertest.Single(t), make(chan string, 10), make(chan struct{})
	url := scripted(t, map[string]http.HandlerFunc{
		createPath: func(w http.ResponseWriter, r *http.Request) {
			prompt := promptOf(r)
			begun <- prompt
			<-goOn
			respond(`{"task_id":%q,"status":"queued"}`, prompt)(w, r)
		},
		pollPath: respondCompleted,
	})
	r := newReplica(t, b, testConfig(t, url, videoRoutes(func(r *config.Route) { r.Timeouts.Create = time.Minute })))
	admit := func(prompt string) (joblog.Entry, error) {
		return r.Admission.Admit(t.Context(), admission.Request{
			Kind: subject.Video, Tenant: "acme", RequestID: "v", Body: body.Parse(fmt.Appendf(nil, `{"model":"sandbox-video","prompt":%q}`, prompt)),
		})
	}
	earlier, err := admit("old")
	if err != nil {
		t.Fatal(err)
	}
	creates := []string{<-begun}
	name := earlier.Name()
	end := cancelJob(t, r.log, earlier)
	if err := r.Queue.Items.AwaitRemoved(t.Context(), name, 0); errcode.CodeOf(err) != errcode.StillHeld {
		t.Errorf("released during the create: %v", err)
	}
	close(goOn)
	if err := r.Queue.Items.AwaitRemoved(t.Context(), name, patience); err != nil {
		t.Fatal(err)
	}
	if err := r.log.Erase(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	later, err := admit("new")
	if err != nil || later.Job.GetId() != earlier.Job.GetId() {
		t.Fatalf("%v, %v", later, err)
	}
	events := follow(t, r.log, name.ID)
	v := videoOf(last(events))
	if v.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || v.GetUpstreamTaskId() != "new" || events[0].Version() != 1 || v.GetExecution().GetAttempt() != 1 {
		t.Errorf("ended %v", v)
	}
	doneOnce(t, b, last(events))
	for len(begun) > 0 {
		creates = append(creates, <-begun)
	}
	if !slices.Equal(creates, []string{"old", "new"}) {
		t.Errorf("creates: %v", creates)
	}
	if letters := deadLetters(t, b); len(letters) != 1 || letters[0].GetError().GetCode() != "orphaned_submission" || letters[0].GetUpstreamTaskId() != "old" {
		t.Errorf("dead letters: %v", letters)
	}
}
