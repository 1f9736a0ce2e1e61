package jobindex

import (
	"math"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/jobtable"
)

// stretch is a number of seconds of a reading with one probe per second. asOf and end apply after
// the first second; events and stores are added in each later one.
type stretch struct {
	seconds         int
	asOf, end       uint64
	events, stores  uint64
	ready, readOver bool // at the end of the stretch
}

// TestAReadingIsJudged checks how applied events and the leader's end decide whether a reading is
// ready or restarts.
func TestAReadingIsJudged(t *testing.T) {
	t.Parallel()
	for name, stretches := range map[string][]stretch{
		"has all":                     {{1, 10, 10, 0, 0, true, false}},
		"comes as far as it was":      {{1, 8, 12, 0, 0, false, false}, {1, 12, 20, 0, 0, true, false}},
		"goes on a little behind":     {{1, 10, 10, 0, 0, true, false}, {60, 15, 25, 10, 10, true, false}},
		"falls behind":                {{1, 10, 10, 0, 0, true, false}, {8, 11, 110, 1, 100, true, false}, {5, 19, 910, 1, 100, false, false}, {60, 30, 1500, 1, 100, false, false}},
		"falls behind and catches up": {{1, 10, 10, 0, 0, true, false}, {20, 11, 110, 1, 100, false, false}, {2, 2200, 2200, 0, 0, true, false}},
		"stalls":                      {{1, 10, 10, 0, 0, true, false}, {2, 10, 12, 0, 0, true, false}, {2, 10, 12, 0, 0, false, false}, {10, 10, 12, 0, 0, false, false}, {2, 10, 12, 0, 0, false, true}},
		"stalls and goes on":          {{1, 10, 10, 0, 0, true, false}, {5, 10, 12, 0, 0, false, false}, {1, 12, 12, 0, 0, true, false}},
		"a log that has less":         {{1, 10, 10, 0, 0, true, false}, {1, 10, 2, 0, 0, true, false}, {1, 10, 2, 0, 0, false, true}},
		"a leader that is none":       {{1, 10, 10, 0, 0, true, false}, {1, 10, 9, 0, 0, true, false}, {1, 10, 10, 0, 0, true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(1000, 0)
			r := &reading{table: jobtable.New(10), caughtUp: true, target: math.MaxUint64, moved: now}
			for i, s := range stretches {
				ok := true
				for n := range uint64(s.seconds) {
					now = now.Add(time.Second)
					r.asOf = s.asOf + n*s.events
					_, reason := r.judge(joblog.End{Seq: s.end + n*s.stores}, moment{now, r.asOf}, now)
					if ok = reason == ""; !ok && n != uint64(s.seconds)-1 {
						t.Fatalf("stretch %d: the log is read over after %d s", i, n+1)
					}
				}
				if r.isReady(now) != s.ready || ok == s.readOver {
					t.Errorf("stretch %d: ready %t, and read over %t; want %t, %t", i, r.isReady(now), !ok, s.ready, s.readOver)
				}
			}
		})
	}
}

// TestAReadingHasWhatTheLogHadWhenItWasAsked checks that AsOf is the time of the probe, because the
// log may grow before its answer arrives.
func TestAReadingHasWhatTheLogHadWhenItWasAsked(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	r := &reading{table: jobtable.New(10), caughtUp: true, target: math.MaxUint64, moved: now, asOf: 12}
	asked := now
	if r.judge(joblog.End{Seq: 12}, moment{asked, 12}, asked.Add(2*time.Second)); !r.ready || !r.reached.Equal(asked) {
		t.Errorf("it has all: it is ready: %t, as of %s after the log was asked", r.ready, r.reached.Sub(asked))
	}
	behind := asked.Add(3 * time.Second)
	r.judge(joblog.End{Seq: 14}, moment{behind, 12}, behind.Add(time.Second))
	r.asOf = 13 // still behind
	if r.judge(joblog.End{Seq: 15}, moment{behind.Add(2 * time.Second), 13}, behind.Add(3*time.Second)); !r.reached.Equal(asked) {
		t.Errorf("it is behind: as of %s after the log was asked", r.reached.Sub(asked))
	}
	r.asOf = 15
	if r.judge(joblog.End{Seq: 16}, moment{behind.Add(4 * time.Second), 15}, behind.Add(5*time.Second)); !r.reached.Equal(behind) {
		t.Errorf("it has what the log had: as of %s after the log was asked for that", r.reached.Sub(behind))
	}
}

// TestAReadingIsAsOfNoLaterForABrokerThatIsSilent checks that a silent broker does not count as a
// stall and does not make applied events any newer.
func TestAReadingIsAsOfNoLaterForABrokerThatIsSilent(t *testing.T) {
	t.Parallel()
	began := time.Unix(1000, 0)
	r := &reading{table: jobtable.New(10), caughtUp: true, target: math.MaxUint64, moved: began, asOf: 12}
	judge := func(end uint64, after time.Duration) {
		now := began.Add(after)
		r.judge(joblog.End{Seq: end}, moment{now, r.asOf}, now)
	}
	judge(12, 0)
	judge(20, time.Second)
	r.asOf = 15
	if judge(1000, 21*time.Second); !r.ready || !r.reached.Equal(began) {
		t.Errorf("of 20 events 15 were applied 20 s ago: ready %t, as of %s after the log had no more than 12", r.ready, r.reached.Sub(began))
	}
	r.asOf = 1000
	if judge(1000, 22*time.Second); !r.ready || !r.reached.Equal(began.Add(22*time.Second)) {
		t.Errorf("everything is applied: ready %t, as of %s", r.ready, r.reached.Sub(began))
	}
	r.asOf = 1001
	if judge(1010, 23*time.Second); !r.ready {
		t.Error("it goes on, and is not ready")
	}
	for after := 24 * time.Second; after <= 27*time.Second; after += time.Second {
		judge(1010, after)
	}
	if r.ready {
		t.Error("it stalls, and the silence of before keeps it ready")
	}
}

// TestAReadingGoesOnWhileTheLogAnswers checks that a busy log is not taken for a shorter one
// because events arrive after its answer.
func TestAReadingGoesOnWhileTheLogAnswers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	r := &reading{table: jobtable.New(10), caughtUp: true, target: math.MaxUint64, moved: now, asOf: 12}
	for range 10 {
		asked := moment{now, r.asOf}
		end := joblog.End{Seq: r.asOf + 3}
		r.asOf += 1000
		now = now.Add(time.Second)
		if _, reason := r.judge(end, asked, now); reason != "" || !r.isReady(now) {
			t.Fatalf("at %d: ready %t, read over: %q", r.asOf, r.isReady(now), reason)
		}
	}
}

// TestAReadingThatIsNotComparedIsNotReady checks that a reading without a recent probe is ready
// only while it progresses, and that a silent broker does not count as a stall.
func TestAReadingThatIsNotComparedIsNotReady(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	r := &reading{table: jobtable.New(10), caughtUp: true, target: math.MaxUint64, moved: now}
	judge := func() bool {
		_, reason := r.judge(joblog.End{Seq: 12}, moment{now, r.asOf}, now)
		return reason == ""
	}
	r.asOf = 12
	judge()
	now = now.Add(20 * time.Second)
	if r.isReady(now) {
		t.Error("it is ready, and nothing is known of it")
	}
	r.asOf = 13
	if !r.isReady(now) {
		t.Error("it is not ready, and goes on")
	}
	r.asOf = 11 // as if the log had grown
	for range 2 {
		if !judge() {
			t.Error("the log is read over")
		}
	}
	r = &reading{table: jobtable.New(10), created: time.Unix(1, 0), caughtUp: true, target: math.MaxUint64, moved: now, asOf: 12}
	if judge() {
		t.Error("another log is not read")
	}
}

// TestALargeLogIsReadForLong checks that a long first reading is neither ready nor restarted.
func TestALargeLogIsReadForLong(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	r := &reading{table: jobtable.New(10), first: true, target: math.MaxUint64, moved: now}
	for range 100 {
		now = now.Add(time.Second)
		r.asOf += 10
		if _, reason := r.judge(joblog.End{Seq: 100_000}, moment{now, r.asOf}, now); reason != "" || r.isReady(now) {
			t.Fatalf("at %d: ready %t, read over: %q", r.asOf, r.isReady(now), reason)
		}
	}
}
