package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/telemetry"
)

// Bounds of one page.
const (
	defaultPage = 20
	maxPage     = 100
)

// List lists operations, those that were started last first. The next token is empty where
// there are no more.
func (r *Runner) List(ctx context.Context, size int, token string) (ops []*genbusv1.Operation, next string, err error) {
	if size < 0 {
		return nil, "", errcode.Invalid([]errcode.Violation{{Field: "page_size", Description: "must not be negative"}})
	}
	if size = min(size, maxPage); size == 0 {
		size = defaultPage
	}
	before, err := r.listFrom(ctx, token)
	if err != nil {
		return nil, "", err
	}
	// The messages of operations are few among the others, and the broker skips those. So the
	// window that is read grows until it has a page.
	for window := uint64(maxPage); before > 1; window *= 8 {
		from := before - min(before-1, window)
		found, err := r.begunBetween(ctx, from, before)
		if err != nil {
			return nil, "", err
		}
		for _, b := range slices.Backward(found) {
			if len(ops) == size {
				return ops, strconv.FormatUint(b.seq+1, 10), nil
			}
			if b.op.Progress, _, err = r.progress(ctx, b.op.GetId()); err != nil {
				return nil, "", err
			}
			if attach := b.op.GetSpec().GetAttachUpstreamTasks(); attach != nil {
				attach.Tasks, b.op.LetterJobs = nil, nil
			}
			ops = append(ops, b.op)
		}
		before = from
	}
	return ops, "", nil
}

// listFrom is the sequence before which a page begins.
func (r *Runner) listFrom(ctx context.Context, token string) (before uint64, err error) {
	if token != "" {
		if before, err = strconv.ParseUint(token, 10, 64); err != nil || before == 0 {
			return 0, errcode.New(errcode.InvalidPageToken, "page_token is not one of this list; start again without it")
		}
	}
	last, err := r.o.Broker.Last(ctx, r.names().Ops(), r.names().OperationsBegun())
	switch {
	case errors.Is(err, broker.ErrNoMessage):
		return 0, nil
	case err != nil:
		return 0, err
	case token == "":
		return last.Seq + 1, nil
	}
	return min(before, last.Seq+1), nil
}

// place is an operation without its progress, and where it is.
type place struct {
	seq uint64
	op  *genbusv1.Operation
}

// begunBetween reads the operations with sequences from one to before another.
func (r *Runner) begunBetween(ctx context.Context, from, before uint64) (out []place, err error) {
	for from < before {
		m, err := r.o.Broker.Next(ctx, r.names().Ops(), r.names().OperationsBegun(), from)
		switch {
		case errors.Is(err, broker.ErrNoMessage):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("list operations: %w", err)
		case m.Seq >= before:
			return out, nil
		}
		op := &genbusv1.Operation{}
		if err := proto.Unmarshal(m.Data, op); err != nil {
			r.o.Logger.WarnContext(ctx, "an operation cannot be read", telemetry.KeySequence, m.Seq, telemetry.KeyError, err)
		} else {
			out = append(out, place{seq: m.Seq, op: op})
		}
		from = m.Seq + 1
	}
	return out, nil
}
