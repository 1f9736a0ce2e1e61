package consumer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/subject"
)

// upload stores a video request, and gives the message that names it.
func upload(t testing.TB, b *broker.Broker, word, model string) *genbusv1.VideoRequest {
	t.Helper()
	ref := brokertest.Upload(t, b.JetStream(), "acme", word, videoRequest(word, model, "a cat"))
	return &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Stored{Stored: ref}}
}

// TestAnUploadGoesWithItsMessage: it is removed when its request was accepted, and
// kept for the dead letter of one that was refused. The same request, sent whole,
// attaches.
func TestAnUploadGoesWithItsMessage(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up, b := newSandbox(t), open(t)
		r := newReplica(t, b, testConfig(t, up.URL()))
		id := publish(t, b, subject.Video, "good", upload(t, b, "good", "sandbox-video"))
		refused := publish(t, b, subject.Video, "bad", upload(t, b, "bad", "no-such-model"))
		if end := last(follow(t, r.log, id)); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
			t.Errorf("ended %v", end.Job.GetError())
		}
		if end := last(follow(t, r.log, refused)); end.Job.GetError().GetCode() != "model_not_found" {
			t.Errorf("ended %v", end.Job.GetError())
		}
		r.eventually(t, "the accepted one's upload is gone, and only that", func() bool {
			left := brokertest.Uploads(t, b.JetStream(), "acme")
			return len(left) == 1 && left[0] == "upload-bad"
		})
		publish(t, b, subject.Video, "good", videoRequest("good", "sandbox-video", "a cat"))
		r.eventually(t, "the inbox is empty", func() bool { return inboxLeft(t, b) == 0 })
		if letters := deadLetters(t, b); len(letters) != 1 || letters[0].GetId() != refused || up.Sandbox.Stats().Creates != 1 {
			t.Errorf("%d creates, letters %v", up.Sandbox.Stats().Creates, letters)
		}
	})
}

// inboxLeft counts the requests that are not settled.
func inboxLeft(t testing.TB, b *broker.Broker) uint64 {
	t.Helper()
	s, err := b.Stream(t.Context(), b.Names().Requests())
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

// TestALostUploadIsADeadLetter: it was never there, so that the message comes again
// and nobody has accepted it.
func TestALostUploadIsADeadLetter(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	newReplica(t, b, testConfig(t, newSandbox(t).URL()))
	m := upload(t, b, "lost", "sandbox-video")
	m.GetStored().Name += "-no"
	publish(t, b, subject.Video, "lost", m)
	if letters := awaitLetters(t, b, 1); letters[0].GetError().GetCode() != "input_lost" || len(letters[0].GetData()) == 0 {
		t.Errorf("letters: %v", letters)
	}
}

// inHand is a request of the inbox in the hands of a replica whose loops do not run.
type inHand struct {
	*intake
	t       *testing.T
	message jetstream.Msg
	d       delivery
}

func takeInHand(t *testing.T, b *broker.Broker, m *genbusv1.VideoRequest) inHand {
	t.Helper()
	r := idleReplica(t, b, testConfig(t, newSandbox(t).URL()))
	publish(t, b, subject.Video, "", m)
	cons, err := b.EnsureConsumer(t.Context(), b.Names().Requests(), jetstream.ConsumerConfig{
		Durable: subject.IntakeDurable(subject.Video), FilterSubject: b.Names().RequestPattern(subject.Video), AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	message, err := cons.Next(jetstream.FetchMaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDelivery(b.Conn(), message)
	if err != nil {
		t.Fatal(err)
	}
	return inHand{intake: &intake{Consumer: r.Consumer, kind: subject.Video}, t: t, message: message, d: d}
}

// fillPlaces takes all places for uploads, until free is called.
func (h inHand) fillPlaces() (free func()) {
	h.t.Helper()
	var taken []func()
	for {
		in, err := natsreq.Decode(h.Broker.Names(), h.message.Subject(), nil, h.message.Data())
		if err != nil {
			h.t.Fatal(err)
		}
		release, err := h.Uploads.Complete(h.t.Context(), &in, 10*time.Millisecond)
		if err != nil {
			return func() {
				for _, release := range taken {
					release()
				}
			}
		}
		taken = append(taken, release)
	}
}

// TestAMessageInTwoHands: one of them accepts it, and removes the upload before the
// other has read it. That is no dead letter, and the message does not come again.
func TestAMessageInTwoHands(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	h := takeInHand(t, b, upload(t, b, "twice", "sandbox-video"))
	out, served := h.admit(t.Context(), h.message)
	if err := h.settle(t.Context(), h.d, out, served); err != nil || out.verb != ack {
		t.Fatalf("%+v, %v", out, err)
	}
	if left := brokertest.Uploads(t, b.JetStream(), "acme"); len(left) != 0 {
		t.Fatalf("left: %v", left)
	}
	second, served := h.admit(t.Context(), h.message)
	if second.verb != nak || served != nil {
		t.Fatalf("the second hand: %+v, %v", second, served)
	}
	if err := h.settle(t.Context(), h.d, Nak(), served); err != nil {
		t.Fatal(err)
	}
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	cons, err := b.Consumer(t.Context(), b.Names().Requests(), subject.IntakeDurable(subject.Video))
	if err != nil {
		t.Fatal(err)
	}
	if info := cons.CachedInfo(); info.NumPending != 0 || info.NumAckPending != 0 || inboxLeft(t, b) != 0 || len(deadLetters(t, b)) != 0 {
		t.Errorf("%d and %d come again; letters: %v", info.NumPending, info.NumAckPending, deadLetters(t, b))
	}
}

// TestAnUnconfirmedAckKeepsTheUpload, so that the message, which comes again,
// attaches to its job.
func TestAnUnconfirmedAckKeepsTheUpload(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	h := takeInHand(t, b, upload(t, b, "unsure", "sandbox-video"))
	out, served := h.admit(t.Context(), h.message)
	lost := h.d
	lost.reply = nats.NewInbox() // nobody is there
	if err := h.settle(t.Context(), lost, out, served); !errors.Is(err, nats.ErrNoResponders) {
		t.Fatalf("an ack into the void: %v", err)
	}
	if left := brokertest.Uploads(t, b.JetStream(), "acme"); len(left) != 1 {
		t.Fatalf("left: %v", left)
	}
	again, served := h.admit(t.Context(), h.message)
	if err := h.settle(t.Context(), h.d, again, served); err != nil || again.verb != ack {
		t.Fatalf("%+v, %v", again, err)
	}
	if left := brokertest.Uploads(t, b.JetStream(), "acme"); len(left) != 0 || inboxLeft(t, b) != 0 {
		t.Errorf("left: %v, and %d messages", left, inboxLeft(t, b))
	}
	name := subject.TaskName{Kind: subject.Video, Tenant: "acme", ID: subject.JobID(subject.Video, "acme", "request\x00unsure")}
	if e, err := h.Log.Get(t.Context(), name); err != nil || e.Version() != 1 {
		t.Errorf("%v, %v", e, err)
	}
}

// TestTheInboxWaitsForAPlace: with all places taken a request goes back, and is no
// dead letter.
func TestTheInboxWaitsForAPlace(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	h := takeInHand(t, b, upload(t, b, "waits", "sandbox-video"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	free := h.fillPlaces()
	if out, _ := h.admit(ctx, h.message); out.verb != nak || out.delay < 500*time.Millisecond {
		t.Errorf("without a place: %+v", out)
	}
	free()
	if out, served := h.admit(t.Context(), h.message); out.verb != ack || served == nil {
		t.Errorf("with a place: %+v", out)
	}
}
