package consumer

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
)

// Who works on the jobs of a removed route, no replica can be asked. Two things tell
// that one lives: a replica with a free slot has a pull waiting at the route's
// durable consumer, and one without extends what it holds, which is never delivered
// to anybody else. Nothing that the consumer says of itself shows an extension. So
// a new replica watches the consumer, and then asks for everything that is
// delivered and not acknowledged. Nobody works on the route when
//
//   - it has asked twice, with more than AckWait in between,
//   - all the while no other pull waited, and nobody was given, finished or published
//     anything, and
//   - everything came when it asked for the second time.
//
// Once is not enough: what was not extended for longer than AckWait, because the
// broker was away, is delivered to whoever asks, although its holder is back. What
// came is neither acknowledged, nor given back, nor extended. So it comes again
// after AckWait, unless it has a holder, who never learns of it
// (docs/adr/0005-removed-routes.md).

// orphanWatch waits until nobody works on the jobs of one removed route, and adopts
// them.
type orphanWatch struct {
	*Consumer
	routeID
	// asked is true while nobody was seen to live since everything was asked for.
	asked bool
	// inVain counts how often something came, and not everything.
	inVain int
	// doubts are held against items of jobs that seem to be erased.
	doubts map[standing]*doubt
}

// standing is where a work item stands.
type standing struct {
	stream string
	seq    uint64
}

func newOrphanWatch(c *Consumer, route routeID) *orphanWatch {
	return &orphanWatch{Consumer: c, routeID: route, doubts: map[standing]*doubt{}}
}

// run returns when the route has no jobs any more, when it is configured again, or when
// no more work is taken.
func (w *orphanWatch) run() {
	for told := false; w.fetching.Err() == nil && !w.Routes.Has(w.kind, w.name); told = true {
		over, err := w.over()
		if err == nil && over {
			return
		}
		if !told {
			w.Logger.Info("jobs stand on a route that is not configured; they are adopted when nobody works on it", w.attrs()...)
		}
		if err == nil {
			err = w.round()
		}
		if err != nil && w.fetching.Err() == nil && !errors.Is(err, errRouteBack) {
			w.asked = false
			w.Logger.Warn("the jobs of a removed route could not be adopted; this is repeated", w.attrs("error", err)...)
		}
		_ = broker.Wait(w.fetching, retryLog) // the loop looks
	}
}

func (w *orphanWatch) attrs(more ...any) []any {
	return append([]any{"kind", w.kind, "route", w.name}, more...)
}

// over reports whether the route has no jobs, in line or behind it.
func (w *orphanWatch) over() (bool, error) {
	for _, at := range w.places() {
		if _, err := w.Broker.Next(w.fetching, at.stream, at.pattern, 1); !errors.Is(err, broker.ErrNoMessage) {
			return false, err
		}
	}
	return true, nil
}

// place is where jobs of the route stand.
type place struct{ stream, pattern string }

func (w *orphanWatch) places() []place {
	names := w.Broker.Names()
	return []place{
		{names.Work(), names.WorkRoutePattern(w.kind, w.name)},
		{names.Wait(), names.WaitRoutePattern(w.kind, w.name)},
	}
}

// round watches the route once, and adopts its jobs if nobody works on it.
func (w *orphanWatch) round() error {
	cons, _, err := w.look()
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return w.adoptWithoutDurable()
	}
	if err != nil {
		return err
	}
	ackWait := cons.CachedInfo().Config.AckWait
	state, still, err := w.still(ackWait)
	if err != nil || !still {
		w.asked = false
		return err
	}
	held, all, err := w.ask(cons, state.held)
	if err != nil || !all || !w.asked {
		w.asked = err == nil
		return err
	}
	w.asked = false
	return w.adopt(cons, held, ackWait)
}

// adoptWithoutDurable adopts the jobs of a route without a durable consumer. A replica
// that has the route, and lives, makes it again within countEvery and some seconds.
func (w *orphanWatch) adoptWithoutDurable() error {
	if err := broker.Wait(w.fetching, 2*w.countEvery); err != nil {
		return err
	}
	if _, _, err := w.look(); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return err
	}
	return w.adoptStored(w.places()...)
}

// durableState is what changes when somebody works on a route.
type durableState struct {
	pulls     int    // that wait
	held      int    // delivered and not acknowledged
	pending   uint64 // not delivered
	delivered uint64 // in all, again or for the first time
	finished  uint64 // in the stream, everything up to it
	paused    bool
}

// look reads the state of the route's consumer.
func (w *orphanWatch) look() (jetstream.Consumer, durableState, error) {
	cons, err := w.Broker.Consumer(w.fetching, w.Broker.Names().Work(), subject.WorkDurable(w.kind, w.name))
	if err != nil {
		return nil, durableState{}, err
	}
	i := cons.CachedInfo()
	return cons, durableState{
		pulls: i.NumWaiting, held: i.NumAckPending, pending: i.NumPending,
		delivered: i.Delivered.Consumer, finished: i.AckFloor.Stream, paused: i.Paused,
	}, nil
}

const (
	// looks is how often the state is read in each AckWait.
	looks = 4
	// maxInVain bounds the doubling of the time between two questions. Each delivery
	// counts against a job (maxDeliveries), and one that waits for an old replica
	// without a free slot has done nothing wrong.
	maxInVain = 5
)

// still watches the consumer for longer than AckWait, and reports whether nothing
// changes and nobody waits, and the state that does not change. How much longer is at
// random: where two replicas ask, each looks like life to the other one. It ends with
// the first sign of life.
func (w *orphanWatch) still(ackWait time.Duration) (state durableState, still bool, err error) {
	var end time.Time
	for {
		// Before the first look, too: on three nodes a delivery shows some time after it
		// was made, and the last one may have been ours.
		if err := broker.Wait(w.fetching, ackWait/looks); err != nil {
			return state, false, err
		}
		_, now, err := w.look()
		switch {
		case err != nil || now.pulls > 0:
			return state, false, err
		case now.paused:
			w.Logger.Warn("the jobs of a removed route wait: an operator has paused it", w.attrs()...)
			return state, false, broker.Wait(w.fetching, ackWait)
		case end.IsZero():
			state, end = now, time.Now().Add((ackWait+rand.N(ackWait/2))<<min(w.inVain, maxInVain))
		case now != state:
			return state, false, nil
		case time.Now().After(end):
			return state, true, nil
		}
	}
}

// ask takes what is delivered and not acknowledged, as far as nobody extends it.
// all is true if this is everything, of a number of n.
func (w *orphanWatch) ask(cons jetstream.Consumer, n int) (held []delivery, all bool, err error) {
	begin, ackWait := time.Now(), cons.CachedInfo().Config.AckWait
	fresh := false
	for batch := 1; len(held) < n && !fresh; batch = fetchBatch { // one first: who lives keeps all, mostly
		got, err := w.take(cons, min(batch, n-len(held)))
		if err != nil {
			return nil, false, err
		}
		for _, d := range got {
			if d.count > 1 {
				held = append(held, d)
				continue
			}
			// Behind all that came again: nobody had it before, and anybody may.
			fresh = true
			w.giveBack(d)
		}
		if len(got) == 0 {
			break
		}
	}
	all = len(held) == n && time.Since(begin) < ackWait/2
	if !all && (fresh || len(held) > 0) {
		w.inVain++
	}
	return held, all, nil
}

// take asks for up to n messages that can be delivered now.
func (w *orphanWatch) take(cons jetstream.Consumer, n int) ([]delivery, error) {
	batch, err := cons.FetchNoWait(n)
	if err != nil {
		return nil, err
	}
	var out []delivery
	for m := range batch.Messages() {
		d, err := newDelivery(w.Broker.Conn(), m)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, ended(w.fetching, batch.Error())
}

func (w *orphanWatch) giveBack(held ...delivery) {
	for _, d := range held {
		if err := settle(d, Nak()); err != nil {
			w.Logger.Warn("a message could not be given back; it is redelivered", w.attrs("sequence", d.seq, "error", err)...)
		}
	}
}

// adopt carries the route's jobs over: what its last holders held and is ours now,
// then what nobody has held, as it is delivered, and then those that wait for their
// turn. An old replica that is started again meanwhile takes part in that.
func (w *orphanWatch) adopt(cons jetstream.Consumer, held []delivery, ackWait time.Duration) error {
	for {
		err := w.adoptHeld(held, ackWait)
		if err != nil {
			return err
		}
		if held, err = w.take(cons, fetchBatch); err != nil {
			return err
		}
		if len(held) == 0 {
			return w.adoptStored(w.places()[1])
		}
	}
}

// adoptHeld adopts what was delivered to this process, which keeps it meanwhile. What
// cannot be adopted is left alone after that, and comes again. Where the route is back,
// what is left is given back to it.
func (w *orphanWatch) adoptHeld(held []delivery, ackWait time.Duration) error {
	defer w.keep(held, ackWait/3)()
	for i, d := range held {
		if w.fetching.Err() != nil {
			w.giveBack(held[i:]...)
			return context.Cause(w.fetching)
		}
		m, err := w.Broker.At(w.working, w.Broker.Names().Work(), d.seq)
		if errors.Is(err, broker.ErrNoMessage) {
			continue // it was taken out
		}
		elsewhere := false
		if err == nil && d.count == 1 {
			elsewhere, err = w.mayBeHeld(d, m)
		}
		if elsewhere {
			continue
		}
		if err == nil {
			err = w.adoptOne(m)
		}
		if errors.Is(err, errRouteBack) {
			w.giveBack(held[i:]...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mayBeHeld is heldElsewhere for an item that was delivered to the watch.
func (w *orphanWatch) mayBeHeld(d delivery, m broker.Stored) (bool, error) {
	item, err := queue.Item{Stored: m}.Decode()
	if err != nil {
		return false, nil //nolint:nilerr // whoever adopts it buries it
	}
	current, err := w.Log.Get(w.working, nameOf(item))
	if errors.Is(err, tasklog.ErrNotFound) {
		return false, nil
	}
	return err == nil && w.heldElsewhere(d, current), err
}

// keep extends deliveries, at once and then each period, until stop is called.
func (w *orphanWatch) keep(held []delivery, period time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(w.working)
	var over sync.WaitGroup
	over.Go(func() {
		for ctx.Err() == nil {
			for _, d := range held {
				if err := d.inProgress(); err != nil {
					w.Logger.Debug("extend failed", w.attrs("sequence", d.seq, "error", err)...)
				}
			}
			_ = broker.Wait(ctx, period) // the loop looks
		}
	})
	return func() {
		cancel()
		over.Wait()
	}
}

// lookEach is the number of jobs that are adopted without delivery between two looks
// for a sign of life.
const lookEach = 64

// adoptStored adopts jobs that no consumer delivers, in their order, until somebody
// else asks for the route's jobs.
func (w *orphanWatch) adoptStored(places ...place) error {
	for _, at := range places {
		for seq, n := uint64(1), 0; ; n++ {
			if n%lookEach == 0 {
				_, now, err := w.look()
				if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) || now.pulls > 0 {
					return err
				}
			}
			m, err := w.Broker.Next(w.fetching, at.stream, at.pattern, seq)
			if errors.Is(err, broker.ErrNoMessage) {
				break
			}
			if err == nil {
				err = w.adoptOne(m)
			}
			if err != nil {
				return err
			}
			seq = m.Seq + 1
		}
	}
	return nil
}
