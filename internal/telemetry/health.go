package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Times of the health checks.
const (
	checkTimeout  = 2 * time.Second // for each check
	checkCache    = time.Second     // how long an answer is good
	watchInterval = 2 * time.Second // between the checks of Run
)

// maxReason is the longest reason shown, in bytes.
const maxReason = 512

// checkDraining is the name under which SetDraining appears among the reasons.
const checkDraining = "draining"

// Reason says why the service is not ready, or not ready for jobs.
type Reason struct {
	// Check is the name of the check that failed, or "draining".
	Check string `json:"check"`
	// Reason is the check's error, cut to 512 bytes.
	Reason string `json:"reason"`
}

// Health knows two readinesses of this replica. It is ready, to be sent calls, as long
// as it is not draining: reads, inline chats and watches are for it to answer even when
// JetStream is away. It is ready for jobs when every check passes too. The zero value
// has no checks, and is both.
type Health struct {
	draining atomic.Bool

	mu       sync.Mutex
	checks   []*check
	watchers []func(jobs bool, reasons []Reason)
	wake     chan struct{} // closed by SetDraining; made when first needed
	round    *round        // the last or the running one
}

// check is one named condition of readiness.
type check struct {
	name string
	run  func(ctx context.Context) error
	// busy is set while run has not returned, so that a check that ignores its
	// context has one goroutine, not one more in each round.
	busy atomic.Bool
}

// round is one run of all checks. The fields are read after done is closed.
type round struct {
	done    chan struct{}
	at      time.Time // when it ended
	reasons []Reason
}

// Add registers a check. It runs with a timeout of 2 s, concurrently with the others, at
// most once a second and never twice at a time; nil means that all is well. Its
// error is shown to every caller of /readyz/jobs: it must hold no credentials.
// Checks are about this replica and its broker; upstream trouble is a metric.
func (h *Health) Add(name string, run func(ctx context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks = append(h.checks, &check{name: name, run: run})
}

// Watch registers what Run calls when readiness for jobs changes. Call it before Run.
func (h *Health) Watch(changed func(jobs bool, reasons []Reason)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers = append(h.watchers, changed)
}

// SetDraining makes the replica not ready for anything, for good. Run tells the
// watchers at once. It may be called twice.
func (h *Health) SetDraining() {
	if h.draining.Swap(true) {
		return
	}
	close(h.wakeUp())
}

func (h *Health) wakeUp() chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wake == nil {
		h.wake = make(chan struct{})
	}
	return h.wake
}

// Ready gives, at once, whether this replica should be sent calls and, when it should
// not, the reason.
func (h *Health) Ready() (bool, []Reason) {
	if h.draining.Load() {
		return false, drainingReasons()
	}
	return true, nil
}

// ReadyForJobs gives whether this replica takes jobs and, when it does not, the reasons
// in the order in which the checks were added. An answer is at most a second old. It
// takes up to 2 s when checks are slow, whether or not ctx ends before; who waits for
// checks that another caller started is told "not ready" when ctx ends. While
// draining nothing is checked.
func (h *Health) ReadyForJobs(ctx context.Context) (bool, []Reason) {
	if h.draining.Load() {
		return false, drainingReasons()
	}
	reasons := h.measure(ctx)
	if h.draining.Load() { // since then
		return false, drainingReasons()
	}
	return len(reasons) == 0, slices.Clone(reasons)
}

func drainingReasons() []Reason {
	return []Reason{{Check: checkDraining, Reason: "draining"}}
}

// measure returns the reasons of a fresh round: the last one, the running one or
// a new one. The call that starts a round runs it to its end, even when its own caller
// went away, since others may wait for it.
func (h *Health) measure(ctx context.Context) []Reason {
	h.mu.Lock()
	r := h.round
	if r == nil || r.stale() {
		r = &round{done: make(chan struct{})}
		h.round = r
		checks := slices.Clone(h.checks)
		h.mu.Unlock()
		r.reasons = runAll(context.WithoutCancel(ctx), checks)
		r.at = time.Now()
		close(r.done)
		return r.reasons
	}
	h.mu.Unlock()
	select {
	case <-r.done:
		return r.reasons
	case <-ctx.Done():
		return []Reason{{Check: "health", Reason: "checks still running: " + context.Cause(ctx).Error()}}
	}
}

// stale reports whether the round ended too long ago to be an answer.
func (r *round) stale() bool {
	select {
	case <-r.done:
		return time.Since(r.at) >= checkCache
	default:
		return false
	}
}

// runAll runs the checks side by side, and gives what failed in their order.
func runAll(ctx context.Context, checks []*check) []Reason {
	errs := make([]error, len(checks))
	var wg sync.WaitGroup
	for i, c := range checks {
		wg.Go(func() { errs[i] = c.bounded(ctx) })
	}
	wg.Wait()
	var reasons []Reason
	for i, err := range errs {
		if err != nil {
			reasons = append(reasons, Reason{Check: checks[i].name, Reason: shorten(err.Error())})
		}
	}
	return reasons
}

// bounded runs the check, and returns after checkTimeout even when the check
// does not.
func (c *check) bounded(ctx context.Context) error {
	if c.busy.Swap(true) {
		return errors.New("still running since an earlier check")
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	result := make(chan error, 1)
	go func() {
		err := c.run(ctx)
		c.busy.Store(false) // before the answer, which may start the next round
		result <- err
	}()
	select {
	case err := <-result:
		return timeoutNamed(ctx, err)
	case <-ctx.Done():
		return fmt.Errorf("no answer after %s", checkTimeout)
	}
}

// timeoutNamed says how long was waited, where err only says that it was too
// long.
func timeoutNamed(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("no answer after %s: %w", checkTimeout, err)
	}
	return err
}

// shorten cuts text to maxReason bytes of valid UTF-8.
func shorten(text string) string {
	if len(text) > maxReason {
		text = text[:maxReason]
	}
	return strings.ToValidUTF8(text, "")
}

// Run checks every 2 s and tells the watchers, in the order in which they were
// registered: once at the start, then whenever readiness for jobs or the set of
// failing checks changes. The checks go on while draining: what they find is read by those
// who finish what they have in hand. It returns nil when ctx ends, after at most 2 s.
func (h *Health) Run(ctx context.Context) error {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	drained := h.wakeUp()
	var last []string // names of failing checks; nil before the first round
	for {
		ready, reasons := h.ReadyForJobs(ctx)
		if ctx.Err() != nil {
			return nil // the answer may only say that ctx ended
		}
		if drained == nil {
			h.measure(ctx)
		}
		if now := failing(reasons); last == nil || !slices.Equal(last, now) {
			last = now
			h.tell(ready, reasons)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-drained:
			drained = nil // once
		}
	}
}

// failing gives the names of the checks that failed, never nil. The texts are
// left out: they may differ each time without saying anything new.
func failing(reasons []Reason) []string {
	names := make([]string, len(reasons))
	for i, r := range reasons {
		names[i] = r.Check
	}
	return names
}

func (h *Health) tell(jobs bool, reasons []Reason) {
	h.mu.Lock()
	watchers := slices.Clone(h.watchers)
	h.mu.Unlock()
	for _, changed := range watchers {
		changed(jobs, reasons)
	}
}
