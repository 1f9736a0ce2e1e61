package consumer

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// lateHolder is a replica that holds one job, does not extend its message, gets no notifications,
// and stalls in a step until goOn.
type lateHolder struct {
	*replica
	t        *testing.T
	job      joblog.Entry // as the replica has read it
	settled  *nats.Subscription
	goOn     func()
	released chan struct{}
}

// holdLate makes the replica take the job of an item, and waits until it stalls. stalls makes a
// step of the replica call its argument.
func holdLate(t *testing.T, r *replica, item *genbusv1.WorkItem, stalls func(stall func())) *lateHolder {
	t.Helper()
	h := &lateHolder{replica: r, t: t, job: pastOf(t, forerunner(t, r.Broker), item)}
	putItem(t, r.Broker, item)
	stalled, goOn := make(chan struct{}), make(chan struct{})
	h.goOn = sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(h.goOn)
	stalls(sync.OnceFunc(func() {
		close(stalled)
		<-goOn
	}))
	h.released = stallingHolder(t, r, routeID{subject.Video, config.SandboxVideoRoute})
	await(t, "the late holder stalls", stalled)
	var err error
	if h.settled, err = r.Broker.WriteConn().SubscribeSync(replies(r.holder)[0]); err != nil {
		t.Fatal(err)
	}
	return h
}

// beforeDeadLetter stalls a replica after it has read its job as queued.
func (r *replica) beforeDeadLetter(stall func()) {
	reserve := r.videos.ReserveDeadLetter
	r.videos.ReserveDeadLetter = func(ctx context.Context, tenant string) (func(), error) {
		stall()
		return reserve(ctx, tenant)
	}
}

// settlement resumes the late holder and returns the settlements that it sends.
func (h *lateHolder) settlement() (orders []string) {
	h.t.Helper()
	h.goOn()
	await(h.t, "the late holder", h.released)
	h.holder.Jobs.Wait()
	if err := h.Broker.WriteConn().Flush(); err != nil {
		h.t.Fatal(err)
	}
	for {
		m, err := h.settled.NextMsg(time.Millisecond) // the flush has delivered everything sent
		if err != nil {
			return orders
		}
		orders = append(orders, string(m.Data))
	}
}

// stillQueued checks that the job still has its ready item after the late holder's settlements.
func (h *lateHolder) stillQueued(orders []string) {
	h.t.Helper()
	// An answer shows that the broker has handled everything before.
	if _, err := h.Broker.Conn().Request(h.settled.Subject, []byte("+WPI"), patience); err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.Broker.Last(h.t.Context(), h.Broker.Names().Work(), h.Broker.Names().WorkAnyRoute(subject.Video, "acme", h.job.Job.GetId())); err != nil {
		h.t.Fatalf("the item of the new holder: %v, after %v", err, orders)
	}
}

// queuedItem returns the work item of a video that was not started.
func queuedItem(request string) *genbusv1.WorkItem {
	item := pastItem(request)
	item.Body = []byte(`{"model":"sandbox-video","prompt":"a cat"}`)
	return item
}

// TestSweeperAndHolder proves that either the sweeper ends a job or its holder submits it, never
// both.
func TestSweeperAndHolder(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up := newSandbox(t)
		r := idleReplica(t, open(t), testConfig(t, up.URL()))
		t.Run("the sweeper is first", func(t *testing.T) {
			item := queuedItem("swept")
			item.QueueDeadline = timestamppb.New(time.Now().Add(time.Hour))
			late := holdLate(t, r, item, r.beforeDeadLetter)
			if _, err := r.sweeper.Check(t.Context(), late.job.Name(), item.GetQueueDeadline().AsTime()); err != nil {
				t.Fatal(err)
			}
			if orders := late.settlement(); !slices.Equal(orders, []string{"+ACK"}) {
				t.Errorf("the holder of an ended job: %v", orders)
			}
			end := last(follow(t, r.log, item.GetId()))
			if end.Job.GetError().GetCode() != "queue_timeout" || up.Sandbox.Stats().Creates != 0 {
				t.Errorf("ended %v after %d creates", end.Job.GetError(), up.Sandbox.Stats().Creates)
			}
		})
		t.Run("the holder is first", func(t *testing.T) { holderFirst(t, r) })
	})
}

// holderFirst commits a submission and then a refusal for now. The job was started, so its start
// deadline no longer applies.
func holderFirst(t *testing.T, r *replica) {
	t.Helper()
	item := pastItem("held")
	item.QueueDeadline = timestamppb.New(time.Now().Add(-time.Millisecond))
	e := pastOf(t, forerunner(t, r.Broker), item, submittingTo(config.SandboxUpstream))
	r.notSwept(t, e)
	next, err := requeued(videoOf(e), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if e, err = r.log.Commit(t.Context(), next, e.Seq); err != nil {
		t.Fatal(err)
	}
	r.notSwept(t, e)
}

func (r *replica) notSwept(t *testing.T, e joblog.Entry) {
	t.Helper()
	if _, err := r.sweeper.Check(t.Context(), e.Name(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if current, err := r.log.Get(t.Context(), e.Name()); err != nil || current.Seq != e.Seq {
		t.Errorf("a job in %s was ended: %v, %v", e.Job.GetExecution().GetPhase(), current.Job, err)
	}
}

// atItsBound returns a replica with a limit of one dead letter, which the tenant has reached.
func atItsBound(t *testing.T, b *broker.Broker, url string) *replica {
	t.Helper()
	r := idleReplica(t, b, testConfig(t, url, boundOf(1)))
	letter := &genbusv1.DeadLetter{Kind: "video", Tenant: "acme", Id: "old", Error: &genbusv1.TaskError{Code: "poisoned"}}
	if err := r.holder.DeadLetters.Put(t.Context(), letter, "old", "x"); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestALateHolderTakesNoItemAway proves that a late holder without capacity for a dead letter does
// not remove the item that another replica has submitted.
func TestALateHolderTakesNoItemAway(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b, up := open(t), newSlowUpstream(t)
		one := atItsBound(t, open(t), up.url)
		late := holdLate(t, one, queuedItem("one"), one.beforeDeadLetter)
		r := newReplica(t, b, testConfig(t, up.url, boundOf(0)))
		r.eventually(t, "the other replica polls", func() bool { return up.number(func() int { return up.reads }) > 0 })
		orders := late.settlement()
		late.stillQueued(orders)
		if n := countOn(t, b, b.Names().Wait(), ">"); len(orders) != 0 || n != 0 {
			t.Errorf("the late holder: %v, and %d items wait", orders, n)
		}
		close(up.done)
		doneOnce(t, b, last(follow(t, r.log, late.job.Job.GetId())))
		up.askedOnce(t, 1, 0)
	})
}
