package hold

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/subject"
)

// Delivery is one delivery of a message. It does not keep the data, because a job is held for
// hours.
type Delivery struct {
	nc    *nats.Conn
	reply string
	// Count is the number of deliveries of the message, including this one.
	Count uint64
	// Seq is the message's sequence in its stream.
	Seq uint64
	// Recorded is a work item's subject.HeaderRecorded, or empty.
	Recorded string
}

// NewDelivery returns the delivery of a fetched message.
func NewDelivery(nc *nats.Conn, m jetstream.Msg) (Delivery, error) {
	meta, err := m.Metadata()
	if err != nil {
		return Delivery{}, fmt.Errorf("message on %s: %w", m.Subject(), err)
	}
	return Delivery{
		nc: nc, reply: m.Reply(), Count: meta.NumDelivered, Seq: meta.Sequence.Stream, Recorded: m.Headers().Get(subject.HeaderRecorded),
	}, nil
}

// Reply returns the subject for extending and settling the message.
func (d Delivery) Reply() string { return d.reply }

// Extend extends the AckWait. Like every settlement, it is sent without waiting: after a loss the
// message is redelivered and the job resumes from its log.
func (d Delivery) Extend() error { return d.nc.Publish(d.reply, []byte("+WPI")) }

// Settle settles the message. A nil outcome acknowledges it. Only Settle and SettleConfirmed settle
// messages.
func (d Delivery) Settle(outcome error) error {
	if order := order(outcome); order != nil {
		return d.nc.Publish(d.reply, order)
	}
	return nil
}

// SettleConfirmed is Settle, but waits within ctx until the server confirms. A message whose ACK
// was confirmed is not redelivered.
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

// order returns the settlement to send, or nil for none.
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

// word names an outcome in traces.
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
