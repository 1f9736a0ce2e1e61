package hold

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/subject"
)

// Delivery is one delivery of a message. It keeps the reply subject only: a job is held
// for hours, its message's data is not.
type Delivery struct {
	nc    *nats.Conn
	reply string
	// Count is how often the message was delivered, this time included.
	Count uint64
	// Seq is the message's sequence in its stream.
	Seq uint64
	// Recorded is the subject.HeaderRecorded of a work item; empty for none.
	Recorded string
}

// NewDelivery is the delivery of a fetched message.
func NewDelivery(nc *nats.Conn, m jetstream.Msg) (Delivery, error) {
	meta, err := m.Metadata()
	if err != nil {
		return Delivery{}, fmt.Errorf("message on %s: %w", m.Subject(), err)
	}
	return Delivery{
		nc: nc, reply: m.Reply(), Count: meta.NumDelivered, Seq: meta.Sequence.Stream, Recorded: m.Headers().Get(subject.HeaderRecorded),
	}, nil
}

// Reply is the subject on which the message is extended and settled.
func (d Delivery) Reply() string { return d.reply }

// Extend extends the AckWait. Like every settlement it is sent without waiting: a lost
// one is a redelivery, which resumes the job from its log.
func (d Delivery) Extend() error { return d.nc.Publish(d.reply, []byte("+WPI")) }

// Settle and SettleConfirmed are the only code that settles a message. A nil outcome
// acknowledges it.
func (d Delivery) Settle(outcome error) error {
	if order := order(outcome); order != nil {
		return d.nc.Publish(d.reply, order)
	}
	return nil
}

// SettleConfirmed is Settle, and waits within ctx until the server has confirmed it: a
// message whose ACK was confirmed is not delivered again.
func (d Delivery) SettleConfirmed(ctx context.Context, outcome error) error {
	order := order(outcome)
	if order == nil {
		return nil
	}
	if _, err := d.nc.RequestWithContext(ctx, d.reply, order); err != nil {
		return fmt.Errorf("%s was not confirmed: %w", order, err)
	}
	return nil
}

// order is what the server is told; nil for nothing.
func order(outcome error) []byte {
	if outcome == nil || errors.Is(outcome, ErrStale) {
		return []byte("+ACK")
	}
	back, returned := errors.AsType[*ReturnError](outcome)
	switch {
	case !returned:
		return nil
	case back.Delay > 0:
		return fmt.Appendf(nil, `-NAK {"delay": %d}`, back.Delay.Nanoseconds())
	default:
		return []byte("-NAK")
	}
}

// word is an outcome in traces.
func word(outcome error) string {
	_, returned := errors.AsType[*ReturnError](outcome)
	switch {
	case outcome == nil, errors.Is(outcome, ErrStale):
		return "ended"
	case returned:
		return "given_back"
	case errors.Is(outcome, ErrNotOurs):
		return "dropped"
	default:
		return "held"
	}
}
