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

// Options sets the limits of a Set. Zero fields select the defaults.
type Options struct {
	// Buffer is how far a follower may fall behind, and how much a tail keeps for later followers,
	// in bytes. A single item may be larger. Default: 1 MiB.
	Buffer int
	// Budget bounds what all tails together keep for later followers, in bytes. Above it, each tail
	// still keeps its last item, and up to Buffer for a follower that is behind. Default: 64 MiB.
	Budget int64
	// Silence is the time without an item after which a log is checked, because live delivery can
	// lose the last item. Default: 10s.
	Silence time.Duration
	// Reads is the number of concurrent reads of the stream. The broker serves reads one at a time:
	// without a bound, reads of long logs would block all other clients. Default: 4.
	Reads int
	// Patience is how long failing reads are retried before followers get the error. Default: 30s.
	Patience time.Duration
	// Trouble returns why the stream cannot be read now, or nil. If it returns an error, a new
	// follower fails at its first failed read. Default: no trouble.
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

// missingEvery makes every sixth check of a silent log also ask whether the log still exists.
const missingEvery = 6

// Set holds the tails of the followed logs of one stream. It is safe for concurrent use.
type Set[K comparable, V any] struct {
	source Source[K, V]
	opts   Options
	reads  chan struct{}
	held   atomic.Int64 // size of the items that all tails keep
	wake   chan struct{}

	mu       sync.Mutex
	tails    map[*tail[K, V]]struct{}
	byKey    map[K]*tail[K, V]
	sweeping context.CancelFunc // nil: no sweep runs
}

// NewSet returns a Set that reads from source.
func NewSet[K comparable, V any](source Source[K, V], o Options) *Set[K, V] {
	o = o.withDefaults()
	return &Set[K, V]{
		source: source, opts: o, reads: make(chan struct{}, o.Reads), wake: make(chan struct{}, 1),
		tails: map[*tail[K, V]]struct{}{}, byKey: map[K]*tail[K, V]{},
	}
}

// Join follows a log, starting after a position in an epoch. If the log has ended, according to the
// caller or to its final item, Join reads it again, because items in memory may have been removed
// from the stream. Followers that join during that read share it.
func (s *Set[K, V]) Join(key K, epoch int64, after uint64, ended bool) *Cursor[K, V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Cursor[K, V]{signal: make(chan struct{}, 1), epoch: epoch, at: after}
	if t := s.byKey[key]; t == nil || !t.join(c, ended) {
		s.begin(key, c)
	}
	return c
}

// join adds a follower. It returns false if a new tail is needed: this one has failed, ended or
// lost its last follower, or the log has ended and must be read again.
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

// begin creates a tail with its first follower. The follower is added before the first read,
// because a tail that has failed or ended accepts none. Callers hold mu.
func (s *Set[K, V]) begin(key K, first *Cursor[K, V]) {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // ends with the last follower
	t := &tail[K, V]{
		set: s, key: key, ctx: ctx, cancel: cancel, reading: true, changed: make(chan struct{}),
		cursors: map[*Cursor[K, V]]struct{}{first: {}}, pages: map[uint64]*page[V]{},
	}
	first.t = t
	s.tails[t], s.byKey[key] = struct{}{}, t
	go t.run(nil)
	if s.sweeping == nil {
		ctx, s.sweeping = context.WithCancel(context.Background()) //nolint:forbidigo // ends with the last tail
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

// Wake checks every log after a reconnect: items published during the disconnect were not
// delivered, and the stream may have been recreated.
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

// retry calls read until it succeeds, for up to Options.Patience while the broker is unavailable.
// If patient is false, an error from Options.Trouble ends it at once.
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

// Retry calls read for a single follower, and retries it for up to Options.Patience while the
// broker is unavailable.
func (s *Set[K, V]) Retry(ctx context.Context, read func(context.Context) error) error {
	return s.retry(ctx, true, read)
}

// read calls read within the limit Options.Reads.
func (s *Set[K, V]) read(ctx context.Context, read func(context.Context) error) error {
	select {
	case s.reads <- struct{}{}:
		defer func() { <-s.reads }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return read(ctx)
}

// sweep checks silent logs in batches until ctx ends.
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
		for batch := range slices.Chunk(s.due(), broker.MaxSubjects) {
			err := s.read(ctx, func(ctx context.Context) error { return s.check(ctx, batch) })
			switch {
			case err == nil:
				failing = time.Time{}
				continue
			case failing.IsZero():
				failing = time.Now()
			}
			if ctx.Err() != nil || broker.Unavailable(err) && time.Since(failing) <= s.opts.Patience {
				break // retry at the next tick
			}
			for _, d := range batch {
				d.t.fail(err)
			}
		}
	}
}

type due[K comparable, V any] struct {
	t       *tail[K, V]
	known   Known[K]
	woken   int
	missing bool
}

// due lists the tails that are due for a check. Those with missing set come first. Within each
// group they are sorted by known sequence, because a check asks for everything above the lowest
// sequence of its batch.
func (s *Set[K, V]) due() []due[K, V] {
	var out []due[K, V]
	now := time.Now()
	s.mu.Lock()
	for t := range s.tails {
		t.mu.Lock()
		last := t.checked
		if t.lastItemAt.After(last) {
			last = t.lastItemAt
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

// found applies the result of a check.
func (t *tail[K, V]) found(d due[K, V], change Change, behind bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checked = time.Now()
	t.woken -= d.woken // a Wake during the check needs another one
	t.checks++
	switch {
	case behind || change.Epoch != 0 && change.Epoch != t.epoch:
		t.wantHead = true
		t.kick()
	case t.seq == d.known.Seq:
		t.seq = max(t.seq, change.Seq)
	}
}
