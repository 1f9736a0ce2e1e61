package bulk

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/telemetry"
)

// watch looks for operations that no replica does. Replicas need not agree on their clocks:
// each measures by its own how long it heard nothing.
type watch struct {
	r          *Runner
	next       uint64 // the first sequence that operations begun later have
	unfinished map[string]*seen
}

// seen is an operation that has not ended, as far as this replica knows.
type seen struct {
	// seq is that of its last progress, and since when this replica knows it.
	seq   uint64
	since time.Time
}

func (w *watch) run(ctx context.Context) {
	for {
		if err := w.check(ctx); err != nil && ctx.Err() == nil {
			w.r.o.Logger.Debug("operations are looked for later", telemetry.KeyError, err)
			for _, s := range w.unfinished { // the broker's silence is not the other replicas'
				s.since = time.Now()
			}
		}
		if broker.Wait(ctx, w.r.t.watch) != nil {
			return
		}
	}
}

func (w *watch) check(ctx context.Context) error {
	if err := w.find(ctx); err != nil {
		return err
	}
	heard := w.r.heardOf()
	for id, s := range w.unfinished {
		if at := heard[id]; at.After(s.since) {
			s.since = at
		}
		if w.r.execution(id) != nil {
			s.since = time.Now()
			continue
		}
		p, seq, err := w.r.progress(ctx, id)
		if err != nil {
			return err
		}
		if seq != s.seq {
			s.seq, s.since = seq, time.Now()
		}
		switch left := seq != 0 && p.GetReplica() == ""; {
		case !unfinished(p.GetState()):
			delete(w.unfinished, id)
		case left || time.Since(s.since) >= w.r.t.silent:
			if err := w.takeOver(ctx, id, p, seq); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeOver goes on with an operation that no replica does, unless the stream has forgotten it.
func (w *watch) takeOver(ctx context.Context, id string, p *genbusv1.OperationProgress, seq uint64) error {
	op, err := w.r.begun(ctx, id)
	switch {
	case errcode.CodeOf(err) == errcode.OperationNotFound:
		delete(w.unfinished, id)
		return nil
	case err != nil:
		return err
	}
	w.r.do(op, p, seq)
	return nil
}

func unfinished(s genbusv1.OperationProgress_State) bool {
	return s == genbusv1.OperationProgress_STATE_RUNNING || s == genbusv1.OperationProgress_STATE_STOPPING
}

// find adds the operations that were begun since it last looked. One read tells that there
// are none.
func (w *watch) find(ctx context.Context) error {
	stream, pattern := w.r.names().Ops(), w.r.names().OperationsBegun()
	last, err := w.r.o.Broker.Last(ctx, stream, pattern)
	if errors.Is(err, broker.ErrNoMessage) {
		w.forget()
		return nil
	}
	if err != nil {
		return err
	}
	if last.Seq+1 < w.next { // the stream was created again
		w.forget()
	}
	for w.next <= last.Seq {
		m, err := w.r.o.Broker.Next(ctx, stream, pattern, w.next)
		if err != nil {
			return err
		}
		op := &genbusv1.Operation{}
		if err := proto.Unmarshal(m.Data, op); err != nil {
			w.r.o.Logger.WarnContext(ctx, "an operation cannot be read", telemetry.KeySequence, m.Seq, telemetry.KeyError, err)
		} else if IsKnown(op.GetSpec()) { // else a newer version does it
			w.unfinished[op.GetId()] = &seen{since: time.Now()}
		}
		w.next = m.Seq + 1
	}
	return nil
}

// forget is for a stream that has lost what was read of it.
func (w *watch) forget() {
	w.next = 1
	clear(w.unfinished)
}
