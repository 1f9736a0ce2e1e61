// Package tail lets any number of followers read one growing log of a job with one
// subscription and one reading of its stream between them. It knows neither what a log
// holds nor where it is stored: a Source does.
//
// The first follower of a log makes its tail, and the last one takes it along. A tail
// listens to what is stored, and reads the stream when it begins, after a gap, when asked
// to (Sync), and where a Sweep finds that it missed something: after a silence or a
// reconnect. What it has is kept for those who come later, up to the length of one
// follower's buffer, and as long as all tails together keep to their budget; the last item
// is kept in any case. A follower copies from there; what is older it reads from the
// stream, page by page, and those who want the same page share it.
package tail

import (
	"context"
	"errors"
	"slices"
	"sort"
	"sync"
	"time"
)

// ErrSlowReader says that a follower did not keep up, and was cut.
var ErrSlowReader = errors.New("the reader was too far behind")

// Item is one message of a log. Followers share it, and do not change it.
type Item[V any] struct {
	// Pos is its place in the log, above 0. Places rise, and may leave numbers out.
	Pos uint64
	// Before is the place of the one before it, or any between the two: one less than Pos
	// where the one before is not known.
	Before uint64
	// Seq is its sequence in the stream.
	Seq uint64
	// Size is what it counts for in buffers, in bytes.
	Size int
	// Final says that nothing comes after it.
	Final bool
	Value V
}

// Source reads the logs of a Set.
type Source[K comparable, V any] interface {
	// Epoch tells one making of the stream from another one, whose places begin again;
	// 0: there is no telling now. It may be a second old.
	Epoch(ctx context.Context) (int64, error)
	// Listen hands over what is stored from now on, in order, until stop. An error says
	// that something came which cannot be used. live does not block.
	Listen(key K, live func(Item[V], error)) (stop func(), err error)
	// Head reads the last item, from the leader; false: there is none.
	Head(ctx context.Context, key K) (Item[V], bool, error)
	// Page reads the first items behind a place, without a gap; none: there are none.
	// seq is a sequence up to which the stream has none of them.
	Page(ctx context.Context, key K, after, seq uint64) ([]Item[V], error)
	// Behind returns the logs, by index, of which it cannot say that nothing is stored
	// above what is known of them; with missing, also those that are gone.
	Behind(ctx context.Context, known []Known[K], missing bool) (Change, error)
}

// Known is a log, and the sequence up to which its tail has the stream.
type Known[K comparable] struct {
	Key K
	Seq uint64
}

// Change is what a Source knows of many logs.
type Change struct {
	Behind []int
	// Seq is the sequence up to which the others have nothing else.
	Seq   uint64
	Epoch int64
}

// tail is one log that is followed. Its methods need no lock unless they say so.
type tail[K comparable, V any] struct {
	set    *Set[K, V]
	key    K
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	cursors map[*Cursor[K, V]]struct{}
	closed  bool
	err     error         // why it can be read no more
	changed chan struct{} // is closed, and made again, when what Started and Sync wait for happens

	// items is what the log has between base and last: all of it.
	items      []Item[V]
	base, last uint64
	epoch      int64
	seq        uint64 // the sequence up to which the tail has all that the stream has for it
	bytes      int    // of items
	total      int64  // of all items that were ever appended
	final      bool

	// waiting came while something before it is missing.
	waiting      []Item[V]
	waitingBytes int

	started  bool
	reading  bool   // whether run is
	wantHead bool   // the leader is to be asked for the last item
	suspect  bool   // the stream may be another one
	heads    uint64 // readings of the head that have begun
	headDone uint64 // the last one that is through
	pages    map[uint64]*page[V]

	heard   time.Time // when something came last
	checked time.Time // when a sweep last found that nothing was missed
	checks  int
	woken   int // calls of Wake that no sweep has answered: the next one checks it in any case
}

// page is a part of the log that is older than items, while it is read.
type page[V any] struct {
	done  chan struct{}
	items []Item[V]
	upTo  uint64 // the log has nothing else up to here
	err   error
}

// run reads what is wanted, and ends when nothing is.
func (t *tail[K, V]) run(stop func()) {
	var err error
	if stop == nil {
		if stop, err = t.set.source.Listen(t.key, t.live); err == nil {
			context.AfterFunc(t.ctx, stop) // without the lock, which a delivery that stop waits for may want
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

// patient says whether failed reads are tried again although there is known trouble: for
// those who follow already, and not for one who has just come and has a caller to answer.
func (t *tail[K, V]) patient() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.started
}

// next is what is to be read; nil: nothing, and run ends.
func (t *tail[K, V]) next() func(context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.err != nil || t.closed:
	case !t.started || t.wantHead:
		return t.readHead
	case len(t.waiting) > 0:
		return t.readGap
	case t.suspect:
		return t.readEpoch
	}
	t.reading = false
	return nil
}

// kick needs the lock.
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

// announce needs the lock.
func (t *tail[K, V]) announce() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// readHead asks the leader for the last item, and reads what is missing before it.
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
		t.wantHead = true // those who asked wait for the next try
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

// renew begins the log again when its stream was recreated.
func (t *tail[K, V]) renew(epoch int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.suspect = false
	if epoch != 0 && epoch != t.epoch {
		t.epoch = epoch
		t.restart()
	}
}

// restart forgets the log, which is read from its head again. What waits may be of the
// old stream; what comes from now on waits for the head. It needs the lock.
func (t *tail[K, V]) restart() {
	if !t.started {
		return
	}
	t.drop(len(t.items))
	t.base, t.last, t.seq, t.started = 0, 0, 0, false
	t.waiting, t.waitingBytes = nil, 0
	t.pages = map[uint64]*page[V]{}
	t.wantHead = true
}

// begin takes the head of a log that was not read yet. What is older is read by those who
// want it.
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

// readGap reads what is missing before the first item that waits.
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
	// What still waits first is gone from the stream.
	if t.admit(); len(t.waiting) > 0 && t.waiting[0].Pos == first.Pos {
		t.pop()
	}
	return nil
}

// oldest is the first item that waits.
func (t *tail[K, V]) oldest() (first Item[V], found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.admit(); len(t.waiting) == 0 {
		return first, false
	}
	return t.waiting[0], true
}

func (t *tail[K, V]) readEpoch(ctx context.Context) error {
	epoch, err := t.set.source.Epoch(ctx)
	if err == nil {
		t.renew(epoch)
	}
	return err
}

// readTo appends what the log has up to an item, and the item.
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
			return nil // the item itself is gone too, or was never of this stream
		}
	}
}

// reach appends an item if nothing is missing before it, and says where to read otherwise.
func (t *tail[K, V]) reach(to Item[V]) (after, seq uint64, there bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if there = to.Before <= t.last; there {
		t.take(to)
	}
	return t.last, t.seq, there
}

// extend appends items that were read.
func (t *tail[K, V]) extend(items []Item[V]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.cursors {
		c.live = false // its buffer fills through no fault of its own
	}
	for _, item := range items {
		t.take(item)
	}
}

// live takes what was stored just now.
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
		t.suspect = true // or was read just before it came
	case t.started && item.Before <= t.last && len(t.waiting) == 0:
		t.append(item)
		return
	default:
		t.wait(item)
	}
	t.kick()
}

// wait needs the lock.
func (t *tail[K, V]) wait(item Item[V]) {
	t.waiting = append(t.waiting, item)
	if t.waitingBytes += item.Size; t.waitingBytes > t.set.opts.Buffer {
		// The stream has it.
		t.waiting, t.waitingBytes, t.wantHead = nil, 0, true
	}
}

// admit appends what waits for nothing any more. It needs the lock.
func (t *tail[K, V]) admit() {
	for len(t.waiting) > 0 && t.waiting[0].Before <= t.last {
		t.take(t.pop())
	}
}

// pop needs the lock.
func (t *tail[K, V]) pop() Item[V] {
	first := t.waiting[0]
	t.waiting = t.waiting[1:]
	t.waitingBytes -= first.Size
	return first
}

// take appends an item unless it is there already. It needs the lock.
func (t *tail[K, V]) take(item Item[V]) {
	if item.Pos > t.last && !t.final {
		t.append(item)
	}
}

// append needs the lock.
func (t *tail[K, V]) append(item Item[V]) {
	t.last, t.seq, t.final = item.Pos, max(t.seq, item.Seq), item.Final
	if t.closed { // its last follower has left while the item was read
		return
	}
	size := int64(item.Size)
	for c := range t.cursors {
		// One item may wait however long it is, or it could never be followed.
		if behind := t.total - c.taken; c.live && behind > 0 && behind+size > int64(t.set.opts.Buffer) {
			c.live, c.cut = false, true
		}
		c.ring()
	}
	t.items = append(t.items, item)
	t.bytes += item.Size
	t.total += size
	t.set.held.Add(size)
	t.heard = time.Now()
	t.trim()
}

// trim drops the oldest items: a tail keeps as much as one follower may be behind, and
// where all tails keep too much, what its own slowest follower is behind. The last item
// stays: Started gives it. It needs the lock.
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

// drop drops the n oldest items. It needs the lock.
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

// older reads the page behind a place, which those who want it share. It is called with
// the lock, and returns without.
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

// load reads a page up to where the items begin.
func (t *tail[K, V]) load(p *page[V], after, base uint64, epoch int64) {
	read := func(ctx context.Context) (err error) {
		p.items, err = t.set.source.Page(ctx, t.key, after, 0)
		return err
	}
	err := t.set.retry(t.ctx, true, func(ctx context.Context) error { return t.set.read(ctx, read) })
	t.mu.Lock()
	defer t.mu.Unlock()
	defer close(p.done)
	if t.pages[after] == p { // and not a page of another stream
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

// keep puts a page before the items that it ends at, while there is room. It needs the
// lock.
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

// leave takes a follower away; the last one takes the tail along.
func (t *tail[K, V]) leave(c *Cursor[K, V]) (last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.cursors, c)
	if len(t.cursors) > 0 || t.closed {
		return false
	}
	t.closed = true
	t.drop(len(t.items))
	t.waiting = nil
	t.cancel()
	return true
}
