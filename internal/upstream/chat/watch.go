package chat

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// timeoutError is the cancellation cause that a watch sets.
type timeoutError struct {
	code, text string
}

func (e *timeoutError) Error() string { return e.text }

// Timeout marks the error as a timeout, as in net.Error.
func (e *timeoutError) Timeout() bool { return true }

// Is makes errors.Is match context.DeadlineExceeded.
func (e *timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// watch cancels a call that is too slow. A single timer enforces all three limits. To keep reads
// cheap, they do not reset the timer. When it fires, the watch cancels the call if the current read
// is overdue, and rearms the timer otherwise. Time that the caller spends between reads does not
// count as idle.
type watch struct {
	upstream string
	limit    limits
	cancel   context.CancelCauseFunc
	start    time.Time

	mu      sync.Mutex
	timer   *time.Timer
	begun   bool          // a byte of the answer has arrived
	overdue time.Duration // deadline of the current read, since start; 0 between reads
	stopped bool
}

type limits struct {
	first, idle, total time.Duration
}

// trailer bounds the silence after a complete reply. What may still follow, the usage and [DONE],
// takes the upstream no thinking.
const trailer = time.Minute

func newWatch(upstream string, limit limits, cancel context.CancelCauseFunc) *watch {
	w := &watch{upstream: upstream, limit: limit, cancel: cancel, start: time.Now(), overdue: limit.first}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(min(limit.first, limit.total), w.fire)
	return w
}

func (w *watch) before() {
	now := time.Since(w.start)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun {
		w.overdue = now + w.limit.idle
	}
}

func (w *watch) after(arrived bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun {
		w.overdue = 0
		return
	}
	if arrived && !w.stopped {
		w.begun, w.overdue = true, 0
		w.setTimer(time.Since(w.start))
	}
}

// completed lowers the idle limit once the reply is complete.
func (w *watch) completed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limit.idle > trailer && !w.stopped {
		w.limit.idle = trailer
		w.setTimer(time.Since(w.start))
	}
}

func (w *watch) fire() {
	now := time.Since(w.start)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopped:
	case now >= w.limit.total:
		w.cancel(&timeoutError{CodeTotalTimeout, fmt.Sprintf("the answer of upstream %s did not finish within %v", w.upstream, w.limit.total)})
	case w.overdue == 0 || now < w.overdue:
		w.setTimer(now)
	case w.begun:
		w.cancel(&timeoutError{CodeIdleTimeout, fmt.Sprintf("no more data from upstream %s for %v", w.upstream, w.limit.idle)})
	default:
		w.cancel(&timeoutError{CodeFirstByteTimeout, fmt.Sprintf("no first byte from upstream %s within %v", w.upstream, w.limit.first)})
	}
}

// setTimer arms the timer for the earliest time at which a read could be overdue. The caller must
// hold mu.
func (w *watch) setTimer(now time.Duration) {
	next := now + w.limit.idle
	if w.overdue != 0 {
		next = w.overdue
	}
	w.timer.Reset(min(next, w.limit.total) - now)
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
}
