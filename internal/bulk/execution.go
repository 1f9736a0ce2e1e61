package bulk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/telemetry"
)

// Why an execution ends before its operation does.
var (
	errTaken    = errors.New("another replica goes on with the operation")
	errStopping = errors.New("an operator stops the operation")
	// errForgotten: the stream was purged, or created again.
	errForgotten = errors.New("the operation is not in GENBUS_OPS any more")
)

// execution is an operation while this replica does it. One goroutine does its steps, and one
// stores how far it is.
type execution struct {
	r   *Runner
	op  *genbusv1.Operation
	log *slog.Logger

	wake   chan struct{} // has keep check at once
	halted atomic.Bool   // an operator has stopped it
	full   atomic.Bool   // GENBUS_OPS has had no room for too long: no more pages are taken

	mu sync.Mutex
	// p is as of the last page of steps that was done, so that the steps that are repeated
	// after a crash are not counted twice.
	p         *genbusv1.OperationProgress
	stored    *genbusv1.OperationProgress // as GENBUS_OPS has it
	seq       uint64                      // of the stored progress; 0 for none
	fullSince time.Time                   // since when there is no room for it; zero where there is
}

// halt stops the operation.
func (x *execution) halt() {
	x.halted.Store(true)
	x.rouse()
}

func (x *execution) rouse() {
	select {
	case x.wake <- struct{}{}:
	default: // it is about to
	}
}

// run does the operation until it ends, or ctx does.
func (x *execution) run(ctx context.Context) {
	if x.seq != 0 {
		x.p.Takeovers++
	}
	x.p.Replica = x.r.o.Self
	if err := x.insistOnStore(ctx); err != nil {
		x.log.Debug("an operation is left to others", telemetry.KeyError, err)
		return
	}
	x.log.Info("an operation is begun", "total", x.op.GetTotal(), "done", x.p.GetDone(), "takeovers", x.p.GetTakeovers())
	walking, end := context.WithCancelCause(ctx)
	kept, endKeeping := context.WithCancel(x.r.work) // also while this replica stops, until the page is done
	var keeping sync.WaitGroup
	keeping.Go(func() { x.keep(kept, end) })
	err := x.walk(walking)
	end(nil)
	endKeeping()
	keeping.Wait()
	switch {
	case err == nil:
		x.finish(ctx, genbusv1.OperationProgress_STATE_DONE, "")
	case isNoMore(err):
		x.log.Warn("an operation that this replica was doing is not its any more", telemetry.KeyError, err)
	case errors.Is(err, errStopping):
		x.finish(ctx, genbusv1.OperationProgress_STATE_STOPPED, "")
	case ctx.Err() != nil:
		x.release()
	default:
		x.log.Error("an operation cannot go on", telemetry.KeyCode, string(codeOf(err)), telemetry.KeyError, err)
		x.finish(ctx, genbusv1.OperationProgress_STATE_FAILED, codeOf(err))
	}
}

// isNoMore reports whether an error says that the operation is not to be done here any more.
func isNoMore(err error) bool { return errors.Is(err, errTaken) || errors.Is(err, errForgotten) }

// keep says that this replica goes on, and stores the progress where it has changed, at growing
// intervals. It ends the walk where the operation is not to be done here any more.
func (x *execution) keep(ctx context.Context, end context.CancelCauseFunc) {
	interval := x.r.t.store
	due := time.Now().Add(interval)
	x.r.announce(x.op.GetId())
	for failing := false; x.next(ctx); {
		if x.stopping() {
			end(errStopping)
		}
		stored, err := x.check(ctx, !time.Now().Before(due))
		switch {
		case isNoMore(err):
			end(err)
			return
		case err != nil && !failing && ctx.Err() == nil:
			x.log.Warn("the progress of an operation is not stored", telemetry.KeyCode, string(codeOf(err)), telemetry.KeyError, err)
		case stored:
			interval = min(2*interval, x.r.t.longest)
			due = time.Now().Add(interval)
		}
		if failing = err != nil; failing {
			interval, due = x.r.t.store, time.Now()
		}
		if x.stopping() { // as it was read
			end(errStopping)
		}
	}
}

// next says from time to time that this replica goes on. It reports whether keep is to check
// again, when it is.
func (x *execution) next(ctx context.Context) bool {
	t := time.NewTimer(x.r.t.check)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-x.wake: // unannounced: two replicas that do it would wake each other
	case <-t.C:
		x.r.announce(x.op.GetId())
	}
	return true
}

// check stores the progress where it is due and has changed. Else it reads whether someone else
// has written.
func (x *execution) check(ctx context.Context, due bool) (stored bool, err error) {
	x.mu.Lock()
	changed := !proto.Equal(x.p, x.stored)
	x.mu.Unlock()
	if due && changed {
		err = x.store(ctx)
		return err == nil, err
	}
	_, seq, err := x.r.progress(ctx, x.op.GetId())
	if err == nil && seq != x.seq { // only this goroutine stores while the walk goes on
		err = x.store(ctx)
		stored = err == nil
	}
	return stored, err
}

func (x *execution) stopping() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.halted.Load() || x.p.GetState() == genbusv1.OperationProgress_STATE_STOPPING
}

// walk does page after page of steps. The error is what ended ctx, or why there are no more.
func (x *execution) walk(ctx context.Context) error {
	if x.stopping() {
		return errStopping
	}
	for tries := 0; ctx.Err() == nil; {
		if x.full.Load() {
			_ = broker.Wait(ctx, x.r.t.retry)
			continue
		}
		steps, next, err := x.steps(ctx)
		switch {
		case err != nil && ctx.Err() == nil && passing(err):
			if tries++; tries == x.r.t.tries { // the index is some moments behind at first
				x.waits(codeOf(err), err)
			}
			_ = broker.Wait(ctx, x.r.t.retry)
			continue
		case err != nil && ctx.Err() == nil:
			return err
		case err != nil:
			return context.Cause(ctx)
		}
		tries = 0
		x.waits("", nil)
		results, whole := x.page(ctx, steps)
		switch {
		case whole:
			x.add(results, next)
		case errors.Is(context.Cause(ctx), errStopping): // what was done counts: no replica goes on
			x.add(results, x.p.GetCursor())
		}
		if whole && next == "" {
			return nil
		}
	}
	return context.Cause(ctx)
}

// steps asks for those of the next page. A panic there ends the operation: else each replica
// would die of it in turn.
func (x *execution) steps(ctx context.Context) (steps []Step, next string, err error) {
	defer func() {
		if p := recover(); p != nil {
			x.log.Error("panic in the list of an operation", telemetry.KeyError, p, "stack", string(debug.Stack()))
			steps, next, err = nil, "", errcode.New(errcode.Internal, "a bug in genbus stopped operation %s", x.op.GetId())
		}
	}()
	return x.r.o.Steps(ctx, x.op, x.p.GetCursor()) // nothing else changes the cursor
}

// waits notes why the operation does not go on for now, and logs that once; no code where it does.
func (x *execution) waits(code errcode.Code, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil {
		x.log.Warn("an operation waits: its next steps cannot be read for now", telemetry.KeyCode, string(code), telemetry.KeyError, err)
	}
	x.p.Code = string(code)
}

// result is what came of a step.
type result struct {
	step    Step
	done    bool // false where it was not tried, or not as often as it may be
	changed bool
	err     error
}

// page does some steps, a few at a time. A page that is begun is done to its end where this
// replica stops, so that the next one does not do it once more. whole is false where steps
// are left.
func (x *execution) page(ctx context.Context, steps []Step) (results []result, whole bool) {
	results = make([]result, len(steps))
	slots := make(chan struct{}, parallel)
	var all sync.WaitGroup
	for i, s := range steps {
		slots <- struct{}{}
		if cause := context.Cause(ctx); isNoMore(cause) || errors.Is(cause, errStopping) || x.r.work.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-slots }()
			results[i] = x.insist(ctx, s)
		})
	}
	all.Wait()
	for _, r := range results {
		if !r.done {
			return results, false
		}
	}
	return results, true
}

// insist does a step, and tries it again where that may help. While the broker does not
// answer that is no try.
func (x *execution) insist(ctx context.Context, s Step) result {
	wait := x.r.t.retry
	for try := 1; ; try++ {
		changed, err := x.try(s)
		if err == nil || !passing(err) || try >= x.r.t.tries && x.r.o.Broker.Trouble() == nil {
			return result{step: s, done: true, changed: changed, err: err}
		}
		if broker.Wait(ctx, wait) != nil {
			return result{step: s}
		}
		if x.r.o.Broker.Trouble() == nil {
			wait *= 2
		} else {
			try, wait = 0, x.r.t.retry
		}
	}
}

// try does a step once. One that panics must not have one replica after the other die of it.
func (x *execution) try(s Step) (changed bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			x.log.With(s.about()).Error("panic in a step of an operation", telemetry.KeyError, p, "stack", string(debug.Stack()))
			changed, err = false, errcode.New(errcode.Internal, "a bug in genbus stopped a step of operation %s", x.op.GetId())
		}
	}()
	ctx, cancel := context.WithTimeoutCause(x.r.work, x.r.t.step, fmt.Errorf("a step of an operation took longer than %s", x.r.t.step))
	defer cancel()
	return s.Do(ctx)
}

// add counts what was done, which goes on at the cursor.
func (x *execution) add(results []result, cursor string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.p.Cursor = cursor
	for _, r := range results {
		switch {
		case !r.done:
			continue
		case r.err != nil:
			x.fail(r)
		case r.changed:
			x.p.Changed++
		}
		x.p.Done++
	}
}

// fail counts a step that failed. x.mu is held.
func (x *execution) fail(r result) {
	code := string(codeOf(r.err))
	x.log.With(r.step.about()).Warn("a step of an operation failed", telemetry.KeyCode, code)
	x.p.Failed++
	if x.p.FailedByCode == nil {
		x.p.FailedByCode = map[string]int64{}
	}
	x.p.FailedByCode[code]++
	if len(x.p.GetFailures()) < maxFailures {
		x.p.Failures = append(x.p.Failures, &genbusv1.OperationFailure{JobId: r.step.JobID, Letter: r.step.Letter, Code: code})
	}
}

// store writes how far the operation is, by compare-and-set: errTaken where another replica
// has written meanwhile. An operator's stop is noted.
func (x *execution) store(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	subj := x.r.names().OperationProgress(x.op.GetId())
	for try := 1; ; try++ {
		ack, err := x.r.put(ctx, subj, x.p, x.seq)
		x.noteRoom(err)
		if err == nil {
			x.seq, x.stored = ack.Seq, proto.CloneOf(x.p)
			return nil
		}
		// Its answer may be lost, or an operator's stop came before it.
		p, seq, readErr := x.r.progress(ctx, x.op.GetId())
		switch {
		case readErr != nil || seq == x.seq || try > 3:
			return err
		case seq < x.seq:
			return errForgotten
		case p.GetReplica() != x.r.o.Self && !wasStopped(p):
			return errTaken
		}
		x.seq = seq
		if p.GetState() == genbusv1.OperationProgress_STATE_STOPPING && x.p.GetState() == genbusv1.OperationProgress_STATE_RUNNING {
			x.p.State = genbusv1.OperationProgress_STATE_STOPPING
		}
	}
}

// noteRoom has no more pages taken where GENBUS_OPS has no room for long: a crash would have all
// repeated that was done since, and no one sees how far it is. x.mu is held.
func (x *execution) noteRoom(err error) {
	switch {
	case err == nil:
		x.fullSince = time.Time{}
		x.full.Store(false)
	case !errors.Is(err, broker.ErrFull):
	case x.fullSince.IsZero():
		x.fullSince = time.Now()
	case time.Since(x.fullSince) >= x.r.t.silent && !x.full.Swap(true):
		x.log.Error("an operation waits until GENBUS_OPS has room", telemetry.KeyCode, string(errcode.StorageFull))
	}
}

// wasStopped reports whether an operator has stopped the operation before a replica began
// with it.
func wasStopped(p *genbusv1.OperationProgress) bool {
	return p.GetReplica() == "" && p.GetState() == genbusv1.OperationProgress_STATE_STOPPING
}

// finish stores the end of the operation.
func (x *execution) finish(ctx context.Context, state genbusv1.OperationProgress_State, code errcode.Code) {
	x.mu.Lock()
	x.p.State, x.p.Code, x.p.Cursor = state, string(code), ""
	end := proto.CloneOf(x.p)
	x.mu.Unlock()
	if err := x.insistOnStore(ctx); err != nil {
		x.log.Warn("the end of an operation is not stored; another replica finds it", telemetry.KeyError, err)
		return
	}
	x.log.Info("an operation has ended", "state", end.GetState().String(), "done", end.GetDone(), "changed", end.GetChanged(), "failed", end.GetFailed())
}

// insistOnStore stores the progress, and tries until that succeeds, another replica has the
// operation, or ctx ends.
func (x *execution) insistOnStore(ctx context.Context) error {
	for {
		err := x.store(x.r.work)
		if err == nil || isNoMore(err) || broker.Wait(ctx, x.r.t.retry) != nil {
			return err
		}
	}
}

// release has other replicas go on at once. Where steps in hand were cut off, they wait until
// the operation is silent.
func (x *execution) release() {
	x.mu.Lock()
	x.p.Replica = ""
	x.mu.Unlock()
	if err := x.store(x.r.work); err != nil {
		x.log.Debug("an operation is not released; others go on with it later", telemetry.KeyError, err)
	}
}
