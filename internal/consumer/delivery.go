package consumer

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/subject"
)

// delivery is the handle of one delivered message. It keeps the reply subject
// only: a job is held for hours, its message's data is not.
type delivery struct {
	nc    *nats.Conn
	reply string
	// count is how often the message was delivered, this time included.
	count uint64
	// seq is the message's sequence in its stream.
	seq uint64
	// recorded is the subject.HeaderRecorded of a work item; empty for none.
	recorded string
}

func newDelivery(nc *nats.Conn, m jetstream.Msg) (delivery, error) {
	meta, err := m.Metadata()
	if err != nil {
		return delivery{}, fmt.Errorf("message on %s: %w", m.Subject(), err)
	}
	return delivery{
		nc: nc, reply: m.Reply(), count: meta.NumDelivered, seq: meta.Sequence.Stream, recorded: m.Headers().Get(subject.HeaderRecorded),
	}, nil
}

// inProgress extends the AckWait. Like every settlement it is sent without
// waiting: a lost one is a redelivery, which resumes the job from its log.
func (d delivery) inProgress() error { return d.nc.Publish(d.reply, []byte("+WPI")) }

// Outcome is what a handler wants to become of its message.
type Outcome struct {
	verb  verb
	delay time.Duration
	at    time.Time
}

type verb int

const (
	hold verb = iota // keep it; look again at a time
	ack              // the job has ended, and its end is in the log
	nak              // give it to somebody else, now or after a delay
	drop             // somebody else has it; touch nothing
)

// Hold keeps the message and comes back to its job at a time.
func Hold(at time.Time) Outcome { return Outcome{verb: hold, at: at} }

// HoldFor is Hold, from now.
func HoldFor(d time.Duration) Outcome { return Hold(time.Now().Add(d)) }

// Ack removes the message. It is for jobs whose terminal event was written by us
// or read from the leader, or that left the line (see leaveLine).
func Ack() Outcome { return Outcome{verb: ack} }

// Nak gives the message to another replica at once.
func Nak() Outcome { return Outcome{verb: nak} }

// NakWithDelay gives the message to anybody, later. A delayed message still
// counts as pending, so this is for rare cases.
func NakWithDelay(d time.Duration) Outcome { return Outcome{verb: nak, delay: d} }

// unjudged gives a job to another replica, because this one must not judge it by its
// clock. The delay outlives a fetch that is under way here; no other follows it.
func unjudged() Outcome { return NakWithDelay(2 * fetchWait) }

// Drop forgets the message without a word: an ack or a nak would act on the
// message of its new owner.
func Drop() Outcome { return Outcome{verb: drop} }

// settle and settleForSure are the only code that settles a message. Hold and Drop
// settle nothing.
func settle(d delivery, o Outcome) error {
	order := o.order()
	if order == nil {
		return nil
	}
	return d.nc.Publish(d.reply, order)
}

// settleForSure is settle, and waits within ctx until the server has confirmed it:
// a message whose ack was confirmed is not delivered again.
func settleForSure(ctx context.Context, d delivery, o Outcome) error {
	order := o.order()
	if order == nil {
		return nil
	}
	if _, err := d.nc.RequestWithContext(ctx, d.reply, order); err != nil {
		return fmt.Errorf("%s was not confirmed: %w", order, err)
	}
	return nil
}

// order is what the server is told; nil for nothing.
func (o Outcome) order() []byte {
	switch o.verb {
	case ack:
		return []byte("+ACK")
	case nak:
		if o.delay > 0 {
			return fmt.Appendf(nil, `-NAK {"delay": %d}`, o.delay.Nanoseconds())
		}
		return []byte("-NAK")
	default:
		return nil
	}
}
