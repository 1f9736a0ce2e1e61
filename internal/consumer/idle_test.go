package consumer

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/faultinject"
)

// lazyReplica uses long requests from the beginning.
func lazyReplica(t *testing.T, b *broker.Broker, cfg *config.Config) *replica {
	t.Helper()
	r := idleReplica(t, b, cfg)
	r.idleAfter = 0
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// pulls counts the requests for the messages of a stream.
func pulls(t *testing.T, b *broker.Broker, stream string) func() int {
	t.Helper()
	var n atomic.Int64
	sub, err := b.Conn().Subscribe("$JS.API.CONSUMER.MSG.NEXT."+stream+".>", func(*nats.Msg) { n.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	return func() int { return int(n.Load()) }
}

// TestAnIdleRouteTakesItsJobs proves that an idle route sends one long request and takes its jobs
// as they arrive.
func TestAnIdleRouteTakesItsJobs(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	asked := pulls(t, b, b.Names().Work())
	cfg := testConfig(t, up.URL())
	r := lazyReplica(t, b, cfg)
	shortly(t, "each route asks, shortly and then for long", func() bool { return asked() >= 2*len(cfg.Routes) })
	before := asked()
	_ = broker.Wait(t.Context(), 1500*time.Millisecond) // short requests would have been repeated
	if n := asked() - before; n > 0 {
		t.Errorf("idle routes asked %d times more", n)
	}
	for i := range 3 {
		id := publish(t, b, subject.Video, fmt.Sprint(i), videoRequest(fmt.Sprint(i), "sandbox-video:duration_ms=1", "a cat"))
		if end := last(follow(t, r.log, id)); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
			t.Errorf("ended %v", end.Job)
		}
	}
}

// TestAStopOfAnIdleRouteLeavesNothing proves that a job accepted after the stop of an idle replica
// is delivered to another one as a first delivery.
func TestAStopOfAnIdleRouteLeavesNothing(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	cfg := testConfig(t, "http://127.0.0.1:1")
	asked := pulls(t, b, b.Names().Work())
	r := lazyReplica(t, b, cfg)
	shortly(t, "each route asks, shortly and then for long", func() bool { return asked() >= 2*len(cfg.Routes) })
	r.stop(true)
	e, err := idleReplica(t, b, cfg).Admission.Admit(t.Context(), admission.Request{
		Kind: subject.Video, Tenant: "acme", Body: body.Parse([]byte(`{"model":"sandbox-video","prompt":"a dog"}`)),
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := b.JetStream().Consumer(t.Context(), b.Names().Work(), subject.WorkDurable(subject.Video, config.SandboxVideoRoute))
	if err != nil {
		t.Fatal(err)
	}
	m := brokertest.Next(t, c)
	meta, err := m.Metadata()
	if err != nil || meta.NumDelivered != 1 || !strings.HasSuffix(m.Subject(), e.Job.GetId()) {
		t.Errorf("%s was delivered %d times, %v", m.Subject(), meta.NumDelivered, err)
	}
}

func TestAnIdleRouteWhoseConsumerWasDeleted(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	cfg := testConfig(t, up.URL())
	asked := pulls(t, b, b.Names().Work())
	r := lazyReplica(t, b, cfg)
	shortly(t, "each route asks, shortly and then for long", func() bool { return asked() >= 2*len(cfg.Routes) })
	if err := b.JetStream().DeleteConsumer(t.Context(), b.Names().Work(), subject.WorkDurable(subject.Video, config.SandboxVideoRoute)); err != nil {
		t.Fatal(err)
	}
	id := publish(t, b, subject.Video, "v", videoRequest("v", "sandbox-video", "a cat"))
	if end := last(follow(t, r.log, id)); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		t.Errorf("ended %v", end.Job)
	}
}

// TestWhatInterruptsALongRequest proves that interrupting long requests loses no jobs.
func TestWhatInterruptsALongRequest(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := lazyReplica(t, b, testConfig(t, up.URL()))
	stop := make(chan struct{})
	interrupting := make(chan struct{})
	go func() {
		defer close(interrupting)
		for {
			select {
			case <-stop:
				return
			default:
				r.idle.interrupt()
				_ = broker.Wait(t.Context(), time.Millisecond)
			}
		}
	}()
	for i := range 20 {
		id := publish(t, b, subject.Video, fmt.Sprint(i), videoRequest(fmt.Sprint(i), "sandbox-video:duration_ms=1", "a cat"))
		if end := last(follow(t, r.log, id)); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
			t.Errorf("ended %v", end.Job)
		}
	}
	close(stop)
	<-interrupting
	info := r.Queue.Route(subject.Video, config.SandboxVideoRoute)
	shortly(t, "nothing is delivered and held by no one", func() bool {
		i, err := info.Info(t.Context())
		return err == nil && i.NumAckPending == 0
	})
}

// TestALoopThatFailsAsksShortly proves that short requests follow a failure: the client does not
// report an unsent long one.
func TestALoopThatFailsAsksShortly(t *testing.T) {
	t.Parallel()
	up := newSandbox(t)
	link, through, direct := jobtest.Linked(t)
	asked := pulls(t, direct, direct.Names().Work())
	cfg := testConfig(t, up.URL())
	r := lazyReplica(t, through, cfg)
	shortly(t, "each route asks, shortly and then for long", func() bool { return asked() >= 2*len(cfg.Routes) })
	link.Cut(faultinject.Reset)
	shortly(t, "the connection is lost", func() bool { return !r.Broker.Conn().IsConnected() })
	before := asked()
	link.Heal()
	shortly(t, "each route asks over the new connection", func() bool { return asked() >= before+len(cfg.Routes) })
	id := publish(t, direct, subject.Video, "v", videoRequest("v", "sandbox-video", "a cat"))
	if end := last(follow(t, r.log, id)); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		t.Errorf("ended %v", end.Job)
	}
}

// TestRequestsInTheInboxAreCounted proves that a count of the inbox ends the long request that did
// not deliver the messages.
func TestRequestsInTheInboxAreCounted(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := idleReplica(t, b, testConfig(t, "http://127.0.0.1:1"))
	in := r.intake(subject.Video)
	stream, durable := in.Durable()
	if _, err := r.durable(t.Context(), stream, durable); err != nil {
		t.Fatal(err)
	}
	publish(t, b, subject.Video, "v", videoRequest("v", "sandbox-video", "a cat"))
	idle := &idlePull{}
	waiting, done := idle.begin(t.Context())
	defer done()
	// A consumer counts a message shortly after its publisher has the answer.
	r.eventually(t, "the end of the long request", func() bool {
		r.counter.countInbox(t.Context(), &countedInbox{durable: durable.Durable, metrics: r.Metrics.Route(subject.Video, "intake"), idle: idle})
		return waiting.Err() != nil
	})
	reaches(t, r.Metrics, 1, "genbus_jobs_waiting", map[string]string{"kind": "video", "route": "intake"})
}
