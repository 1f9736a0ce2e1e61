package tail_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/tail"
)

// fake is a stream with one log, whose item i has position i and value i.
type fake struct {
	mu    sync.Mutex
	last  uint64
	epoch int64
	lost  bool  // items are not delivered
	fails error // the error of every read

	live    func(tail.Item[uint64], error)
	heads   int
	pages   map[uint64]int // reads by position
	checks  int
	checked func() // called after each check, before its answer; may be nil
}

const (
	fakeSize = 100
	fakePage = 10
)

func item(i uint64) tail.Item[uint64] {
	return tail.Item[uint64]{Pos: i, Before: i - 1, Seq: i, Size: fakeSize, Value: i}
}

func (f *fake) store(n int) {
	for range n {
		f.mu.Lock()
		f.last++
		live, it := f.live, item(f.last)
		if f.lost {
			live = nil
		}
		f.mu.Unlock()
		if live != nil {
			live(it, nil)
		}
	}
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) Epoch(context.Context) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.epoch, f.fails
}

func (f *fake) Listen(_ string, live func(tail.Item[uint64], error)) (func(), error) {
	f.set(func() { f.live = live })
	return func() {}, nil
}

func (f *fake) Head(context.Context, string) (tail.Item[uint64], bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heads++
	return item(f.last), f.last > 0 && f.fails == nil, f.fails
}

func (f *fake) Page(ctx context.Context, _ string, after, _ uint64) (out []tail.Item[uint64], err error) {
	_ = broker.Wait(ctx, time.Millisecond) // time for others to ask for the same page
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pages == nil {
		f.pages = map[uint64]int{}
	}
	f.pages[after]++
	for i := after + 1; i <= min(f.last, after+fakePage); i++ {
		out = append(out, item(i))
	}
	return out, f.fails
}

func (f *fake) Behind(_ context.Context, known []tail.Known[string], _ bool) (c tail.Change, err error) {
	defer func() {
		if f.checked != nil {
			f.checked()
		}
	}()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checks++
	for i, k := range known {
		if f.last > k.Seq {
			c.Behind = append(c.Behind, i)
		}
	}
	c.Seq, c.Epoch = f.last, f.epoch
	return c, f.fails
}

// read collects n items, or fewer if an error comes first.
func read(ctx context.Context, c *tail.Cursor[string, uint64], n int) (out []uint64, err error) {
	if _, _, err := c.Started(ctx); err != nil {
		return nil, err
	}
	for len(out) < n {
		items, err := c.Next(ctx)
		for _, it := range items {
			out = append(out, it.Value)
		}
		if err != nil {
			return out, err
		}
		if len(items) > 0 {
			continue
		}
		select {
		case <-c.Signal():
		case <-ctx.Done():
			return out, context.Cause(ctx)
		}
	}
	return out, nil
}

// pass advances the clock of a synctest bubble.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := broker.Wait(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

func upTo(from, to uint64) (out []uint64) {
	for i := from; i <= to; i++ {
		out = append(out, i)
	}
	return out
}

func expect(t *testing.T, c *tail.Cursor[string, uint64], want ...uint64) {
	t.Helper()
	got, err := read(t.Context(), c, len(want))
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("got %v, %v, want %v", got, err, want)
	}
}

// TestAGapIsReadOnce proves that items lost by live delivery are read once for all followers and
// arrive in order.
func TestAGapIsReadOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		s := tail.NewSet(f, tail.Options{})
		var followers []*tail.Cursor[string, uint64]
		for range 5 {
			c := s.Join("k", 0, 0, false)
			defer c.Close()
			expect(t, c)
			followers = append(followers, c)
		}
		f.store(3)
		f.set(func() { f.lost = true })
		f.store(2)
		f.set(func() { f.lost = false })
		f.store(2)
		for _, c := range followers {
			expect(t, c, upTo(1, 7)...)
		}
		if f.heads != 1 || len(f.pages) != 1 || f.pages[3] != 1 || f.checks != 0 {
			t.Errorf("%d heads, pages %v, %d checks", f.heads, f.pages, f.checks)
		}
	})
}

// TestTheLastItemIsFoundAfterASilence proves that a lost last item is found after 10 s of silence,
// or at once after a reconnect, and that no check runs while items arrive.
func TestTheLastItemIsFoundAfterASilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		s := tail.NewSet(f, tail.Options{})
		c := s.Join("k", 0, 0, false)
		defer c.Close()
		for i := range uint64(20) { // longer than Silence
			f.store(1)
			expect(t, c, i+1)
			pass(t, time.Second)
		}
		if f.checks != 0 {
			t.Errorf("%d checks while items came", f.checks)
		}
		f.set(func() { f.lost = true })
		f.store(1)
		lost := time.Now()
		expect(t, c, 21)
		if took := time.Since(lost); took < 8*time.Second || took > 12*time.Second {
			t.Errorf("found after %s", took)
		}
		// A reconnect causes a check at once.
		f.store(1)
		lost = time.Now()
		s.Wake()
		expect(t, c, 22)
		if took := time.Since(lost); took > 100*time.Millisecond {
			t.Errorf("after a reconnect found after %s", took)
		}
	})
}

// TestAReconnectDuringACheck proves that the answer to a check that began before a reconnect does
// not count as the check that follows the reconnect.
func TestAReconnectDuringACheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		s := tail.NewSet(f, tail.Options{})
		c := s.Join("k", 0, 0, false)
		defer c.Close()
		f.store(1)
		expect(t, c, 1)
		f.set(func() { f.lost = true })
		f.checked = sync.OnceFunc(func() {
			f.store(1)
			s.Wake()
		})
		s.Wake()
		began := time.Now()
		expect(t, c, 2)
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("found after %s", took)
		}
	})
}

// TestLateFollowersOfALongLog proves that followers that join at the same time share the pages of a
// log longer than the tail's buffer, and that a slow one that is catching up is not cut off.
func TestLateFollowersOfALongLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const length, late = 1000, 200
		f := &fake{last: length}
		s := tail.NewSet(f, tail.Options{Buffer: 20 * fakeSize})
		var all sync.WaitGroup
		for i := range late {
			c := s.Join("k", 0, 0, false)
			all.Go(func() {
				defer c.Close()
				if i == 0 {
					pass(t, time.Minute)
				}
				got, err := read(t.Context(), c, length+10)
				if err != nil || !slices.Equal(got, upTo(1, length+10)) {
					t.Errorf("got %d items, %v", len(got), err)
				}
			})
		}
		pass(t, time.Second)
		f.store(10)
		all.Wait()
		most := 0
		for _, n := range f.pages {
			most = max(most, n)
		}
		if most > 3 { // the slow follower rereads what is not kept
			t.Errorf("a page was read %d times", most)
		}
		if f.heads != 1 {
			t.Errorf("%d heads", f.heads)
		}
	})
}

func TestAFollowerThatIsBehindIsCutAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		s := tail.NewSet(f, tail.Options{Buffer: 10 * fakeSize})
		slow, quick := s.Join("k", 0, 0, false), s.Join("k", 0, 0, false)
		defer slow.Close()
		defer quick.Close()
		expect(t, slow)
		if _, err := slow.Next(t.Context()); err != nil { // it has caught up
			t.Fatal(err)
		}
		for i := range uint64(11) {
			f.store(1)
			expect(t, quick, i+1)
		}
		if _, err := slow.Next(t.Context()); !errors.Is(err, tail.ErrSlowReader) {
			t.Errorf("the slow one: %v", err)
		}
	})
}

// TestALongItemIsFollowed proves that an item larger than the buffer cuts off no follower that had
// caught up, and reaches later followers.
func TestALongItemIsFollowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		s := tail.NewSet(f, tail.Options{Buffer: fakeSize / 2})
		c := s.Join("k", 0, 0, false)
		defer c.Close()
		expect(t, c)
		for i := range uint64(3) {
			if _, err := c.Next(t.Context()); err != nil { // it has caught up
				t.Fatal(err)
			}
			f.store(1)
			expect(t, c, i+1)
		}
		late := s.Join("k", 0, 0, false)
		defer late.Close()
		started(t, late, 3)
		expect(t, late, 1, 2, 3)
	})
}

// started checks the head of a log.
func started(t *testing.T, c *tail.Cursor[string, uint64], want uint64) {
	t.Helper()
	if head, found, err := c.Started(t.Context()); err != nil || !found || head.Pos != want {
		t.Errorf("the head is %d, found %t, %v; want %d", head.Pos, found, err, want)
	}
}

// TestTheHeadIsThereWithoutABudget proves that a tail keeps its last item if other tails use the
// whole budget.
func TestTheHeadIsThereWithoutABudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		f.store(3)
		s := tail.NewSet(f, tail.Options{Budget: fakeSize})
		for _, key := range []string{"one", "two"} {
			c := s.Join(key, 0, 0, false)
			defer c.Close()
			started(t, c, 3)
			expect(t, c, 1, 2, 3)
			started(t, c, 3)
		}
		if held := s.Held(); held != 2*fakeSize {
			t.Errorf("%d bytes are held, want a head for each", held)
		}
	})
}

// slowHead is a fake whose Head blocks until the test answers.
type slowHead struct {
	fake
	asked, answer chan struct{}
}

func (s *slowHead) Head(ctx context.Context, key string) (tail.Item[uint64], bool, error) {
	close(s.asked)
	<-s.answer
	return s.fake.Head(ctx, key)
}

// TestNothingIsHeldOfALogThatIsLeft proves that a tail closed during its head read keeps nothing.
func TestNothingIsHeldOfALogThatIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &slowHead{fake{last: 1}, make(chan struct{}), make(chan struct{})}
		s := tail.NewSet(f, tail.Options{})
		c := s.Join("k", 0, 0, false)
		<-f.asked
		c.Close()
		close(f.answer)
		synctest.Wait()
		if held := s.Held(); held != 0 {
			t.Errorf("%d bytes are held without a follower", held)
		}
	})
}

// TestTheBudgetIsKept proves that all tails together stay within their budget and that late
// followers still get every item.
func TestTheBudgetIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		s := tail.NewSet(f, tail.Options{Budget: 5 * fakeSize})
		c := s.Join("k", 0, 0, false)
		defer c.Close()
		for i := range uint64(50) {
			f.store(1)
			expect(t, c, i+1)
		}
		if held := s.Held(); held > 5*fakeSize {
			t.Errorf("%d bytes are held", held)
		}
		late := s.Join("k", 0, 0, false)
		expect(t, late, upTo(1, 50)...)
		late.Close()
		c.Close()
		if held := s.Held(); held != 0 {
			t.Errorf("%d bytes are held without a follower", held)
		}
	})
}

// TestFailedReadsAreTriedAgain proves that failed reads are retried for 30 s, for existing and for
// new followers.
func TestFailedReadsAreTriedAgain(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{20 * time.Second, time.Minute} {
		t.Run(fmt.Sprint(away), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fake{}
				s := tail.NewSet(f, tail.Options{Silence: time.Second})
				c := s.Join("k", 0, 0, false)
				defer c.Close()
				expect(t, c)
				f.set(func() { f.lost, f.fails = true, fmt.Errorf("no leader: %w", broker.ErrUnavailable) })
				f.store(1)
				time.AfterFunc(away, func() { f.set(func() { f.fails = nil }) })
				late := s.Join("other", 0, 0, false)
				defer late.Close()
				for _, follower := range []*tail.Cursor[string, uint64]{c, late} {
					got, err := read(t.Context(), follower, 1)
					if away > 30*time.Second {
						if !errors.Is(err, broker.ErrUnavailable) {
							t.Errorf("got %v, %v", got, err)
						}
					} else if err != nil || !slices.Equal(got, upTo(1, 1)) {
						t.Errorf("got %v, %v", got, err)
					}
				}
			})
		})
	}
}

func TestKnownTroubleIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{fails: broker.ErrUnavailable}
		s := tail.NewSet(f, tail.Options{Trouble: func() error { return broker.ErrUnavailable }})
		c := s.Join("k", 0, 0, false)
		defer c.Close()
		begin := time.Now()
		if _, _, err := c.Started(t.Context()); !errors.Is(err, broker.ErrUnavailable) || time.Since(begin) > 0 {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}

// TestANewStreamIsReadFromItsStart proves that a recreated stream is followed from its first
// position.
func TestANewStreamIsReadFromItsStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{epoch: 1}
		s := tail.NewSet(f, tail.Options{})
		c := s.Join("k", 1, 0, false)
		defer c.Close()
		f.store(5)
		expect(t, c, upTo(1, 5)...)
		f.set(func() { f.epoch, f.last = 2, 0 })
		f.store(3)
		expect(t, c, upTo(1, 3)...)
		if c.Epoch() != 2 {
			t.Errorf("epoch %d", c.Epoch())
		}
		f.store(1)
		expect(t, c, 4)
	})
}

// hub is a fake whose stop waits for a lock that deliveries hold.
type hub struct {
	fake
	lock      sync.RWMutex
	listening chan struct{} // Listen has begun
	closed    chan struct{} // lets Listen return
	stopping  chan struct{} // stop was called
}

func (h *hub) Listen(key string, live func(tail.Item[uint64], error)) (func(), error) {
	_, err := h.fake.Listen(key, live)
	close(h.listening)
	<-h.closed
	return func() {
		close(h.stopping)
		h.lock.Lock()
		defer h.lock.Unlock()
		h.set(func() { h.live = nil })
	}, err
}

// TestATailThatClosesWhileItBeginsToListen proves that stopping the subscription of a closed tail
// does not deadlock with a delivery.
func TestATailThatClosesWhileItBeginsToListen(t *testing.T) {
	t.Parallel()
	h := &hub{listening: make(chan struct{}), closed: make(chan struct{}), stopping: make(chan struct{})}
	c := tail.NewSet(h, tail.Options{}).Join("k", 0, 0, false)
	<-h.listening
	c.Close()
	delivered := make(chan struct{})
	h.lock.RLock()
	go func() {
		defer close(delivered)
		defer h.lock.RUnlock()
		<-h.stopping
		h.store(1)
	}()
	close(h.closed)
	select { // a bubble cannot tell waiting for a lock from work
	case <-delivered:
	case <-time.After(time.Minute):
		t.Fatal("the delivery and the end of the subscription wait for each other")
	}
	h.lock.Lock() // wait for stop to end
	defer h.lock.Unlock()
}

// makings is a fake whose pages differ by epoch: item i of epoch e has the value 1000*e + i. A page
// of an epoch returns once the gate of that epoch opens.
type makings struct {
	fake
	gates map[int64]chan struct{}
}

func (m *makings) Page(ctx context.Context, key string, after, seq uint64) ([]tail.Item[uint64], error) {
	epoch, _ := m.Epoch(ctx)
	items, err := m.fake.Page(ctx, key, after, seq)
	for i := range items {
		items[i].Value += 1000 * uint64(epoch)
	}
	<-m.gates[epoch]
	return items, err
}

// TestAPageOfTheOldStreamIsNotShared proves that followers of a recreated stream share a new page
// and not the old stream's.
func TestAPageOfTheOldStreamIsNotShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &makings{fake: fake{epoch: 1, last: 30}, gates: map[int64]chan struct{}{1: make(chan struct{}), 2: make(chan struct{})}}
		s := tail.NewSet(m, tail.Options{})
		var all sync.WaitGroup
		follow := func(epoch int64) {
			c := s.Join("k", epoch, 0, false)
			if _, _, err := c.Started(t.Context()); err != nil {
				t.Error(err)
			}
			all.Go(func() {
				defer c.Close()
				if got, err := c.Next(t.Context()); err != nil || len(got) == 0 || got[0].Value != uint64(1000*epoch+1) {
					t.Errorf("a follower of making %d got %v, %v", epoch, got, err)
				}
			})
			pass(t, 10*time.Millisecond) // its page is being read
		}
		follow(1)
		m.set(func() { m.epoch, m.last = 2, 20 })
		follow(2)
		close(m.gates[1])
		synctest.Wait()
		follow(2)
		close(m.gates[2])
		all.Wait()
		if m.pages[0] != 2 {
			t.Errorf("the first page was read %d times", m.pages[0])
		}
	})
}

// deaf is a fake without live delivery: its tails fail as soon as they start.
type deaf struct{ fake }

var errDeaf = errors.New("no live delivery")

func (*deaf) Listen(string, func(tail.Item[uint64], error)) (func(), error) { return nil, errDeaf }

// TestATailThatFailsAtOnceHasItsFollower proves that the first follower of a tail gets its error,
// however soon the tail fails.
func TestATailThatFailsAtOnceHasItsFollower(t *testing.T) {
	t.Parallel()
	set := tail.NewSet[string, uint64](&deaf{}, tail.Options{Trouble: func() error { return nil }})
	var followers sync.WaitGroup
	for range 16 {
		followers.Go(func() {
			for range 500 {
				c := set.Join("log", 0, 0, false)
				if _, _, err := c.Started(t.Context()); !errors.Is(err, errDeaf) {
					t.Errorf("started with %v", err)
				}
				c.Close()
			}
		})
	}
	followers.Wait()
}
