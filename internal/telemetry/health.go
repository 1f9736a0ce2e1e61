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

// Timing of health checks.
const (
	checkTimeout  = 2 * time.Second // for each check
	checkCache    = time.Second     // how long a result is reused
	watchInterval = 2 * time.Second // between the rounds of Run
)

// maxReason bounds a reason, in bytes.
const maxReason = 512

// checkDraining is the check name in the reason reported after SetDraining.
const checkDraining = "draining"

// Reason is one reason why the replica is not ready.
type Reason struct {
	// Check names the failed check, or is "draining".
	Check string `json:"check"`
	// Reason is the check's error, cut to 512 bytes.
	Reason string `json:"reason"`
}

// Health tracks two kinds of readiness. The replica is ready for calls unless it is draining. Even
// while JetStream is unavailable, it can serve reads, inline chats and watches. It is ready for
// jobs if every check passes as well. The zero value has no checks and is ready for both.
type Health struct {
	draining atomic.Bool

	mu       sync.Mutex
	checks   []*check
	watchers []func(jobs bool, reasons []Reason)
	wake     chan struct{} // closed by SetDraining; created on first use
	round    *round        // the latest round, which may still be running
	failing  []Failure     // result of the latest round that ended
}

// Failure is a failing check.
type Failure struct {
	Reason
	// Since is the end of the first of the consecutive rounds in which the check failed.
	Since time.Time
}

// check is a named condition of readiness.
type check struct {
	name string
	run  func(ctx context.Context) error
	// busy is set while run is running. A check that ignores its context then occupies only one
	// goroutine instead of one per round.
	busy atomic.Bool
}

// round is one run of all checks. Read its fields only after done is closed.
type round struct {
	done    chan struct{}
	at      time.Time // when the round ended
	reasons []Reason
}

// Add registers a check. It runs with a timeout of 2 s, concurrently with other checks, at most
// once a second and never concurrently with itself. A nil error means healthy. Callers of
// /readyz/jobs see the error, so it must not contain credentials. Checks cover this replica and its
// broker. Upstream problems are reported by metrics instead.
func (h *Health) Add(name string, run func(ctx context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks = append(h.checks, &check{name: name, run: run})
}

// Watch registers a function that Run calls when readiness for jobs changes. Call Watch before Run.
func (h *Health) Watch(changed func(jobs bool, reasons []Reason)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers = append(h.watchers, changed)
}

// SetDraining permanently makes the replica not ready. Run notifies the watchers at once. It may be
// called twice.
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

// Ready reports whether the replica is ready for calls, and returns the reasons if it is not. It
// never blocks.
func (h *Health) Ready() (bool, []Reason) {
	if h.draining.Load() {
		return false, drainingReasons()
	}
	return true, nil
}

// ReadyForJobs reports whether this replica takes jobs. If it does not, ReadyForJobs returns the
// reasons in the order the checks were added. The result is at most 1 s old. A new round of checks
// takes up to 2 s, even if ctx ends earlier. A caller that waits for another caller's round gets
// "not ready" when ctx ends. While draining, ReadyForJobs runs no checks.
func (h *Health) ReadyForJobs(ctx context.Context) (bool, []Reason) {
	if h.draining.Load() {
		return false, drainingReasons()
	}
	reasons := h.measure(ctx)
	if h.draining.Load() { // set during the checks
		return false, drainingReasons()
	}
	return len(reasons) == 0, slices.Clone(reasons)
}

func drainingReasons() []Reason {
	return []Reason{{Check: checkDraining, Reason: "draining"}}
}

// measure returns the reasons of the latest round if it is fresh or still running. Otherwise it
// runs a new round. A new round ignores the end of ctx, because other callers may wait for it.
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
		h.note(r)
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

// note updates the failing checks after a round.
func (h *Health) note(r *round) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.failing
	h.failing = nil
	for _, reason := range r.reasons {
		f := Failure{Reason: reason, Since: r.at}
		if i := slices.IndexFunc(before, func(b Failure) bool { return b.Check == reason.Check }); i >= 0 {
			f.Since = before[i].Since
		}
		h.failing = append(h.failing, f)
	}
}

// Failing returns the checks that failed in the latest round, or none while draining. Unlike
// ReadyForJobs, it runs no checks.
func (h *Health) Failing() []Failure {
	if h.draining.Load() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failing
}

// stale reports whether the round ended too long ago.
func (r *round) stale() bool {
	select {
	case <-r.done:
		return time.Since(r.at) >= checkCache
	default:
		return false
	}
}

// runAll runs the checks concurrently and returns the failures in the order of the checks.
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

// bounded runs the check and returns after checkTimeout even if the check does not.
func (c *check) bounded(ctx context.Context) error {
	if c.busy.Swap(true) {
		return errors.New("still running since an earlier check")
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	result := make(chan error, 1)
	go func() {
		err := c.run(ctx)
		c.busy.Store(false) // before sending the result, which may start the next round
		result <- err
	}()
	select {
	case err := <-result:
		return timeoutNamed(ctx, err)
	case <-ctx.Done():
		return fmt.Errorf("no answer after %s", checkTimeout)
	}
}

// timeoutNamed adds the length of the timeout to an error caused by its expiry.
func timeoutNamed(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("no answer after %s: %w", checkTimeout, err)
	}
	return err
}

// shorten cuts text to at most maxReason bytes of valid UTF-8.
func shorten(text string) string {
	if len(text) > maxReason {
		text = text[:maxReason]
	}
	return strings.ToValidUTF8(text, "")
}

// Run runs the checks every 2 s. It calls the watchers in the order of registration, once at the
// start and then whenever readiness for jobs or the set of failing checks changes. Checks continue
// while draining, because the work that is still running reads their results. Run returns nil
// within 2 s after ctx ends.
func (h *Health) Run(ctx context.Context) error {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	drained := h.wakeUp()
	var last []string // names of failing checks; nil before the first round
	for {
		ready, reasons := h.ReadyForJobs(ctx)
		if ctx.Err() != nil {
			return nil // the reasons may only reflect the end of ctx
		}
		if drained == nil {
			h.measure(ctx)
		}
		if now := failing(reasons); last == nil || !slices.Equal(last, now) {
			last = now
			h.notify(ready, reasons)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-drained:
			drained = nil // react only once
		}
	}
}

// failing returns the names of the failed checks, never nil. It omits the error texts, which may
// differ each time without new information.
func failing(reasons []Reason) []string {
	names := make([]string, len(reasons))
	for i, r := range reasons {
		names[i] = r.Check
	}
	return names
}

func (h *Health) notify(jobs bool, reasons []Reason) {
	h.mu.Lock()
	watchers := slices.Clone(h.watchers)
	h.mu.Unlock()
	for _, changed := range watchers {
		changed(jobs, reasons)
	}
}
