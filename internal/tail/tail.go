// Package tail shares one subscription and one read of the stream among all followers of a job's
// log. A Source knows how a log is encoded and stored.
//
// The first follower of a log creates its tail, and the last one closes it. A tail reads the stream
// at its start, after a gap, on Sync, and if a sweep finds after a silence or a reconnect that it
// missed something. It keeps recent items for later followers, within Options.Buffer and
// Options.Budget. Followers read older items from the stream, and share the pages.
package tail

import (
	"context"
	"errors"
	"slices"
	"sort"
	"sync"
	"time"
)

// ErrSlowReader reports that a follower fell too far behind and was cut off.
var ErrSlowReader = errors.New("the reader was too far behind")

// Item is one message of a log. Followers share items and must not change them.
type Item[V any] struct {
	// Pos is the position in the log, at least 1. Positions increase and may skip numbers.
	Pos uint64
	// Before is the position of the previous item, or any position between the two. It is Pos-1 if
	// the previous item is unknown.
	Before uint64
	// Seq is the stream sequence.
	Seq uint64
	// Size is the number of bytes that the item counts in buffers.
	Size int
	// Final marks the last item of the log.
	Final bool
	Value V
}

// Source reads the logs of a Set.
type Source[K comparable, V any] interface {
	// Epoch identifies the incarnation of the stream: positions restart when the stream is
	// recreated. 0 means unknown. The answer may be a second old.
	Epoch(ctx context.Context) (int64, error)
	// Listen calls live for each item stored from now on, in order, until stop is called. An error
	// passed to live reports a message that could not be used. live does not block.
	Listen(key K, live func(Item[V], error)) (stop func(), err error)
	// Head reads the last item from the leader. It returns false for an empty log.
	Head(ctx context.Context, key K) (Item[V], bool, error)
	// Page reads the first items after a position, without a gap. An empty page means that the log
	// has no more. The caller knows that none of these items has a stream sequence up to seq.
	Page(ctx context.Context, key K, after, seq uint64) ([]Item[V], error)
	// Behind returns the indexes of the logs that may have items above their known sequence. If
	// missing is set, they include removed logs.
	Behind(ctx context.Context, known []Known[K], missing bool) (Change, error)
}

// Known is a log and the stream sequence up to which its tail is complete.
type Known[K comparable] struct {
	Key K
	Seq uint64
}

// Change is the result of Source.Behind.
type Change struct {
	Behind []int
	// Seq is the sequence up to which the other logs are complete.
	Seq   uint64
	Epoch int64
}

// tail is one followed log. Callers of its methods must not hold mu unless a comment says so.
type tail[K comparable, V any] struct {
	set    *Set[K, V]
	key    K
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	cursors map[*Cursor[K, V]]struct{}
	closed  bool
	err     error         // why the tail failed
	changed chan struct{} // closed and replaced whenever await may have to check again

	// items holds all items after position base, up to last.
	items      []Item[V]
	base, last uint64
	epoch      int64
	seq        uint64 // the tail is complete up to this stream sequence
	bytes      int    // size of items
	total      int64  // size of all items ever appended
	final      bool

	// pending holds live items that follow a gap.
	pending      []Item[V]
	pendingBytes int

	started  bool
	reading  bool   // run is active
	wantHead bool   // ask the leader for the last item
	suspect  bool   // the stream may have been recreated
	heads    uint64 // number of head reads started
	headDone uint64 // number of the latest head read that finished
	pages    map[uint64]*page[V]

	lastItemAt time.Time // time of the latest item
	checked    time.Time // time of the latest check by a sweep, or of the latest head read
	checks     int
	woken      int // calls of Wake since the latest check
}

// page is a part of the log before tail.items, while it is read.
type page[V any] struct {
	done  chan struct{}
	items []Item[V]
	upTo  uint64 // items holds everything up to this position
	err   error
}

// run executes the steps of next until there are none or one fails. A nil stop makes it subscribe
// first.
func (t *tail[K, V]) run(stop func()) {
	var err error
	if stop == nil {
		if stop, err = t.set.source.Listen(t.key, t.live); err == nil {
			// AfterFunc calls stop without the lock: stop may wait for a delivery that needs it.
			context.AfterFunc(t.ctx, stop)
		}
	}
	for err == nil {
		step := t.next()
		if step == nil {
			return
		}
		err = t.set.retry(t.ctx, t.patient(), func(ctx context.Context) error { return t.set.read(ctx, step) })
	}
	t.fail(err)
}

// patient reports whether failed reads are retried even if Options.Trouble returns an error. They
// are once the tail has started. Before that, the first follower's caller is waiting for an answer.
func (t *tail[K, V]) patient() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.started
}

// next returns the next read, or nil to end run.
func (t *tail[K, V]) next() func(context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.err != nil || t.closed:
	case !t.started || t.wantHead:
		return t.readHead
	case len(t.pending) > 0:
		return t.readGap
	case t.suspect:
		return t.readEpoch
	}
	t.reading = false
	return nil
}

// kick starts run if it is not active. Callers hold mu.
func (t *tail[K, V]) kick() {
	if !t.reading && t.started && t.err == nil && !t.closed && !t.final {
		t.reading = true
		go t.run(func() {})
	}
}

func (t *tail[K, V]) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
	t.reading = false
	t.announce()
	for c := range t.cursors {
		c.ring()
	}
}

// announce wakes await. Callers hold mu.
func (t *tail[K, V]) announce() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// readHead reads the last item from the leader, and everything missing before it.
func (t *tail[K, V]) readHead(ctx context.Context) error {
	t.mu.Lock()
	t.heads++
	ticket := t.heads
	t.wantHead = false
	t.mu.Unlock()
	err := t.toHead(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.wantHead = true // callers of Sync wait for the next try
		return err
	}
	t.admit()
	t.headDone = ticket
	t.checked = time.Now()
	t.announce()
	return nil
}

func (t *tail[K, V]) toHead(ctx context.Context) error {
	epoch, err := t.set.source.Epoch(ctx)
	if err != nil {
		return err
	}
	t.renew(epoch)
	head, found, err := t.set.source.Head(ctx, t.key)
	if err != nil {
		return err
	}
	if t.begin(head, found) || !found {
		return nil
	}
	return t.readTo(ctx, head)
}

// renew restarts the log if its stream was recreated.
func (t *tail[K, V]) renew(epoch int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.suspect = false
	if epoch != 0 && epoch != t.epoch {
		t.epoch = epoch
		t.restart()
	}
}

// restart drops the log, which run then reads again from its head. Waiting items go too: they may
// belong to the old stream. Callers hold mu.
func (t *tail[K, V]) restart() {
	if !t.started {
		return
	}
	t.drop(len(t.items))
	t.base, t.last, t.seq, t.started = 0, 0, 0, false
	t.pending, t.pendingBytes = nil, 0
	t.pages = map[uint64]*page[V]{}
	t.wantHead = true
}

// begin starts the log at its head, or returns false if it has started. Older items are read on
// demand.
func (t *tail[K, V]) begin(head Item[V], found bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.started {
		return false
	}
	t.started = true
	if found {
		t.base, t.last = head.Pos-1, head.Pos-1
		t.append(head)
	}
	for c := range t.cursors {
		c.ring()
	}
	return true
}

// readGap fills the gap before the first pending item.
func (t *tail[K, V]) readGap(ctx context.Context) error {
	if err := t.readEpoch(ctx); err != nil {
		return err
	}
	first, found := t.oldest()
	if !found {
		return nil
	}
	if err := t.readTo(ctx, first); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// If the item still waits, it is gone from the stream.
	if t.admit(); len(t.pending) > 0 && t.pending[0].Pos == first.Pos {
		t.pop()
	}
	return nil
}

func (t *tail[K, V]) oldest() (first Item[V], found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.admit(); len(t.pending) == 0 {
		return first, false
	}
	return t.pending[0], true
}

func (t *tail[K, V]) readEpoch(ctx context.Context) error {
	epoch, err := t.set.source.Epoch(ctx)
	if err == nil {
		t.renew(epoch)
	}
	return err
}

// readTo appends the items of the log up to and including to.
func (t *tail[K, V]) readTo(ctx context.Context, to Item[V]) error {
	for {
		after, seq, there := t.reach(to)
		if there {
			return nil
		}
		items, err := t.set.source.Page(ctx, t.key, after, seq)
		if err != nil {
			return err
		}
		t.extend(items)
		if len(items) == 0 {
			return nil // to is gone too, or belongs to another stream
		}
	}
}

// reach appends an item if nothing is missing before it. Otherwise it returns where to read on.
func (t *tail[K, V]) reach(to Item[V]) (after, seq uint64, there bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if there = to.Before <= t.last; there {
		t.take(to)
	}
	return t.last, t.seq, there
}

// extend appends items read from the stream.
func (t *tail[K, V]) extend(items []Item[V]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.cursors {
		c.live = false // the read fills its buffer at once, which must not cut it off
	}
	for _, item := range items {
		t.take(item)
	}
}

// live handles an item from the subscription, or the error of an unusable message.
func (t *tail[K, V]) live(item Item[V], err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil || t.closed || t.final {
		return
	}
	switch {
	case err != nil:
		t.wantHead = true
	case t.started && item.Pos <= t.last:
		t.suspect = true // or a read returned the item before its delivery
	case t.started && item.Before <= t.last && len(t.pending) == 0:
		t.append(item)
		return
	default:
		t.wait(item)
	}
	t.kick()
}

// wait keeps an item that follows a gap. Callers hold mu.
func (t *tail[K, V]) wait(item Item[V]) {
	t.pending = append(t.pending, item)
	if t.pendingBytes += item.Size; t.pendingBytes > t.set.opts.Buffer {
		// The head read gets these items from the stream.
		t.pending, t.pendingBytes, t.wantHead = nil, 0, true
	}
}

// admit appends the pending items that no longer follow a gap. Callers hold mu.
func (t *tail[K, V]) admit() {
	for len(t.pending) > 0 && t.pending[0].Before <= t.last {
		t.take(t.pop())
	}
}

// pop removes and returns the first pending item. Callers hold mu.
func (t *tail[K, V]) pop() Item[V] {
	first := t.pending[0]
	t.pending = t.pending[1:]
	t.pendingBytes -= first.Size
	return first
}

// take appends an item unless the log has it already or has ended. Callers hold mu.
func (t *tail[K, V]) take(item Item[V]) {
	if item.Pos > t.last && !t.final {
		t.append(item)
	}
}

// append appends an item, and cuts off live cursors that are now too far behind. Callers hold mu.
func (t *tail[K, V]) append(item Item[V]) {
	t.last, t.seq, t.final = item.Pos, max(t.seq, item.Seq), item.Final
	if t.closed { // the last follower left during the read
		return
	}
	size := int64(item.Size)
	for c := range t.cursors {
		// A single item may exceed the buffer, or its log could never be followed.
		if behind := t.total - c.taken; c.live && behind > 0 && behind+size > int64(t.set.opts.Buffer) {
			c.live, c.cut = false, true
		}
		c.ring()
	}
	t.items = append(t.items, item)
	t.bytes += item.Size
	t.total += size
	t.set.held.Add(size)
	t.lastItemAt = time.Now()
	t.trim()
}

// trim drops the oldest items above Options.Buffer, or above Options.Budget over all tails. It
// keeps the last item, which Started returns, and the items that live cursors have yet to copy.
// Callers hold mu.
func (t *tail[K, V]) trim() {
	spare := max(int64(t.bytes-t.set.opts.Buffer), t.set.held.Load()-t.set.opts.Budget)
	if spare <= 0 {
		return
	}
	need := int64(0)
	for c := range t.cursors {
		if c.live {
			need = max(need, t.total-c.taken)
		}
	}
	n, size := 0, int64(0)
	for ; n < len(t.items)-1 && size < spare && int64(t.bytes)-size-int64(t.items[n].Size) >= need; n++ {
		size += int64(t.items[n].Size)
	}
	t.drop(n)
}

// drop removes the n oldest items. Callers hold mu.
func (t *tail[K, V]) drop(n int) {
	if n == 0 {
		return
	}
	size := 0
	for _, item := range t.items[:n] {
		size += item.Size
	}
	t.base = t.items[n-1].Pos
	clear(t.items[:n])
	t.items = t.items[n:]
	t.bytes -= size
	t.set.held.Add(-int64(size))
}

// older returns the page after a position, which concurrent callers share. Callers hold mu, which
// older unlocks.
func (t *tail[K, V]) older(ctx context.Context, after uint64) (*page[V], error) {
	p := t.pages[after]
	if p == nil {
		p = &page[V]{done: make(chan struct{})}
		t.pages[after] = p
		go t.load(p, after, t.base, t.epoch)
	}
	t.mu.Unlock()
	select {
	case <-p.done:
		return p, p.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// load reads a page, up to the position base at which the tail's items begin.
func (t *tail[K, V]) load(p *page[V], after, base uint64, epoch int64) {
	read := func(ctx context.Context) (err error) {
		p.items, err = t.set.source.Page(ctx, t.key, after, 0)
		return err
	}
	err := t.set.retry(t.ctx, true, func(ctx context.Context) error { return t.set.read(ctx, read) })
	t.mu.Lock()
	defer t.mu.Unlock()
	defer close(p.done)
	if t.pages[after] == p { // a restart may have replaced it
		delete(t.pages, after)
	}
	if p.err = err; err != nil {
		return
	}
	end := sort.Search(len(p.items), func(i int) bool { return p.items[i].Pos > base })
	if p.upTo = base; end == len(p.items) && end > 0 {
		p.upTo = p.items[end-1].Pos
	}
	p.items = p.items[:end]
	t.keep(p, after, epoch)
}

// keep prepends a page that ends where the items begin, if the limits allow it. Callers hold mu.
func (t *tail[K, V]) keep(p *page[V], after uint64, epoch int64) {
	size := 0
	for _, item := range p.items {
		size += item.Size
	}
	if t.closed || epoch != t.epoch || p.upTo != t.base || t.bytes+size > t.set.opts.Buffer || t.set.held.Load()+int64(size) > t.set.opts.Budget {
		return
	}
	t.items = slices.Concat(p.items, t.items)
	t.base = after
	t.bytes += size
	t.set.held.Add(int64(size))
}

// remove removes a follower. It closes the tail after the last one.
func (t *tail[K, V]) remove(c *Cursor[K, V]) (last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.cursors, c)
	if len(t.cursors) > 0 || t.closed {
		return false
	}
	t.closed = true
	t.drop(len(t.items))
	t.pending = nil
	t.cancel()
	return true
}
