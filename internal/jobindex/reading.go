package jobindex

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/jobtable"
)

const (
	// probeEvery is the interval at which a reading is compared with the log. probeSoon is the
	// interval while a reading needs only that comparison to become ready.
	probeEvery = time.Second
	probeSoon  = 50 * time.Millisecond
	// doubtAfter is how long a reading may stall behind the log and still be ready. lagAfter is how
	// far a reading that progresses may lag and still be ready. giveUpAfter is how long a reading
	// may stall before the log is read again from its beginning. It exceeds the ten seconds after
	// which nats.go recreates a consumer that gets no heartbeats.
	doubtAfter  = 3 * time.Second
	lagAfter    = 10 * time.Second
	giveUpAfter = 15 * time.Second
	// expireEvery is the interval at which rows of jobs that aged out of the log are removed.
	expireEvery = time.Minute
)

// reading is one pass over the log from its beginning. It fills a new table, so late events of an
// earlier pass cannot affect it.
type reading struct {
	log       *joblog.Log
	observers []Observer
	table     *jobtable.Table
	rates     *jobtable.RateCounter
	created   time.Time     // creation time of the log
	caught    chan struct{} // receives a value when everything on the node has been applied
	// The log's first sequence at the last call of Table.Expire, and the time of that call.
	expired   uint64
	expiredAt time.Time

	applying sync.Mutex // serializes events
	ended    bool       // guarded by applying

	mu       sync.Mutex
	asOf     uint64 // sequence of the last event applied
	caughtUp bool   // has applied everything that the node had when the reading began
	ready    bool
	first    bool          // has not been ready yet
	probed   time.Time     // time of the last answered probe
	seen     uint64        // asOf at the last probe
	moved    time.Time     // last time at which progress was seen
	reached  time.Time     // latest time up to which, according to probes, everything in the log has been applied
	silent   time.Duration // part of the time since reached in which the broker did not answer; not counted as lag
	target   uint64        // end of the log at an earlier probe
	targeted time.Time     // time of that probe
	verified uint64        // end of the log when it was found to have no event after the last one applied
	below    bool          // at the last probe, the log seemed to end before the last event applied
	waits    map[chan struct{}]uint64
}

func newReading(log *joblog.Log, created time.Time, size int, observers []Observer) *reading {
	return &reading{
		log: log, observers: observers, table: jobtable.New(size), rates: jobtable.NewRateCounter(), created: created,
		caught: make(chan struct{}, 1), first: true, target: math.MaxUint64, moved: time.Now(), waits: map[chan struct{}]uint64{},
	}
}

// apply applies an event. If a message is not an event, it only advances the reading.
func (r *reading) apply(s joblog.Summary) {
	r.applying.Lock()
	defer r.applying.Unlock()
	if r.ended {
		return
	}
	if s.Name.ID != "" && !s.CreatedAt.IsZero() {
		// Clone: the ID shares the memory of the whole message.
		s.Name.ID = strings.Clone(s.Name.ID)
		known := r.table.Put(s)
		if applied, caughtUp := r.progress(); s.Seq > applied { // not counted yet
			r.rates.Count(s, !known && !caughtUp, time.Now())
		}
		for _, o := range r.observers {
			o.Observe(s)
		}
	}
	r.advance(s.Seq)
}

// end makes the reading ignore further events, because a consumer that is being recreated may still
// deliver some after it was stopped.
func (r *reading) end() {
	r.applying.Lock()
	r.ended = true
	r.applying.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = false
}

// isReady reports whether the reading includes everything that was in the log a moment ago. If
// there was no recent probe, the reading stays ready only if it has received new events.
func (r *reading) isReady(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ready && (now.Sub(r.probed) <= doubtAfter+probeEvery || r.asOf > r.seen)
}

func (r *reading) advance(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asOf = max(r.asOf, seq)
	for c, upto := range r.waits {
		if upto <= r.asOf {
			delete(r.waits, c)
			close(c)
		}
	}
}

func (r *reading) appliedUpto() uint64 {
	applied, _ := r.progress()
	return applied
}

// progress returns the sequence of the last event applied. It also reports whether the reading has
// applied everything that the node had when the reading began.
func (r *reading) progress() (applied uint64, caughtUp bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asOf, r.caughtUp
}

// goesOn reports whether the reading has progressed within doubtAfter.
func (r *reading) goesOn(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.moved) < doubtAfter
}

// await waits until the reading has applied the event upto, for at most timeout.
func (r *reading) await(ctx context.Context, upto uint64, timeout time.Duration) {
	r.mu.Lock()
	if upto <= r.asOf {
		r.mu.Unlock()
		return
	}
	c := make(chan struct{})
	r.waits[c] = upto
	r.mu.Unlock()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-c:
		return
	case <-timer.C:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waits, c)
}

// catchUp records that the reading has applied everything that the node had. Headers.Each calls it.
func (r *reading) catchUp() {
	r.mu.Lock()
	first := !r.caughtUp
	r.caughtUp = true
	r.mu.Unlock()
	if first {
		r.caught <- struct{}{}
	}
}

// probe compares the reading with the log's leader. The node that is read may lag behind, and a
// reading cannot detect on its own that it has stalled. probe returns the delay until the next
// comparison, or the reason to read the log from its beginning.
func (r *reading) probe(ctx context.Context) (next time.Duration, reason string) {
	ctx, cancel := context.WithTimeout(ctx, doubtAfter)
	defer cancel()
	asked := r.now()
	end, err := r.log.End(ctx)
	if err == nil {
		err = r.verify(ctx, end)
	}
	if err != nil {
		return probeEvery, "" // without an answer, nothing is known about the reading
	}
	if now := time.Now(); end.First > r.expired && now.Sub(r.expiredAt) > expireEvery { // no lock: only probe uses these fields
		r.expired, r.expiredAt = end.First, now
		r.table.Expire(end.First)
	}
	return r.judge(end, asked, time.Now())
}

// moment is the time at which the log was asked for its end, and the last event applied at that
// time. A busy log may grow before its answer arrives.
type moment struct {
	at      time.Time
	applied uint64
}

func (r *reading) now() moment { return moment{at: time.Now(), applied: r.appliedUpto()} }

// verify reads the log's last event if the log extends beyond the last event applied and the
// reading has stalled or was never ready. In this case, the log may end with a message that is not
// an event.
func (r *reading) verify(ctx context.Context, end joblog.End) error {
	r.mu.Lock()
	need := end.Seq > r.asOf && end.Seq != r.verified && (r.asOf == r.seen || r.caughtUp && r.first)
	r.mu.Unlock()
	if !need {
		return nil
	}
	last, err := r.log.LastEvent(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if last <= r.asOf {
		r.verified = end.Seq
	} else {
		r.target = min(r.target, last) // the log ends with a message that is not an event
	}
	return nil
}

// judge decides from the result of a probe whether the reading is ready. The log may have grown
// since. It returns the delay until the next probe, or the reason to read the log from its
// beginning.
func (r *reading) judge(end joblog.End, asked moment, now time.Time) (next time.Duration, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	below := end.Seq < asked.applied
	switch {
	case !end.LogCreated.Equal(r.created):
		reason = "the log was created again"
	case below && r.below: // a leader that was just replaced may answer once more
		reason = fmt.Sprintf("the log ends with %d, and %d was read", end.Seq, asked.applied)
	}
	if reason != "" {
		r.ready = false
		return 0, reason
	}
	var silent time.Duration // the broker's silence, which does not count against the reading
	if !r.probed.IsZero() {
		silent = max(now.Sub(r.probed)-2*probeEvery, 0)
	}
	r.moved, r.silent = r.moved.Add(silent), r.silent+silent
	if r.asOf > r.seen {
		r.moved = now
	}
	r.below, r.seen, r.probed = below, r.asOf, now
	switch {
	case r.asOf >= end.Seq, r.verified == end.Seq:
		r.caughtUp = true // even if the remaining messages were erased
		r.moved, r.reached, r.silent, r.target, r.targeted = now, asked.at, 0, end.Seq, asked.at
	case r.asOf >= r.target:
		r.reached, r.silent, r.target, r.targeted = r.targeted, silent, end.Seq, asked.at
	case now.Sub(r.moved) > giveUpAfter:
		r.ready = false
		return 0, fmt.Sprintf("nothing after %d came for %s, and the log ends with %d", r.asOf, giveUpAfter, end.Seq)
	}
	if r.targeted.IsZero() {
		r.target, r.targeted = min(r.target, end.Seq), asked.at
	}
	late := now.Sub(r.reached) - r.silent
	r.ready = r.caughtUp && !r.reached.IsZero() && (late <= doubtAfter || late <= lagAfter && now.Sub(r.moved) <= doubtAfter)
	if r.ready {
		r.first = false
	}
	if r.caughtUp && r.first {
		return probeSoon, ""
	}
	return probeEvery, ""
}

// asOfTime returns the latest time up to which everything in the log is known to have been applied.
func (r *reading) asOfTime() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reached
}

// rated returns the rates according to the reading, with the number of unfinished jobs of all
// tenants.
func (r *reading) rated() jobtable.Rates {
	asOf := r.asOfTime()
	out := r.rates.Rates(time.Now())
	out.AsOf = asOf.UnixNano()
	_, out.Unfinished = r.table.UnfinishedByTenant(0, nil)
	return out
}
