package joblog

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/genbus/genbus/internal/broker"
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

var allPurposes = []purpose{toAdmit, toSpare, toSubmit}

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
	for _, p := range allPurposes {
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
	if taken != 10_000 {
		t.Errorf("%d bytes were granted, want the credit of 10000", taken)
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
			for _, p := range allPurposes {
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

// TestOldFiguresOfAFullLogGrantNothing, however seldom a caller comes.
func TestOldFiguresOfAFullLogGrantNothing(t *testing.T) {
	t.Parallel()
	k, now := &tank{room: Figures{Max: 1 << 30, Used: 1 << 30}}, time.Unix(1, 0)
	c := &reservations{read: k.read, now: func() time.Time { return now }}
	for range 10 {
		for _, p := range allPurposes {
			if _, _, err := c.take(t.Context(), p, 1); !errors.Is(err, errNoCapacity) {
				t.Errorf("purpose %d: %v", p, err)
			}
			now = now.Add(2 * countsFresh)
		}
	}
}

// TestLimits are shares of the log less what the disk is short of. Unfinished jobs count in full,
// and for a submission with a third: what jobs take that end while they wait.
func TestLimits(t *testing.T) {
	t.Parallel()
	const percent = 1 << 20
	for _, c := range []struct {
		figures              Figures
		admit, spare, submit int64 // what is left, in percent
	}{
		{Figures{}, 80, 85, 90},
		{Figures{Used: 50 * percent}, 30, 35, 40},
		{Figures{Used: 50 * percent, Reserved: 30 * percent}, 0, 5, 30},
		{Figures{Used: 50 * percent, Granted: 30 * percent}, 0, 5, 10},
		{Figures{Used: 89 * percent}, -9, -4, 1},
		{Figures{Used: 20 * percent, Short: 15 * percent}, 45, 50, 55},
	} {
		c.figures.Max = 100 * percent
		for p, want := range map[purpose]int64{toAdmit: c.admit, toSpare: c.spare, toSubmit: c.submit} {
			if got := c.figures.left(p); got != want*percent {
				t.Errorf("%+v: purpose %d has %d left, want %d", c.figures, p, got, want*percent)
			}
		}
	}
}

// backlog is the jobs that wait in a tank, which grows by what they write.
type backlog struct {
	*tank
	waiting int64
}

// newBacklog fills an empty log with jobs up to the limit of admission.
func newBacklog(t *testing.T, first int64) *backlog {
	t.Helper()
	k := &backlog{tank: &tank{room: Figures{Max: 8 << 20}}}
	c := fleet(k.tank, 1)[0]
	for {
		_, release, err := c.take(t.Context(), toAdmit, first+jobBytes)
		if errors.Is(err, errNoCapacity) {
			return k
		} else if err != nil {
			t.Fatal(err)
		}
		k.wrote(first, 1)
		release()
	}
}

// wrote stores some bytes, and adds some jobs.
func (k *backlog) wrote(bytes, jobs int64) {
	k.waiting += jobs
	k.room.Used, k.room.Reserved = k.room.Used+bytes, k.waiting*jobBytes
}

// What a job writes: an event, and an end with an error.
const (
	eventBytes = 1100
	endedBytes = 2 * (eventBytes + 512) // and in the feed
)

// TestWhatIsSpareLeavesRoomToSubmit: long replies fill the log as far as eight replicas let
// them. Then each waiting job is submitted, one after the other, and ends.
func TestWhatIsSpareLeavesRoomToSubmit(t *testing.T) {
	t.Parallel()
	k := newBacklog(t, eventBytes)
	for _, c := range fleet(k.tank, 8) { // each has read before the others wrote
		for {
			_, release, err := c.take(t.Context(), toSpare, 4<<10)
			if err != nil {
				break
			}
			k.wrote(4<<10, 0)
			release()
		}
	}
	for k.waiting > 0 {
		_, release, err := fleet(k.tank, 1)[0].take(t.Context(), toSubmit, eventBytes)
		if err != nil {
			t.Fatalf("%d jobs wait: %v: %+v", k.waiting, err, k.room)
		}
		release()
		k.wrote(2*eventBytes+endedBytes, -1)
	}
}

// TestRetriesLeaveRoomForTheEnds: the upstream refuses all jobs for now, again and again, until
// no job is submitted. Then all of them end, and the last tenth of the log is left.
func TestRetriesLeaveRoomForTheEnds(t *testing.T) {
	t.Parallel()
	k := newBacklog(t, eventBytes)
	jobs, retries := k.waiting, int64(0)
	for {
		_, release, err := fleet(k.tank, 1)[0].take(t.Context(), toSubmit, eventBytes)
		if errors.Is(err, errNoCapacity) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		k.wrote(2*eventBytes, 0)
		release()
		retries++
	}
	if retries < jobs {
		t.Errorf("%d retries of %d jobs", retries, jobs)
	}
	k.wrote(jobs*endedBytes, -jobs)
	if k.room.Used > k.room.SubmitLimit() {
		t.Errorf("%d bytes are used of %d after all jobs ended", k.room.Used, k.room.Max)
	}
}
