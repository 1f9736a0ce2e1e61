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
	// probeEvery is how often a reading is compared with the log, and probeSoon while only
	// that is missing.
	probeEvery = time.Second
	probeSoon  = 50 * time.Millisecond
	// doubtAfter is how long a reading may stall behind the log and be ready, lagAfter how far
	// it may lag while it goes on, and giveUpAfter how long it may stall until the log is read
	// from its beginning again. nats.go makes a consumer whose
	// heartbeats are missing again after ten seconds.
	doubtAfter  = 3 * time.Second
	lagAfter    = 10 * time.Second
	giveUpAfter = 15 * time.Second
	// expireEvery is how often the rows are looked through for jobs that the log has no more.
	expireEvery = time.Minute
)

// reading is one reading of the log from its beginning, into a table of its own: what comes
// of an earlier one changes nothing.
type reading struct {
	log       *joblog.Log
	observers []Observer
	table     *jobtable.Table
	rates     *jobtable.RateCounter
	created   time.Time     // when the log was that is read
	caught    chan struct{} // has a token once all was heard that the node had
	// The log had nothing before the sequence expired, when that was looked at last.
	expired   uint64
	expiredAt time.Time

	hearing sync.Mutex // of one event after the other
	ended   bool       // guarded by hearing

	mu       sync.Mutex
	asOf     uint64 // the last event that was heard
	caughtUp bool   // what the node had that is read when the reading began
	ready    bool
	first    bool          // it was not ready yet
	probed   time.Time     // when the last probe was answered
	seen     uint64        // asOf at the last probe
	moved    time.Time     // when it was seen to go on
	reached  time.Time     // when the log had no more than is heard now, as far as was probed
	silent   time.Duration // since reached, while the broker did not answer: that is no lag
	target   uint64        // where the log ended at an earlier probe,
	targeted time.Time     // and when that was
	verified uint64        // the end of a log that has no later event than the last one heard
	below    bool          // the log seemed to have less than was heard
	waits    map[chan struct{}]uint64
}

func newReading(log *joblog.Log, created time.Time, size int, observers []Observer) *reading {
	return &reading{
		log: log, observers: observers, table: jobtable.New(size), rates: jobtable.NewRateCounter(), created: created,
		caught: make(chan struct{}, 1), first: true, target: math.MaxUint64, moved: time.Now(), waits: map[chan struct{}]uint64{},
	}
}

// hear takes an event, or a message that is none.
func (r *reading) hear(n joblog.Notice) {
	r.hearing.Lock()
	defer r.hearing.Unlock()
	if r.ended {
		return
	}
	if n.Name.ID != "" && !n.CreatedAt.IsZero() {
		// Clones: values are parts of the whole message's memory.
		n.Name.ID = strings.Clone(n.Name.ID)
		known := r.table.Put(n)
		if heard, caughtUp := r.progress(); n.Seq > heard { // and was not counted yet
			r.rates.Count(n, !known && !caughtUp, time.Now())
		}
		for _, o := range r.observers {
			o.Notice(n)
		}
	}
	r.advance(n.Seq)
}

// end has nothing heard any more. A consumer that is just being made again may deliver after
// it was stopped.
func (r *reading) end() {
	r.hearing.Lock()
	r.ended = true
	r.hearing.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = false
}

// isReady reports whether all was heard that the log had a moment ago. Of a reading that was
// not compared with the log lately nothing is known.
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

func (r *reading) heardUpto() uint64 {
	heard, _ := r.progress()
	return heard
}

// progress is the last event that was heard, and whether all was heard that the node had when
// the reading began.
func (r *reading) progress() (heard uint64, caughtUp bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asOf, r.caughtUp
}

// goesOn reports whether events were heard lately.
func (r *reading) goesOn(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.moved) < doubtAfter
}

// await waits until an event was heard, for a while at most.
func (r *reading) await(ctx context.Context, upto uint64, most time.Duration) {
	r.mu.Lock()
	if upto <= r.asOf {
		r.mu.Unlock()
		return
	}
	c := make(chan struct{})
	r.waits[c] = upto
	r.mu.Unlock()
	timer := time.NewTimer(most)
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

// catchUp notes that all was heard that the log had. It is called by the reading.
func (r *reading) catchUp() {
	r.mu.Lock()
	first := !r.caughtUp
	r.caughtUp = true
	r.mu.Unlock()
	if first {
		r.caught <- struct{}{}
	}
}

// probe compares the reading with the log's leader: the node that is read may be behind it,
// and a reading that stalls says nothing. It returns when to compare them again, or why the log
// has to be read from its beginning.
func (r *reading) probe(ctx context.Context) (next time.Duration, reason string) {
	ctx, cancel := context.WithTimeout(ctx, doubtAfter)
	defer cancel()
	asked := r.now()
	end, err := r.log.End(ctx)
	if err == nil {
		err = r.verify(ctx, end)
	}
	if err != nil {
		return probeEvery, "" // the broker does not answer: nothing is known of the reading
	}
	if now := time.Now(); end.First > r.expired && now.Sub(r.expiredAt) > expireEvery { // only the reading probes
		r.expired, r.expiredAt = end.First, now
		r.table.Expire(end.First)
	}
	return r.judge(end, asked, time.Now())
}

// moment is when the log is asked where it ends, and the last event that was heard by then. A
// busy log has more when its answer comes, which does not say so.
type moment struct {
	at    time.Time
	heard uint64
}

func (r *reading) now() moment { return moment{at: time.Now(), heard: r.heardUpto()} }

// verify looks for the last event of a job, where the log has something behind what was
// heard, and the reading does not go on or was not ready yet.
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
		r.target = min(r.target, last) // where the log ends with something else
	}
	return nil
}

// judge says whether the reading is ready, by what was probed: the log may have more since it was
// asked. reason is why it has to be read from its beginning, empty where it goes on.
func (r *reading) judge(end joblog.End, asked moment, now time.Time) (next time.Duration, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	below := end.Seq < asked.heard
	switch {
	case !end.LogCreated.Equal(r.created):
		reason = "the log was created again"
	case below && r.below: // a leader that has lost the lead may answer once more
		reason = fmt.Sprintf("the log ends with %d, and %d was read", end.Seq, asked.heard)
	}
	if reason != "" {
		r.ready = false
		return 0, reason
	}
	var silent time.Duration // the broker, and not the reading
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
		r.caughtUp = true // also where what was missing is erased
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

// asOfTime returns when the log last had no more than was heard.
func (r *reading) asOfTime() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reached
}

// rated returns the rates as of the reading, with the unfinished jobs of all tenants.
func (r *reading) rated() jobtable.Rates {
	asOf := r.asOfTime()
	out := r.rates.Rates(time.Now())
	out.AsOf = asOf.UnixNano()
	_, out.Unfinished = r.table.UnfinishedByTenant(0, nil)
	return out
}
