package bulk

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/telemetry"
)

// watch looks for operations that no replica does. Replicas need not agree on their clocks:
// each measures by its own how long nothing was stored.
type watch struct {
	r          *Runner
	next       uint64 // the first sequence that operations begun later have
	unfinished map[string]*seen
}

// seen is an operation that has not ended, as far as this replica knows.
type seen struct {
	op *genbusv1.Operation
	// seq is that of its last progress, and since when this replica knows it.
	seq   uint64
	since time.Time
}

func (w *watch) run(ctx context.Context) {
	for {
		if err := w.look(ctx); err != nil && ctx.Err() == nil {
			w.r.o.Logger.Debug("operations are looked for later", telemetry.KeyError, err)
		}
		if broker.Wait(ctx, w.r.t.watch) != nil {
			return
		}
	}
}

func (w *watch) look(ctx context.Context) error {
	if err := w.find(ctx); err != nil {
		return err
	}
	for id, s := range w.unfinished {
		if w.r.does(id) {
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
			w.r.do(s.op, p, seq)
		}
	}
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
		w.next = 1
		return nil
	}
	if err != nil {
		return err
	}
	if last.Seq+1 < w.next { // the stream was created again
		w.next = 1
	}
	for w.next <= last.Seq {
		m, err := w.r.o.Broker.Next(ctx, stream, pattern, w.next)
		if err != nil {
			return err
		}
		op := &genbusv1.Operation{}
		if err := proto.Unmarshal(m.Data, op); err != nil {
			w.r.o.Logger.WarnContext(ctx, "an operation cannot be read", telemetry.KeySequence, m.Seq, telemetry.KeyError, err)
		} else if op.GetSpec().GetWork() != nil { // else a newer version does it
			w.unfinished[op.GetId()] = &seen{op: op, since: time.Now()}
		}
		w.next = m.Seq + 1
	}
	return nil
}
