package intake

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/subject"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

// heldUpload is an inbox request held by a replica whose loops do not run.
type heldUpload struct {
	*Intake
	t       *testing.T
	message jetstream.Msg
	d       hold.Delivery
}

func takeHeld(t *testing.T, b *broker.Broker, m *genbusv1.VideoRequest) heldUpload {
	t.Helper()
	p := jobtest.NewProcess(t, b, jobtest.Config(t, "http://127.0.0.1:1"))
	p.Start(t)
	jobtest.Publish(t, b, subject.Video, "", m)
	cons, err := b.Streams().EnsureConsumer(t.Context(), b.Names().Requests(), jetstream.ConsumerConfig{
		Durable: subject.IntakeDurable(subject.Video), FilterSubject: b.Names().RequestPattern(subject.Video), AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	message, err := cons.Next(jetstream.FetchMaxWait(jobtest.Patience))
	if err != nil {
		t.Fatal(err)
	}
	d, err := hold.NewDelivery(b.Conn(), message)
	if err != nil {
		t.Fatal(err)
	}
	in := New(subject.Video, Options{
		Life: p.Holder(t).Life, Broker: b, Log: p.Log, Items: p.Queue.Items, DeadLetters: p.DeadLetters, Uploads: p.Uploads, Admission: p.Admission, Logger: p.Logger,
	})
	return heldUpload{Intake: in, t: t, message: message, d: d}
}

// fillPlaces takes all slots for uploads until free is called. It stops after three refusals,
// because the short wait may end before it looks for a free slot.
func (h heldUpload) fillPlaces() (free func()) {
	h.t.Helper()
	var taken []func()
	for refused := 0; refused < 3; {
		in, err := natsreq.Decode(h.Broker.Names(), h.message.Subject(), nil, h.message.Data())
		if err != nil {
			h.t.Fatal(err)
		}
		release, err := h.Uploads.Complete(h.t.Context(), &in, 10*time.Millisecond)
		if err != nil {
			refused++
			continue
		}
		taken = append(taken, release)
	}
	return func() {
		for _, release := range taken {
			release()
		}
	}
}

// lostSettlement is a delivery whose settlement is lost.
type lostSettlement struct{ jetstream.Msg }

func (lostSettlement) Reply() string { return nats.NewInbox() }

// returned reports whether an outcome returns the message after at least delay.
func returned(outcome error, delay time.Duration) bool {
	back, ok := errors.AsType[*hold.ReturnError](outcome)
	return ok && back.Delay >= delay
}

// TestAMessageInTwoHands proves that a replica which finds the upload removed by another one stores
// no dead letter, and that the message is not redelivered.
func TestAMessageInTwoHands(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	h := takeHeld(t, b, jobtest.Upload(t, b, "twice", "sandbox-video"))
	served, out := h.Admit(t.Context(), h.message)
	if err := h.settle(t.Context(), h.d, out, served); err != nil || out != nil {
		t.Fatalf("%v, %v", out, err)
	}
	if left := brokertest.Uploads(t, b.JetStream(), "acme"); len(left) != 0 {
		t.Fatalf("left: %v", left)
	}
	served, second := h.Admit(t.Context(), h.message)
	if !returned(second, 0) || served != nil {
		t.Fatalf("the second hand: %v, %v", second, served)
	}
	if err := h.settle(t.Context(), h.d, hold.Return(), served); err != nil {
		t.Fatal(err)
	}
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	cons, err := b.Consumer(t.Context(), b.Names().Requests(), subject.IntakeDurable(subject.Video))
	if err != nil {
		t.Fatal(err)
	}
	if info := cons.CachedInfo(); info.NumPending != 0 || info.NumAckPending != 0 || jobtest.UnsettledRequests(t, b) != 0 || len(jobtest.DeadLetters(t, b)) != 0 {
		t.Errorf("%d and %d come again; dead letters: %v", info.NumPending, info.NumAckPending, jobtest.DeadLetters(t, b))
	}
}

// TestAnUnconfirmedAckKeepsTheUpload proves that the upload stays after an unconfirmed ACK, and
// that the redelivered message attaches to its job.
func TestAnUnconfirmedAckKeepsTheUpload(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	h := takeHeld(t, b, jobtest.Upload(t, b, "unsure", "sandbox-video"))
	served, out := h.Admit(t.Context(), h.message)
	lost, err := hold.NewDelivery(b.Conn(), lostSettlement{h.message})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.settle(t.Context(), lost, out, served); !errors.Is(err, nats.ErrNoResponders) {
		t.Fatalf("an ack into the void: %v", err)
	}
	if left := brokertest.Uploads(t, b.JetStream(), "acme"); len(left) != 1 {
		t.Fatalf("left: %v", left)
	}
	served, again := h.Admit(t.Context(), h.message)
	if err := h.settle(t.Context(), h.d, again, served); err != nil || again != nil {
		t.Fatalf("%v, %v", again, err)
	}
	if left := brokertest.Uploads(t, b.JetStream(), "acme"); len(left) != 0 || jobtest.UnsettledRequests(t, b) != 0 {
		t.Errorf("left: %v, and %d messages", left, jobtest.UnsettledRequests(t, b))
	}
	name := subject.JobName{Kind: subject.Video, Tenant: "acme", ID: subject.JobID(subject.Video, "acme", "request\x00unsure")}
	if e, err := h.Log.Get(t.Context(), name); err != nil || e.Version() != 1 {
		t.Errorf("%v, %v", e, err)
	}
}

// TestTheInboxWaitsForAPlace proves that a request without an upload slot is returned, not refused.
func TestTheInboxWaitsForAPlace(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	h := takeHeld(t, b, jobtest.Upload(t, b, "waits", "sandbox-video"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	free := h.fillPlaces()
	if _, out := h.Admit(ctx, h.message); !returned(out, 500*time.Millisecond) {
		t.Errorf("without a place: %v", out)
	}
	free()
	if served, out := h.Admit(t.Context(), h.message); out != nil || served == nil {
		t.Errorf("with a place: %v", out)
	}
}
