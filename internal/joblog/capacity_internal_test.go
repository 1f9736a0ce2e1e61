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

// tank simulates the figures of a log.
type tank struct {
	takes   time.Duration // duration of a read
	mu      sync.Mutex
	figures Figures
	reads   int
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
	return k.figures, nil
}

var allPurposes = []purpose{toAdmit, toSpare, toSubmit}

// fleet returns replicas whose figures never age, so that they only reread when their credit is
// used up.
func fleet(k *tank, replicas int) []*reservations {
	at := time.Unix(1, 0)
	out := make([]*reservations, replicas)
	for i := range out {
		out[i] = &reservations{read: k.read, now: func() time.Time { return at }}
	}
	return out
}

// TestStaleFiguresHardlyExceedALimit proves that replicas that fill the log in turn from outdated
// figures exceed a limit by no more than their credits.
func TestStaleFiguresHardlyExceedALimit(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	for _, p := range allPurposes {
		k := &tank{figures: Figures{Max: size}}
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
				k.figures.Used += bytes
				release()
			}
		}
		over := -k.figures.remaining(p)
		if limit := int64(7 * size / creditShare); over > limit {
			t.Errorf("purpose %d: %d bytes beyond the limit, want at most %d", p, over, limit)
		}
		if over < -100<<10 {
			t.Errorf("purpose %d: %d bytes are not used", p, -over)
		}
	}
}

// TestReplicasThatAskAtOnceShareTheLog proves the same for concurrent callers of eight replicas. A
// grant that is not stored yet is in no figures, so each caller of the other replicas may exceed
// the limit by one more.
func TestReplicasThatAskAtOnceShareTheLog(t *testing.T) {
	t.Parallel()
	const size, life, callers = 16 << 20, 10 << 10, 8
	k := &tank{figures: Figures{Max: size}}
	var group sync.WaitGroup
	for _, c := range fleet(k, 8) {
		for range callers {
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
					k.figures.Reserved += life
					k.mu.Unlock()
					release()
				}
			})
		}
	}
	group.Wait()
	if over := -k.figures.remaining(toAdmit); over > 7*(size/creditShare+callers*life)+8*life || over < -8*life {
		t.Errorf("%d bytes beyond the limit", over)
	}
}

// TestHeldGrantsAreCounted proves that a grant counts in addition to all figures until it is
// released, and no longer.
func TestHeldGrantsAreCounted(t *testing.T) {
	t.Parallel()
	const size, life = 1 << 20, 10 << 10
	k, now := &tank{figures: Figures{Max: size}}, time.Unix(1, 0)
	c := &reservations{read: k.read, now: func() time.Time { return now }}
	fill := func() (held []Release) {
		for {
			_, release, err := c.take(t.Context(), toAdmit, life)
			if errors.Is(err, errNoCapacity) || len(held) > size/life {
				return held
			}
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, release)
			now = now.Add(2 * countsFresh)
		}
	}
	want := int(k.figures.AdmitLimit() / life)
	held := fill()
	if len(held) != want {
		t.Errorf("%d jobs are reserved, and there is capacity for %d", len(held), want)
	}
	for _, release := range held[:want/2] {
		k.figures.Reserved += life
		release()
	}
	for _, release := range held[want/2:] { // these were never stored
		release()
	}
	now = now.Add(2 * countsFresh)
	if again := fill(); len(again) != want-want/2 {
		t.Errorf("%d jobs were admitted then, and there was capacity for %d", len(again), want-want/2)
	}
}

// TestFarFromTheLimitTheFiguresAreReadOnceASecond proves that ordinary requests need one read per
// second.
func TestFarFromTheLimitTheFiguresAreReadOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &tank{figures: Figures{Max: 4 << 30}}
		now := time.Unix(1, 0)
		c := &reservations{read: k.read, now: func() time.Time { return now }}
		for range 4 {
			for range 100 {
				if _, _, err := c.take(t.Context(), toAdmit, 12<<10); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait() // until the read has ended
			now = now.Add(1001 * time.Millisecond)
		}
		if k.reads != 4 {
			t.Errorf("%d reads in four seconds", k.reads)
		}
	})
}

// TestWithoutTheBrokerTheCreditRemains proves that failing reads refuse callers only once the
// credit is used up.
func TestWithoutTheBrokerTheCreditRemains(t *testing.T) {
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

// TestAFullLogRefusesHoweverLongTheReadTakes proves that a slow read refuses the callers that came
// before it began.
func TestAFullLogRefusesHoweverLongTheReadTakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &tank{figures: Figures{Max: 1 << 30, Used: 1 << 30}, takes: 2 * countsFresh}
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
			<-time.After(k.takes - time.Millisecond) // while others wait
			ask(toAdmit)
		})
		group.Wait()
		if k.reads > 2 {
			t.Errorf("%d reads", k.reads)
		}
	})
}

// TestACancelledCallerFailsNoOther proves that a read continues for other callers.
func TestACancelledCallerFailsNoOther(t *testing.T) {
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
				k := &tank{figures: Figures{Max: 1 << 30}, takes: time.Second}
				c := &reservations{read: k.read, now: time.Now}
				ctx, cancel := of(t.Context())
				defer cancel()
				var group sync.WaitGroup
				group.Go(func() {
					if _, _, err := c.take(ctx, toAdmit, 1); err == nil || !errors.Is(err, ctx.Err()) {
						t.Errorf("the caller that left: %v", err)
					}
				})
				synctest.Wait() // until its read has begun
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

// TestAReadEnds proves that a read ends at its timeout and with the log.
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

// TestOldFiguresOfAFullLogGrantNothing proves that a rare caller is not served from old figures of
// a full log.
func TestOldFiguresOfAFullLogGrantNothing(t *testing.T) {
	t.Parallel()
	k, now := &tank{figures: Figures{Max: 1 << 30, Used: 1 << 30}}, time.Unix(1, 0)
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

// TestLimits proves that the limits are shares of the log less Short. Unfinished jobs count in
// full, and for a submission with a third.
func TestLimits(t *testing.T) {
	t.Parallel()
	const percent = 1 << 20
	for _, c := range []struct {
		figures              Figures
		admit, spare, submit int64 // left, in percent
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
			if got := c.figures.remaining(p); got != want*percent {
				t.Errorf("%+v: purpose %d has %d left, want %d", c.figures, p, got, want*percent)
			}
		}
	}
}

// backlog simulates a log that grows by the events of waiting jobs.
type backlog struct {
	*tank
	waiting int64
}

// newBacklog fills an empty log with jobs up to the admission limit.
func newBacklog(t *testing.T, first int64) *backlog {
	t.Helper()
	k := &backlog{tank: &tank{figures: Figures{Max: 8 << 20}}}
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

// wrote stores bytes and adds jobs.
func (k *backlog) wrote(bytes, jobs int64) {
	k.waiting += jobs
	k.figures.Used, k.figures.Reserved = k.figures.Used+bytes, k.waiting*jobBytes
}

// Bytes that a job writes: an event, and an end with an error.
const (
	eventBytes = 1100
	endedBytes = 2 * (eventBytes + 512) // including the feed copy
)

// TestSpareBytesLeaveCapacityToSubmit proves that every waiting job can still be submitted and
// ended after eight replicas have filled the log with long replies.
func TestSpareBytesLeaveCapacityToSubmit(t *testing.T) {
	t.Parallel()
	k := newBacklog(t, eventBytes)
	for _, c := range fleet(k.tank, 8) { // each has read before the others write
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
			t.Fatalf("%d jobs wait: %v: %+v", k.waiting, err, k.figures)
		}
		release()
		k.wrote(2*eventBytes+endedBytes, -1)
	}
}

// TestRetriesLeaveCapacityForTheEnds proves that retries up to the submission limit leave capacity
// for the ends of all jobs, and the last tenth of the log unused.
func TestRetriesLeaveCapacityForTheEnds(t *testing.T) {
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
	if k.figures.Used > k.figures.SubmitLimit() {
		t.Errorf("%d bytes are used of %d after all jobs ended", k.figures.Used, k.figures.Max)
	}
}
