package consumer

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// storeItem stores a work item on a route without a log, as after a crash during admission.
func storeItem(t testing.TB, b *broker.Broker, route, id string, age time.Duration) *genbusv1.WorkItem {
	t.Helper()
	item := &genbusv1.WorkItem{
		Id: id, Kind: "video", Tenant: "acme", Route: route, Model: "sandbox-video", Protocol: "primary", Fingerprint: []byte("fp"),
		Body: []byte(`{"model":"sandbox-video","prompt":"a cat"}`), AcceptedAt: timestamppb.New(time.Now().Add(-age)),
	}
	data, err := proto.Marshal(item)
	if err != nil {
		t.Fatal(err)
	}
	m := nats.NewMsg(b.Names().WorkItem(subject.Video, route, "acme", id))
	m.Data = data
	shortly(t, "a leader of the stream", func() bool { // the stream may have just been created
		_, err := b.Publish(t.Context(), m)
		if err != nil && !errors.Is(err, broker.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
	return item
}

// waitItem is storeItem for a job in the backlog.
func waitItem(t testing.TB, b *broker.Broker, route, id string, age time.Duration) *genbusv1.WorkItem {
	t.Helper()
	item := &genbusv1.WorkItem{
		Id: id, Kind: "video", Tenant: "acme", Route: route, Model: "sandbox-video", Protocol: "primary", Fingerprint: []byte("fp"),
		Body: []byte(`{"model":"sandbox-video","prompt":"a cat"}`), AcceptedAt: timestamppb.New(time.Now().Add(-age)),
	}
	putItemAt(t, b, b.Names().WaitItem(subject.Video, route, "acme", id), item)
	return item
}

// putItemAt stores a work item unchanged on a subject.
func putItemAt(t testing.TB, b *broker.Broker, subj string, item *genbusv1.WorkItem) {
	t.Helper()
	data, err := proto.Marshal(item)
	if err != nil {
		t.Fatal(err)
	}
	m := nats.NewMsg(subj)
	m.Data = data
	if _, err := b.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func TestOldItemWithoutALogIsNotSubmitted(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up, b := newSandbox(t), open(t)
		r := newReplica(t, b, testConfig(t, up.URL()))
		storeItem(t, b, "sandbox-video", videoID("old"), 2*time.Hour)
		events := follow(t, r.log, videoID("old"))
		if phases(events) != "failed" || last(events).Job.GetError().GetCode() != "log_lost" {
			t.Errorf("phases %s, %v", phases(events), last(events).Job.GetError())
		}
		doneOnce(t, b, last(events))
		if n := up.Sandbox.Stats().Creates; n != 0 {
			t.Errorf("%d creates", n)
		}
	})
}

// TestOldItemThatWaitedWithoutALogIsRun proves that an item of the backlog without a log is run
// however old it is, because no holder can have started it.
func TestOldItemThatWaitedWithoutALogIsRun(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up, b, id := newSandbox(t), open(t), videoID("old")
		r := newReplica(t, b, testConfig(t, up.URL()))
		waitItem(t, b, config.SandboxVideoRoute, id, 2*time.Hour)
		events := follow(t, r.log, id)
		if phases(events) != "queued submitting submitted completed" && last(events).Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
			t.Errorf("phases %s, %v", phases(events), last(events).Job.GetError())
		}
		doneOnce(t, b, last(events))
		if n := up.Sandbox.Stats().Creates; n != 1 {
			t.Errorf("%d creates", n)
		}
	})
}

func TestYoungItemWithoutALogIsCarriedOn(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, up.URL()))
	storeItem(t, b, "sandbox-video", videoID("young"), time.Second)
	end := last(follow(t, r.log, videoID("young")))
	if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		t.Errorf("ended %v", end.Job.GetError())
	}
	doneOnce(t, b, end)
}

// TestRefusalIsFinishedByTheRedelivery proves that a redelivered refused request gets the missing
// feed copy.
func TestRefusalIsFinishedByTheRedelivery(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, up.URL()))
	request := videoRequest("bad", "", "a cat")
	decoded, err := natsreq.FromVideo(request)
	if err != nil {
		t.Fatal(err)
	}
	item := &genbusv1.WorkItem{Id: videoID("bad"), Kind: "video", Tenant: "acme", RequestId: "bad", AcceptedAt: timestamppb.Now(), Fingerprint: decoded.Fingerprint()}
	f := errcode.New(errcode.InvalidRequest, "x")
	end, err := r.log.Commit(t.Context(), task.FailedAtOnce(item, time.Now(), f.TaskError()), 0)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, b, subject.Video, "bad", request)
	doneOnce(t, b, end)
}

// TestRefusalLeavesAnAcceptedJobAlone proves that a bad message does not end a job with the same
// request ID whose log is still empty.
func TestRefusalLeavesAnAcceptedJobAlone(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, up.URL()))
	storeItem(t, b, "of-another-replica", videoID("taken"), 0)
	publish(t, b, subject.Video, "taken", videoRequest("taken", "", "a cat"))
	awaitDeadLetters(t, b, 1)
	refused := admission.Request{Kind: subject.Video, Tenant: "acme", RequestID: "taken"}
	if err := r.intake(subject.Video).RecordRefusal(t.Context(), refused, videoID("taken"), errcode.New(errcode.InvalidRequest, "x")); err != nil {
		t.Fatal(err)
	}
	name := subject.JobName{Kind: subject.Video, Tenant: "acme", ID: videoID("taken")}
	if e, err := r.log.Get(t.Context(), name); err != nil || e.Terminal() {
		t.Errorf("the accepted job was ended: %v, %v", e.Job, err)
	}
}

func TestOrphanWithoutALogFailsVisibly(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, newSandbox(t).URL()))
	storeItem(t, b, "gone", videoID("orphan0"), 0)
	r.failRemoved(t)
	end := last(follow(t, r.log, videoID("orphan0")))
	if end.Job.GetError().GetCode() != "upstream_removed" {
		t.Errorf("ended %v", end.Job.GetError())
	}
	doneOnce(t, b, end)
}
