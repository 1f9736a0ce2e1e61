package joblog

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// tank is a log of which only the figures are kept.
type tank struct {
	takes time.Duration // what a read takes
	mu    sync.Mutex
	room  Figures
	reads int
}

func (k *tank) read(ctx context.Context) (Figures, error) {
	if k.takes > 0 {
		select {
		case <-time.After(k.takes):
		case <-ctx.Done():
			return Figures{}, context.Cause(ctx)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads++
	return k.room, nil
}

// fleet is the capacities of some replicas whose figures never grow old: they read again
// when their credit is used up, and only then.
func fleet(k *tank, replicas int) []*reservations {
	at := time.Unix(1, 0)
	out := make([]*reservations, replicas)
	for i := range out {
		out[i] = &reservations{read: k.read, now: func() time.Time { return at }}
	}
	return out
}

// TestStaleFiguresHardlyExceedALimit: the replicas read when the log is empty, and do not
// see each other before their credit is used up; one after the other fills the log alone.
func TestStaleFiguresHardlyExceedALimit(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	for _, p := range []purpose{toAdmit, toSpare, toSubmit} {
		k := &tank{room: Figures{Max: size}}
		replicas := fleet(k, 8)
		for _, c := range replicas {
			if _, _, err := c.take(t.Context(), p, 0); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range replicas {
			for {
				bytes := int64(1 + rand.IntN(20<<10))
				_, release, err := c.take(t.Context(), p, bytes)
				if errors.Is(err, errNoCapacity) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				k.room.Used += bytes
				release()
			}
		}
		over := -k.room.left(p)
		if limit := int64(7 * size / creditShare); over > limit {
			t.Errorf("purpose %d: %d bytes beyond the limit, want at most %d", p, over, limit)
		}
		if over < -100<<10 {
			t.Errorf("purpose %d: %d bytes are not used", p, -over)
		}
	}
}

// TestReplicasThatAskAtOnceShareTheLog: callers of eight replicas at the same time.
func TestReplicasThatAskAtOnceShareTheLog(t *testing.T) {
	t.Parallel()
	const size, life = 16 << 20, 10 << 10
	k := &tank{room: Figures{Max: size}}
	var group sync.WaitGroup
	for _, c := range fleet(k, 8) {
		for range 32 {
			group.Go(func() {
				for {
					_, release, err := c.take(t.Context(), toAdmit, life)
					if err != nil {
						if !errors.Is(err, errNoCapacity) {
							t.Error(err)
						}
						return
					}
					k.mu.Lock()
					k.room.Reserved += life
					k.mu.Unlock()
					release()
				}
			})
		}
	}
	group.Wait()
	if over := -k.room.left(toAdmit); over > 7*size/creditShare+8*life || over < -8*life {
		t.Errorf("%d bytes beyond the limit", over)
	}
}

// TestWhatIsInHandIsNotForgotten: what was granted and is not stored yet counts in addition to every
// figure that is read meanwhile, and no longer than until it is stored.
func TestWhatIsInHandIsNotForgotten(t *testing.T) {
	t.Parallel()
	const size, life = 1 << 20, 10 << 10
	k, now := &tank{room: Figures{Max: size}}, time.Unix(1, 0)
	c := &reservations{read: k.read, now: func() time.Time { return now }}
	fill := func() (inHand []Release) {
		for {
			_, release, err := c.take(t.Context(), toAdmit, life)
			if errors.Is(err, errNoCapacity) || len(inHand) > size/life {
				return inHand
			}
			if err != nil {
				t.Fatal(err)
			}
			inHand = append(inHand, release)
			now = now.Add(2 * countsFresh)
		}
	}
	want := int(k.room.AdmitLimit() / life)
	inHand := fill()
	if len(inHand) != want {
		t.Errorf("%d jobs are in hand, and there is room for %d", len(inHand), want)
	}
	for _, release := range inHand[:want/2] {
		k.room.Reserved += life
		release()
	}
	for _, release := range inHand[want/2:] { // they were not stored
		release()
	}
	now = now.Add(2 * countsFresh)
	if again := fill(); len(again) != want-want/2 {
		t.Errorf("%d jobs were admitted then, and there was room for %d", len(again), want-want/2)
	}
}

// TestFarFromTheLimitTheFiguresAreReadOnceASecond, whatever is asked for.
func TestFarFromTheLimitTheFiguresAreReadOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &tank{room: Figures{Max: 4 << 30}}
		now := time.Unix(1, 0)
		c := &reservations{read: k.read, now: func() time.Time { return now }}
		for range 4 {
			for range 100 {
				if _, _, err := c.take(t.Context(), toAdmit, 12<<10); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait() // the read has ended
			now = now.Add(1001 * time.Millisecond)
		}
		if k.reads != 4 {
			t.Errorf("%d reads in four seconds", k.reads)
		}
	})
}

// TestWithoutTheBrokerTheCreditIsLeft: a read that fails refuses no caller before the credit of
// the last one is used up, and every caller then.
func TestWithoutTheBrokerTheCreditIsLeft(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	reads, now := 0, time.Unix(1, 0)
	c := &reservations{now: func() time.Time { return now }, read: func(context.Context) (Figures, error) {
		if reads++; reads > 1 {
			return Figures{}, away
		}
		return Figures{Max: creditShare * 10_000}, nil
	}}
	taken := int64(0)
	for {
		now = now.Add(time.Hour)
		if _, _, err := c.take(t.Context(), toAdmit, 100); err != nil {
			if !errors.Is(err, away) {
				t.Error(err)
			}
			break
		}
		taken += 100
	}
	if taken != 8_000 {
		t.Errorf("%d bytes were granted, want the credit of 8000", taken)
	}
}

// TestAFullLogRefusesHoweverLongTheReadTakes: those who ask are told so by the first read that
// began when they had come.
func TestAFullLogRefusesHoweverLongTheReadTakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &tank{room: Figures{Max: 1 << 30, Used: 1 << 30}, takes: 2 * countsFresh}
		c := &reservations{read: k.read, now: time.Now}
		ask := func(p purpose) {
			ctx, cancel := context.WithTimeout(t.Context(), 4*k.takes)
			defer cancel()
			begin := time.Now()
			if _, _, err := c.take(ctx, p, 1); !errors.Is(err, errNoCapacity) {
				t.Errorf("purpose %d: %v", p, err)
			}
			if took := time.Since(begin); took > 2*k.takes {
				t.Errorf("purpose %d: answered after %s", p, took)
			}
		}
		var group sync.WaitGroup
		for range 8 {
			for p := range purposes {
				group.Go(func() { ask(p) })
			}
		}
		group.Go(func() {
			<-time.After(k.takes - time.Millisecond) // while they wait
			ask(toAdmit)
		})
		group.Wait()
		if k.reads > 2 {
			t.Errorf("%d reads", k.reads)
		}
	})
}

// TestACallerThatLeavesFailsNoOther: the read goes on, and is the other's.
func TestACallerThatLeavesFailsNoOther(t *testing.T) {
	t.Parallel()
	leave := map[string]func(context.Context) (context.Context, context.CancelFunc){
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 5*time.Millisecond)
		},
		"cancel": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(5*time.Millisecond, cancel)
			return ctx, cancel
		},
	}
	for name, of := range leave {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := &tank{room: Figures{Max: 1 << 30}, takes: time.Second}
				c := &reservations{read: k.read, now: time.Now}
				ctx, cancel := of(t.Context())
				defer cancel()
				var group sync.WaitGroup
				group.Go(func() {
					if _, _, err := c.take(ctx, toAdmit, 1); err == nil || !errors.Is(err, ctx.Err()) {
						t.Errorf("the caller that left: %v", err)
					}
				})
				synctest.Wait() // its read has begun
				if _, _, err := c.take(t.Context(), toAdmit, 1); err != nil {
					t.Errorf("the other caller: %v", err)
				}
				group.Wait()
				if k.reads != 1 {
					t.Errorf("%d reads", k.reads)
				}
			})
		})
	}
}

// TestAReadEnds at its own limit, and with the log.
func TestAReadEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &tank{takes: time.Hour}
		c := &reservations{read: k.read, now: time.Now}
		begin := time.Now()
		if _, _, err := c.take(t.Context(), toAdmit, 1); err == nil || time.Since(begin) != broker.ReadTimeout {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		begin = time.Now()
		if _, _, err := c.take(ctx, toAdmit, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		c.stop()
		if took := time.Since(begin); took != time.Millisecond {
			t.Errorf("stopped after %s", took)
		}
	})
}

// TestTheConfigurationLeavesRoomForTheEnds: above the last limit there is the tenth of the log
// that the configuration wants for all jobs in work, with what eight replicas do not see of
// each other.
func TestTheConfigurationLeavesRoomForTheEnds(t *testing.T) {
	t.Parallel()
	const unseen = 2 * 7. / creditShare
	if left := 1 - submitBelow - unseen; left < 0.1 {
		t.Errorf("%.3f of the log is left for the ends of the jobs in work", left)
	}
}

// TestALifeIsReserved for each unfinished job, by its kind, and by the larger one where it is
// not known; where the events of jobs are large, at least for their ends.
func TestALifeIsReserved(t *testing.T) {
	t.Parallel()
	v := newLives()
	rest := map[subject.Kind]int64{}
	for _, kind := range subject.Kinds {
		rest[kind] = v.reserve(1, map[subject.Kind]Unfinished{kind: {Jobs: 1, Bytes: 700}}).rest
	}
	got := v.reserve(10, map[subject.Kind]Unfinished{subject.Video: {Jobs: 2, Bytes: 1400}, subject.Chat: {Jobs: 3, Bytes: 2100}})
	if want := 2*rest[subject.Video] + 3*rest[subject.Chat] + 5*max(rest[subject.Video], rest[subject.Chat]); got.rest != want {
		t.Errorf("%d bytes are reserved, want %d", got.rest, want)
	}
	if got.ends >= got.shortest || got.shortest >= got.rest || got.ends < 10*2*leastEvent {
		t.Errorf("of ten lives: %+v", got)
	}
	// Fewer items than unfinished jobs: some have ended, and the list has not heard of it.
	if got := v.reserve(1, map[subject.Kind]Unfinished{subject.Video: {Jobs: 2, Bytes: 1400}}); got.rest != 2*rest[subject.Video] {
		t.Errorf("%d bytes are reserved for two videos", got.rest)
	}
	if got := v.reserve(2, map[subject.Kind]Unfinished{subject.Video: {Jobs: 2, Bytes: 80 << 10}}); got.rest != got.ends || got.ends < 160<<10 {
		t.Errorf("of two large videos: %+v", got)
	}
}

// TestUnknownJobsAreAsLargeAsTheOthers: as those that are known, or as the last ones that
// were accepted here.
func TestUnknownJobsAreAsLargeAsTheOthers(t *testing.T) {
	t.Parallel()
	const large = 60 << 10
	v := newLives()
	known := map[subject.Kind]Unfinished{subject.Video: {Jobs: 2, Bytes: 2 * large}}
	if all, some := v.reserve(10, map[subject.Kind]Unfinished{subject.Video: {Jobs: 10, Bytes: 10 * large}}), v.reserve(10, known); some.ends != all.ends {
		t.Errorf("%d bytes for the ends where two of ten are known, want %d", some.ends, all.ends)
	}
	ordinary := v.reserve(10, nil)
	first := task.FromWork(&genbusv1.WorkItem{Id: "chat_x", Kind: "chat", AcceptedAt: timestamppb.Now()})
	for range 100 {
		v.wrote(first, large)
	}
	if got := v.reserve(10, nil); got.ends < 10*2*large {
		t.Errorf("%d bytes for the ends of ten jobs, after many large ones were accepted; %d before", got.ends, ordinary.ends)
	}
}

// TestACountHoldsForAWhile where it is followed by no other.
func TestACountHoldsForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, known := &Capacity{lives: newLives()}, true
		if got := c.unfinished(t.Context()); got != nil {
			t.Errorf("without a count: %v", got)
		}
		c.CountBy(func(context.Context) (map[subject.Kind]Unfinished, bool) {
			return map[subject.Kind]Unfinished{subject.Video: {Jobs: 7}}, known
		})
		jobs := func() int64 { return c.unfinished(t.Context())[subject.Video].Jobs }
		if n := jobs(); n != 7 {
			t.Errorf("%d jobs", n)
		}
		known = false
		time.Sleep(censusFor) //nolint:forbidigo // the clock is the test's
		if n := jobs(); n != 7 {
			t.Errorf("%d jobs by a count of %s", n, censusFor)
		}
		time.Sleep(time.Second) //nolint:forbidigo // the clock is the test's
		if n := jobs(); n != 0 {
			t.Errorf("%d jobs by an old count", n)
		}
	})
}

// TestWhatIsSpareLeavesRoomToSubmit: long replies fill the log as far as eight replicas let
// them. Then each job that waits is submitted, one after the other, and writes its shortest
// life.
func TestWhatIsSpareLeavesRoomToSubmit(t *testing.T) {
	t.Parallel()
	const waiting, event = 200, 1100
	k, v := &tank{room: Figures{Max: 8 << 20}}, newLives()
	left := map[subject.Kind]Unfinished{subject.Video: {Jobs: waiting, Bytes: waiting * event}}
	count := func() {
		u := v.reserve(left[subject.Video].Jobs, left)
		k.room.Reserved, k.room.Shortest, k.room.Ends = u.rest, u.shortest, u.ends
	}
	count()
	for _, c := range fleet(k, 8) { // each has read before the others wrote
		for {
			_, release, err := c.take(t.Context(), toSpare, 4<<10)
			if err != nil {
				break
			}
			k.room.Used += 4 << 10
			release()
		}
	}
	for submitted := range waiting {
		c := fleet(k, 1)[0]
		_, release, err := c.take(t.Context(), toSubmit, event)
		if err != nil {
			t.Fatalf("video %d of %d: %v: %+v", submitted, waiting, err, k.room)
		}
		release()
		k.room.Used += 2*event + 2*(event+endMore)
		left[subject.Video] = Unfinished{Jobs: left[subject.Video].Jobs - 1, Bytes: left[subject.Video].Bytes - event}
		count()
	}
}

// TestFailuresSayNothingOfALife: all jobs fail at once while an upstream is down, and those
// that wait until it is back will take whole lives.
func TestFailuresSayNothingOfALife(t *testing.T) {
	t.Parallel()
	v := newLives()
	before := v.life(subject.Chat)
	failed, err := task.Failed(task.FromWork(&genbusv1.WorkItem{Id: "chat_x", Kind: "chat", AcceptedAt: timestamppb.Now()}).Job, time.Now(), &genbusv1.TaskError{Code: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		v.wrote(failed, 1<<10)
	}
	if after := v.life(subject.Chat); after != before {
		t.Errorf("a chat takes %d bytes after a thousand failures, and %d before", after, before)
	}
}
