package operator

import (
	"context"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/upstream"
)

// LookUp asks the upstream of a dead letter for its task, by the ID that we sent with the
// submission. It changes nothing. Attach does the same lookup if it needs one.
func (p *DeadLetterActions) LookUp(ctx context.Context, seq uint64) (*genbusv1.LookUp, error) {
	l, err := p.deadLetter(ctx, seq)
	if err != nil {
		return nil, err
	}
	data, err := p.data(ctx, l)
	if err != nil && errcode.CodeOf(err) != errcode.InputLost {
		return nil, err
	}
	return p.lookUp(ctx, l, data)
}

func (p *DeadLetterActions) lookUp(ctx context.Context, l deadLetter, data []byte) (*genbusv1.LookUp, error) {
	submitted := l.task()
	client, ok := p.Routes.Client(submitted)
	if l.attachable() && !ok {
		return nil, unreadable(l)
	}
	vendor, finds := client.(upstream.Finder)
	if !finds || !l.attachable() || l.GetOwnTaskId() == "" {
		return nil, errcode.New(errcode.DeadLetterUnusable,
			"dead letter %d: this upstream's protocol has no search by our ID; check the upstream's own list", l.seq)
	}
	home, _ := p.Routes.Home(submitted)
	own := upstream.TaskRef{ID: l.GetOwnTaskId()}
	var err error
	if own.Ticket, err = ticket(l, home, l.GetWork().GetModel(), data); err != nil {
		return nil, err
	}
	// Take the time of acceptance from the ID. An attached job is accepted only after its task was
	// submitted.
	found, _ := upstream.LookUp(ctx, vendor, own, task.AcceptedAt(own.ID))
	return found, nil
}
