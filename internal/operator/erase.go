package operator

import (
	"context"
	"fmt"

	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
)

// Erase removes what is stored of a job of any tenant that has ended: events,
// chunks and bodies. Dead letters of it stay. A job that the log does not have is
// tasklog.ErrNotFound.
func (op *Operator) Erase(ctx context.Context, n subject.TaskName) error {
	if err := CheckName(n); err != nil {
		return err
	}
	if kind, ok := subject.KindOf(n.ID); !ok || kind != n.Kind {
		return fmt.Errorf("erase: %w", tasklog.ErrNotFound)
	}
	e, err := op.o.Log.Get(ctx, n)
	if err != nil {
		return err
	}
	if !e.Terminal() {
		return fault.New(fault.NotTerminal, "%s is %s; only a job that has ended can be erased", n.ID, task.StatusWord(e.Job.GetStatus())).ForJob(n.ID)
	}
	return op.o.Eraser.Erase(ctx, e)
}

// CheckName says what is wrong with a caller's kind and tenant of a job. An id that
// is none is a job that does not exist.
func CheckName(n subject.TaskName) error {
	var wrong []fault.Violation
	if !n.Kind.Valid() {
		wrong = append(wrong, fault.Violation{Field: "kind", Description: "must be video or chat"})
	}
	if subject.CheckToken(n.Tenant) != nil {
		wrong = append(wrong, fault.Violation{Field: "tenant", Description: "must be a tenant's name"})
	}
	if len(wrong) > 0 {
		return fault.Invalid(wrong)
	}
	return nil
}
