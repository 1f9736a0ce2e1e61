package tail

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/genbus/genbus/internal/broker"
)

// Options are the limits of a Set. Zero fields: the defaults.
type Options struct {
	// Buffer bounds what a follower may be behind, and what a tail keeps for those who
	// come later, in bytes. A single item may be longer. Default: 1 MiB.
	Buffer int
	// Budget bounds what all tails keep for those who come later, in bytes; where it is used
	// each keeps its last item all the same. A follower that is behind holds up to Buffer
	// more. Default: 64 MiB.
	Budget int64
	// Silence is how long nothing comes before a log is checked: live delivery can lose
	// the last item. Default: 10s.
	Silence time.Duration
	// Reads is how many readings of the stream are under way at a time. The broker
	// answers them one after the other: without a bound, those who read long logs would
	// keep it from all others. Default: 4.
	Reads int
	// Patience is how long failing reads are tried again before followers end with their
	// error. Default: 30s.
	Patience time.Duration
	// Trouble says at once why nothing can be read now, to a follower that has just come.
	Trouble func() error
}

func (o Options) withDefaults() Options {
	o.Buffer = cmp.Or(o.Buffer, 1<<20)
	o.Budget = cmp.Or(o.Budget, 64<<20)
	o.Silence = cmp.Or(o.Silence, 10*time.Second)
	o.Reads = cmp.Or(o.Reads, 4)
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	if o.Trouble == nil {
		o.Trouble = func() error { return nil }
	}
	return o
}

// missingEvery is how many checks of a silent log pass until one also asks whether the
// log is still there.
const missingEvery = 6

// Set is the logs of one stream that are followed. It is safe for concurrent use.
type Set[K comparable, V any] struct {
	source Source[K, V]
	opts   Options
	reads  chan struct{}
	held   atomic.Int64 // bytes of all tails' items
	wake   chan struct{}

	mu       sync.Mutex
	tails    map[*tail[K, V]]struct{}
	byKey    map[K]*tail[K, V]
	sweeping context.CancelFunc // nil: no sweep runs
}

// NewSet returns a Set.
func NewSet[K comparable, V any](source Source[K, V], o Options) *Set[K, V] {
	o = o.withDefaults()
	return &Set[K, V]{
		source: source, opts: o, reads: make(chan struct{}, o.Reads), wake: make(chan struct{}, 1),
		tails: map[*tail[K, V]]struct{}{}, byKey: map[K]*tail[K, V]{},
	}
}

// Join follows a log from behind a place of an epoch. A log that has ended, as its follower
// says or as its final item does, is read again: nothing is taken from memory that may be
// gone from the stream. Those who come while it is read share the reading.
func (s *Set[K, V]) Join(key K, epoch int64, after uint64, ended bool) *Cursor[K, V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Cursor[K, V]{signal: make(chan struct{}, 1), epoch: epoch, at: after}
	if t := s.byKey[key]; t == nil || !t.join(c, ended) {
		s.begin(key, c)
	}
	return c
}

// join adds a follower, unless the tail has ended, failed or lost its last one.
func (t *tail[K, V]) join(c *Cursor[K, V], ended bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil || t.final || t.closed || ended && t.headDone > 0 {
		return false
	}
	c.t = t
	t.cursors[c] = struct{}{}
	return true
}

// begin makes a tail with its first follower, who is there before anything is read: a tail
// that has failed or ended takes none. It needs the lock.
func (s *Set[K, V]) begin(key K, first *Cursor[K, V]) {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // it is all followers', and ends with the last
	t := &tail[K, V]{
		set: s, key: key, ctx: ctx, cancel: cancel, reading: true, changed: make(chan struct{}),
		cursors: map[*Cursor[K, V]]struct{}{first: {}}, pages: map[uint64]*page[V]{},
	}
	first.t = t
	s.tails[t], s.byKey[key] = struct{}{}, t
	go t.run(nil)
	if s.sweeping == nil {
		ctx, s.sweeping = context.WithCancel(context.Background()) //nolint:forbidigo // it is all tails', and ends with the last
		go s.sweep(ctx)
	}
}

func (s *Set[K, V]) remove(t *tail[K, V]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tails, t)
	if s.byKey[t.key] == t {
		delete(s.byKey, t.key)
	}
	if len(s.tails) == 0 && s.sweeping != nil {
		s.sweeping()
		s.sweeping = nil
	}
}

// Wake checks every log: what was published while the connection was away is gone, and
// the stream may be another one.
func (s *Set[K, V]) Wake() {
	s.mu.Lock()
	for t := range s.tails {
		t.mu.Lock()
		t.woken++
		t.mu.Unlock()
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// retry reads, and again what the broker could not answer, within the patience.
func (s *Set[K, V]) retry(ctx context.Context, patient bool, read func(context.Context) error) error {
	var since time.Time
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		err := read(ctx)
		if err == nil || ctx.Err() != nil || !broker.Unavailable(err) || !patient && s.opts.Trouble() != nil {
			return err
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) > s.opts.Patience || broker.Wait(ctx, wait) != nil {
			return err
		}
	}
}

// Retry reads for one follower with the same patience.
func (s *Set[K, V]) Retry(ctx context.Context, read func(context.Context) error) error {
	return s.retry(ctx, true, read)
}

// read reads when its turn comes.
func (s *Set[K, V]) read(ctx context.Context, read func(context.Context) error) error {
	select {
	case s.reads <- struct{}{}:
		defer func() { <-s.reads }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return read(ctx)
}

// sweep checks the logs of which nothing was heard for a while, many at a time.
func (s *Set[K, V]) sweep(ctx context.Context) {
	ticker := time.NewTicker(min(max(s.opts.Silence/10, time.Millisecond), time.Second))
	defer ticker.Stop()
	var failing time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-s.wake:
		}
		for batch := range slices.Chunk(s.due(), broker.MostSubjects) {
			err := s.read(ctx, func(ctx context.Context) error { return s.check(ctx, batch) })
			switch {
			case err == nil:
				failing = time.Time{}
				continue
			case failing.IsZero():
				failing = time.Now()
			}
			if ctx.Err() != nil || broker.Unavailable(err) && time.Since(failing) <= s.opts.Patience {
				break // the next tick tries again
			}
			for _, d := range batch {
				d.t.fail(err)
			}
		}
	}
}

// due is a tail that is to be checked.
type due[K comparable, V any] struct {
	t       *tail[K, V]
	known   Known[K]
	woken   int
	missing bool
}

// due lists the tails of which nothing was heard, those first that must still be there,
// then by what is known of them: a check asks for what is above the least.
func (s *Set[K, V]) due() []due[K, V] {
	var out []due[K, V]
	now := time.Now()
	s.mu.Lock()
	for t := range s.tails {
		t.mu.Lock()
		last := t.checked
		if t.heard.After(last) {
			last = t.heard
		}
		if t.started && !t.final && t.err == nil && (t.woken > 0 || now.Sub(last) >= s.opts.Silence) {
			out = append(out, due[K, V]{t, Known[K]{t.key, t.seq}, t.woken, t.woken > 0 || t.checks%missingEvery == missingEvery-1})
		}
		t.mu.Unlock()
	}
	s.mu.Unlock()
	slices.SortFunc(out, func(a, b due[K, V]) int {
		switch {
		case a.missing && !b.missing:
			return -1
		case b.missing && !a.missing:
			return 1
		}
		return cmp.Compare(a.known.Seq, b.known.Seq)
	})
	return out
}

func (s *Set[K, V]) check(ctx context.Context, batch []due[K, V]) error {
	known := make([]Known[K], len(batch))
	for i, d := range batch {
		known[i] = d.known
	}
	change, err := s.source.Behind(ctx, known, batch[0].missing)
	if err != nil {
		return err
	}
	behind := make(map[int]bool, len(change.Behind))
	for _, i := range change.Behind {
		behind[i] = true
	}
	for i, d := range batch {
		d.t.found(d, change, behind[i])
	}
	return nil
}

// found takes what a check has found.
func (t *tail[K, V]) found(d due[K, V], change Change, behind bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checked = time.Now()
	t.woken -= d.woken // the check may have been answered before a later Wake
	t.checks++
	switch {
	case behind || change.Epoch != 0 && change.Epoch != t.epoch:
		t.wantHead = true
		t.kick()
	case t.seq == d.known.Seq:
		t.seq = max(t.seq, change.Seq)
	}
}
