package operator

import (
	"context"
	"fmt"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Erase removes the events, chunks and bodies of an ended job of any tenant. Its dead letters stay.
// Erase returns joblog.ErrNotFound if the log does not have the job.
func (p Jobs) Erase(ctx context.Context, n subject.JobName) error {
	if err := CheckName(n); err != nil {
		return err
	}
	if kind, ok := subject.KindOf(n.ID); !ok || kind != n.Kind {
		return fmt.Errorf("erase: %w", joblog.ErrNotFound)
	}
	e, err := p.Log.Get(ctx, n)
	if err != nil {
		return err
	}
	if !e.Terminal() {
		return errcode.New(errcode.NotTerminal, "%s is %s; only an ended job can be erased", n.ID, task.StatusWord(e.Job.GetStatus())).ForJob(n.ID)
	}
	return p.Eraser.Erase(ctx, e)
}

// CheckName validates the kind and tenant of a job name. It accepts any ID, because no job has an
// invalid one.
func CheckName(n subject.JobName) error {
	var wrong []errcode.Violation
	if !n.Kind.Valid() {
		wrong = append(wrong, errcode.Violation{Field: "kind", Description: "must be video or chat"})
	}
	if subject.CheckToken(n.Tenant) != nil {
		wrong = append(wrong, errcode.Violation{Field: "tenant", Description: "must be a tenant's name"})
	}
	if len(wrong) > 0 {
		return errcode.Invalid(wrong)
	}
	return nil
}
