package operator

import (
	"context"
	"fmt"
	"strings"

	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/telemetry"
)

// Drop removes a dead letter and its body.
func (p *DeadLetterActions) Drop(ctx context.Context, seq uint64) error {
	l, err := p.deadLetter(ctx, seq)
	if err != nil {
		return err
	}
	if err := p.remove(ctx, l); err != nil {
		return fmt.Errorf("drop dead letter %d: %w", seq, err)
	}
	return nil
}

// remove deletes a dead letter and then its body. In the opposite order, a failure could leave a
// dead letter without its request. remove succeeds if another caller has already removed the dead
// letter.
func (p *DeadLetterActions) remove(ctx context.Context, l deadLetter) error {
	err := p.Streams.Delete(ctx, l.seq)
	if err != nil || !strings.HasPrefix(l.GetDataRef().GetName(), publisher.DeadLetterBodies) { // any other body belongs to the job
		return err
	}
	if err := p.Bodies.Delete(ctx, publisher.BodyOf(l.GetDataRef())); err != nil {
		p.Logger.WarnContext(ctx, "could not delete dead letter body, left to expire",
			"sequence", l.seq, "object", l.GetDataRef().GetName(), telemetry.KeyError, err)
	}
	return nil
}
