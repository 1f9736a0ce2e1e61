package operator

import (
	"context"
	"fmt"
	"strings"

	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/telemetry"
)

// Drop removes a letter, and the body that is stored for it.
func (p *DeadLetterActions) Drop(ctx context.Context, seq uint64) error {
	l, err := p.letter(ctx, seq)
	if err != nil {
		return err
	}
	if err := p.remove(ctx, l); err != nil {
		return fmt.Errorf("drop dead letter %d: %w", seq, err)
	}
	return nil
}

// remove takes a letter out of the stream, and then its body out of the object
// store: the other order could leave a letter that nothing can be made of. Another
// caller may have removed it.
func (p *DeadLetterActions) remove(ctx context.Context, l letter) error {
	err := p.Streams.Delete(ctx, l.seq)
	if err != nil || !strings.HasPrefix(l.GetDataRef().GetName(), publisher.LetterBodies) { // else the job's, or none
		return err
	}
	if err := p.Bodies.Delete(ctx, publisher.BodyOf(l.GetDataRef())); err != nil {
		p.Logger.WarnContext(ctx, "could not delete dead letter body, left to expire",
			"sequence", l.seq, "object", l.GetDataRef().GetName(), telemetry.KeyError, err)
	}
	return nil
}
