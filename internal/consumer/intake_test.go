package consumer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/intake"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/subject"
)

func awaitDeadLetters(t testing.TB, b *broker.Broker, n int) []*genbusv1.DeadLetter {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		if letters := deadLetters(t, b); len(letters) >= n {
			return letters
		}
		if err := broker.Wait(ctx, 10_000_000); err != nil {
			t.Fatalf("%d dead letters did not come: %v", n, err)
		}
	}
}

func TestInvalidRequestsBecomeDeadLetters(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, up.URL()))
	missing := publish(t, b, subject.Video, "bad", videoRequest("bad", "", "a cat"))
	unknown := publish(t, b, subject.Video, "model", videoRequest("model", "no-such-model", "a cat"))
	garbage := nats.NewMsg(b.Names().Request(subject.Video, "acme"))
	garbage.Data = []byte{0xff, 0xff, 0xff}
	if _, err := b.Publish(t.Context(), garbage); err != nil {
		t.Fatal(err)
	}
	letters := awaitDeadLetters(t, b, 3)
	codes := map[string]bool{}
	for _, l := range letters {
		codes[l.GetError().GetCode()] = true
		if len(l.GetData()) == 0 || l.GetSubject() != "genbus.request.video.acme" {
			t.Errorf("the dead letter does not hold the message: %v", l)
		}
	}
	if !codes["invalid_request"] || !codes["model_not_found"] {
		t.Errorf("codes: %v", codes)
	}
	for id, want := range map[string][2]string{missing: {"invalid_request", ""}, unknown: {"model_not_found", "no-such-model"}} {
		if end := last(follow(t, r.log, id)); end.Job.GetError().GetCode() != want[0] || end.Job.GetModel() != want[1] {
			t.Errorf("%s of the model %q ended %v, want %q", id, end.Job.GetModel(), end.Job.GetError(), want)
		}
	}
}

// TestRefusedJobsNameTheirModel proves that the job of a refused request has the model that the
// request names, in whichever member, and no more of it than the error shows.
func TestRefusedJobsNameTheirModel(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	in := idleReplica(t, b, testConfig(t, "http://127.0.0.1:1"))
	long := strings.Repeat("m", 129)
	for name, row := range map[string]struct {
		kind       subject.Kind
		body, want string
	}{
		"a chat":                {subject.Chat, `{"model":"none","messages":[{"role":"user","content":"a"}]}`, "none"},
		"a chat without a text": {subject.Chat, `{"model":"none"}`, "none"},
		"a video":               {subject.Video, `{"model":"none","prompt":"a"}`, "none"},
		"a video of kling":      {subject.Video, `{"model_name":"none","prompt":"a"}`, "none"},
		"a video of jimeng":     {subject.Video, `{"req_key":"none","prompt":"a"}`, "none"},
		"a long name":           {subject.Video, `{"model":"` + long + `","prompt":"a"}`, long[:128]},
		"no name":               {subject.Video, `{"model":7,"prompt":"a"}`, ""},
		"no JSON":               {subject.Video, `{"model":"none"`, ""},
		"nothing":               {subject.Chat, ``, ""},
	} {
		request := admission.Request{Kind: row.kind, Tenant: "acme", RequestID: name, Body: body.Parse([]byte(row.body))}
		if err := in.intake(row.kind).RecordRefusal(t.Context(), request, request.JobID(), errcode.New(errcode.InvalidRequest, "x")); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		e, err := in.log.Get(t.Context(), subject.JobName{Kind: row.kind, Tenant: "acme", ID: request.JobID()})
		if err != nil || e.Job.GetModel() != row.want {
			t.Errorf("%s: the model is %q, %v", name, e.Job.GetModel(), err)
		}
	}
}

// TestTheInboxOfAnOlderVersion proves that a replica updates the inbox consumers of an older
// version, which had an AckWait of a minute.
func TestTheInboxOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	for _, kind := range subject.Kinds {
		if _, err := b.Streams().EnsureConsumer(t.Context(), b.Names().Requests(), jetstream.ConsumerConfig{
			Durable: subject.IntakeDurable(kind), FilterSubject: b.Names().RequestPattern(kind),
			AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxDeliver: -1, MaxAckPending: 1024,
		}); err != nil {
			t.Fatal(err)
		}
	}
	newReplica(t, b, testConfig(t, newSandbox(t).URL()))
	for _, kind := range subject.Kinds {
		cons, err := b.Consumer(t.Context(), b.Names().Requests(), subject.IntakeDurable(kind))
		if err != nil {
			t.Fatal(err)
		}
		if got := cons.CachedInfo().Config.AckWait; got != intake.AckWait || got <= intake.Timeout {
			t.Errorf("%s: a request comes back after %s, want %s, and the handler's %s to be shorter", kind, got, intake.AckWait, intake.Timeout)
		}
	}
}

func TestSameRequestIDAttaches(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, up.URL()))
	id := publish(t, b, subject.Video, "one", videoRequest("one", "sandbox-video", "a cat"))
	follow(t, r.log, id, genbusv1.JobPhase_JOB_PHASE_QUEUED)
	publish(t, b, subject.Video, "one", videoRequest("one", "sandbox-video", "a cat"))
	publish(t, b, subject.Video, "one", videoRequest("one", "sandbox-video", "a dog"))
	end := last(follow(t, r.log, id))
	if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		t.Errorf("ended %v", end.Job.GetError())
	}
	letters := awaitDeadLetters(t, b, 1)
	if len(letters) != 1 || letters[0].GetError().GetCode() != "idempotency_key_reused" {
		t.Errorf("dead letters: %v", letters)
	}
	if n := up.Sandbox.Stats().Creates; n != 1 {
		t.Errorf("%d creates", n)
	}
	again, err := r.log.Get(t.Context(), end.Name())
	if err != nil || again.Version() != end.Version() {
		t.Errorf("the refused request changed the job: %v, %v", again, err)
	}
}

func TestLargeBodiesGoThroughTheObjectStore(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, up.URL()))
	image := "data:image/png;base64," + strings.Repeat("QUJD", 150_000)
	request := videoRequest("big", "sandbox-video", "a cat")
	request.GetVideo().Image = &image
	id := publish(t, b, subject.Video, "big", request)
	end := last(follow(t, r.log, id))
	if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || end.Job.GetExecution().GetInput() == nil {
		t.Errorf("ended %v, input %v", end.Job.GetError(), end.Job.GetExecution().GetInput())
	}
	for _, e := range follow(t, r.log, id) {
		data, err := proto.Marshal(e.Job)
		if err != nil || bytes.Contains(data, []byte("QUJDQUJD")) {
			t.Fatalf("event %d holds the body (%v)", e.Version(), err)
		}
	}
}

// TestRequestWithoutAnIDIsNotRepeatedByRedelivery proves that a redelivered inbox message without a
// request ID is the same job.
func TestRequestWithoutAnIDIsNotRepeatedByRedelivery(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	up := newSandbox(t)
	r := newReplica(t, b, testConfig(t, up.URL()))
	source := admission.ByInbox("S", 7, time.Now())
	request := admission.Request{Kind: subject.Video, Tenant: "acme", Body: body.Parse([]byte(`{"model":"sandbox-video","prompt":"a cat"}`)), Source: &source}
	first, err := r.Admission.Admit(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	second, err := r.Admission.Admit(t.Context(), request)
	if err != nil || second.Job.GetId() != first.Job.GetId() {
		t.Errorf("%v, %v", second, err)
	}
	if _, err := r.log.Get(t.Context(), subject.JobName{Kind: subject.Video, Tenant: "acme", ID: "video_other"}); !errors.Is(err, joblog.ErrNotFound) {
		t.Error(err)
	}
}

// TestMessageOfARemadeInboxIsOneJob proves that a message of a recreated inbox is one job for
// replicas started before and after.
func TestMessageOfARemadeInboxIsOneJob(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		older := idleReplica(t, b, testConfig(t, "http://127.0.0.1:1")).intake(subject.Video)
		if err := b.JetStream().DeleteStream(t.Context(), b.Names().Requests()); err != nil {
			t.Fatal(err)
		}
		if err := b.Streams().Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		newer := idleReplica(t, open(t), testConfig(t, "http://127.0.0.1:1")).intake(subject.Video)
		publish(t, b, subject.Video, "", videoRequest("", "sandbox-video", "a cat"))
		cons, err := b.JetStream().CreateConsumer(t.Context(), b.Names().Requests(), jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
		if err != nil {
			t.Fatal(err)
		}
		m := brokertest.Next(t, cons)
		for _, in := range []*intake.Intake{older, newer} {
			if _, out := in.Admit(t.Context(), m); out != nil {
				t.Fatalf("admitted with %v", out)
			}
		}
		if n := messages(t, b, b.Names().Work()); n != 1 {
			t.Errorf("%d jobs", n)
		}
	})
}

// TestAnAcceptedMessageIsNoRejectedRequest proves that a redelivered accepted message causes no
// dead letter if no route serves its model any longer, even as a first delivery of a recreated
// consumer.
func TestAnAcceptedMessageIsNoRejectedRequest(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		died := idleReplica(t, b, testConfig(t, "http://127.0.0.1:1")).intake(subject.Video)
		other := idleReplica(t, open(t), testConfig(t, "http://127.0.0.1:1", func(c *config.Config) {
			for i := range c.Routes {
				c.Routes[i].Models = []string{fmt.Sprint("other-", i)}
			}
		})).intake(subject.Video)
		publish(t, b, subject.Video, "", videoRequest("", "sandbox-video", "a cat"))
		var deliveries []jetstream.Msg
		for range 2 {
			cons, err := b.JetStream().CreateConsumer(t.Context(), b.Names().Requests(), jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
			if err != nil {
				t.Fatal(err)
			}
			first := brokertest.Next(t, cons)
			if err := first.Nak(); err != nil {
				t.Fatal(err)
			}
			deliveries = append(deliveries, first, brokertest.Next(t, cons))
			if err := b.JetStream().DeleteConsumer(t.Context(), b.Names().Requests(), cons.CachedInfo().Name); err != nil {
				t.Fatal(err)
			}
		}
		if _, out := died.Admit(t.Context(), deliveries[0]); out != nil {
			t.Fatalf("admitted with %v", out)
		}
		for i, m := range deliveries[1:] {
			if _, out := other.Admit(t.Context(), m); out != nil {
				t.Errorf("delivery %d is settled with %v", i, out)
			}
		}
		if jobs, letters := messages(t, b, b.Names().Work()), messages(t, b, b.Names().Rejected()); jobs != 1 || letters != 0 {
			t.Errorf("%d jobs, and %d dead letters of a request that was never accepted", jobs, letters)
		}
	})
}

// TestARefusedMessageIsNotJudgedAgain proves that a redelivered refused message, whose model now
// has a route, does not become a job.
func TestARefusedMessageIsNotJudgedAgain(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		died := idleReplica(t, b, testConfig(t, "http://127.0.0.1:1", func(c *config.Config) {
			for i := range c.Routes {
				c.Routes[i].Models = []string{fmt.Sprint("other-", i)}
			}
		})).intake(subject.Video)
		other := idleReplica(t, open(t), testConfig(t, "http://127.0.0.1:1")).intake(subject.Video)
		message := videoRequest("refused", "sandbox-video", "a cat")
		id := publish(t, b, subject.Video, "refused", message)
		cons, err := b.JetStream().CreateConsumer(t.Context(), b.Names().Requests(), jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
		if err != nil {
			t.Fatal(err)
		}
		m := brokertest.Next(t, cons)
		for _, in := range []*intake.Intake{died, other} {
			if _, out := in.Admit(t.Context(), m); out != nil {
				t.Errorf("settled with %v", out)
			}
		}
		request, err := natsreq.FromVideo(message)
		if err != nil {
			t.Fatal(err)
		}
		request.Tenant = "acme"
		if e, err := other.Admission.Admit(t.Context(), request); err != nil || e.Job.GetId() != id || e.Job.GetError().GetCode() != string(errcode.ModelNotFound) {
			t.Errorf("the repeat is answered with %v, %v", e.Job, err)
		}
		if jobs, letters := messages(t, b, b.Names().Work()), messages(t, b, b.Names().Rejected()); jobs != 0 || letters != 1 {
			t.Errorf("%d jobs and %d dead letters of one refused message", jobs, letters)
		}
	})
}

func messages(t testing.TB, b *broker.Broker, stream string) uint64 {
	t.Helper()
	s, err := b.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}
