package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// Drop removes a letter, and the body that is stored for it.
func (p *Letters) Drop(ctx context.Context, seq uint64) error {
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
func (p *Letters) remove(ctx context.Context, l letter) error {
	own, err := p.ownsBody(ctx, l)
	if err != nil {
		return err
	}
	if err := p.Streams.Delete(ctx, l.seq); err != nil || !own {
		return err
	}
	if err := p.Bodies.Delete(ctx, publisher.BodyOf(l.GetDataRef())); err != nil {
		p.Logger.WarnContext(ctx, "the body of a removed dead letter stays until it expires",
			"sequence", l.seq, "object", l.GetDataRef().GetName(), telemetry.KeyError, err)
	}
	return nil
}

// ownsBody reports whether only the letter needs its stored body. Letters of
// older versions shared those of jobs, and of other letters of the same job.
func (p *Letters) ownsBody(ctx context.Context, l letter) (bool, error) {
	if l.GetDataRef() == nil {
		return false, nil
	}
	shared, err := p.sharesBody(ctx, l)
	if err != nil || shared {
		return false, err
	}
	if strings.HasPrefix(l.GetDataRef().GetName(), publisher.LetterBodies) {
		return true, nil
	}
	used, err := p.jobUses(ctx, l)
	return !used && err == nil, err
}

// sharesBody looks at the other letters of the same job or message.
func (p *Letters) sharesBody(ctx context.Context, l letter) (bool, error) {
	all, err := p.on(ctx, l.subject)
	return slices.ContainsFunc(all, func(other letter) bool {
		return other.seq != l.seq && other.GetDataRef().GetName() == l.GetDataRef().GetName()
	}), err
}

// jobUses reports whether the letter's job, or a later one of the same id, has the
// body too.
func (p *Letters) jobUses(ctx context.Context, l letter) (bool, error) {
	n := subject.TaskName{Kind: subject.Kind(l.GetKind()), Tenant: l.GetTenant(), ID: l.GetId()}
	e, err := p.Log.Get(ctx, n)
	if err == nil {
		return e.Job.GetExecution().GetInput().GetName() == l.GetDataRef().GetName(), nil
	}
	if !errors.Is(err, joblog.ErrNotFound) {
		return false, err
	}
	_, err = p.Items.Find(ctx, n) // accepted, and its first event not written yet
	if errors.Is(err, broker.ErrNoMessage) {
		return false, nil
	}
	return err == nil, err
}
