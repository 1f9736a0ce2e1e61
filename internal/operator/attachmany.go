package operator

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/bulk"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

const (
	fieldTasks = "spec.attach_upstream_tasks.tasks"
	// maxNamedTasks is how many wrong entries a refusal names: enough to see what is wrong.
	maxNamedTasks = 10
)

func checkTasks(m *genbusv1.AttachUpstreamTasks) (wrong []errcode.Violation) {
	add := func(field, format string, args ...any) {
		wrong = append(wrong, errcode.Violation{Field: field, Description: fmt.Sprintf(format, args...)})
	}
	if n := len(m.GetTasks()); n == 0 || n > maxTasks {
		add(fieldTasks, "has %d letters; it must have 1 to %d", n, maxTasks)
	}
	listed := map[uint64]bool{}
	for i, t := range m.GetTasks() {
		switch at := fieldOfTask(i); {
		case len(wrong) >= maxNamedTasks:
			return wrong
		case t.GetSequence() == 0:
			add(at, "is required")
		case listed[t.GetSequence()]:
			add(at, "is listed twice; a letter becomes one job")
		}
		listed[t.GetSequence()] = true
	}
	return wrong
}

func fieldOfTask(i int) string { return fmt.Sprintf("%s[%d].sequence", fieldTasks, i) }

// planAttachments refuses letters that the operation does not cover, and notes which job each of
// the others becomes. When a letter is gone that tells one that was attached from one that there
// never was.
func (p Operations) planAttachments(ctx context.Context, op *genbusv1.Operation, tasks []*genbusv1.LetterTask) error {
	op.Total, op.TotalExact = int64(len(tasks)), true
	op.LetterJobs = make([]*genbusv1.LetterJob, len(tasks))
	var wrong []errcode.Violation
	for i, t := range tasks {
		covered, err := p.noteJob(ctx, op, i, t.GetSequence())
		if err != nil {
			return err
		}
		if !covered {
			wrong = append(wrong, errcode.Violation{Field: fieldOfTask(i), Description: fmt.Sprintf("is %d; there was no such letter at as_of", t.GetSequence())})
		}
		if len(wrong) == maxNamedTasks {
			break
		}
	}
	if len(wrong) > 0 {
		return errcode.Invalid(wrong)
	}
	return nil
}

// noteJob notes which job a letter becomes, and reports whether the operation covers it. A letter
// that is gone has none: that call may be a repeat, which the operation of its id answers.
func (p Operations) noteJob(ctx context.Context, op *genbusv1.Operation, i int, seq uint64) (covered bool, err error) {
	op.LetterJobs[i] = &genbusv1.LetterJob{}
	if !extentOf(op).Reaches(seq) {
		return false, nil
	}
	m, err := p.Letters.Streams.At(ctx, seq)
	switch {
	case errors.Is(err, broker.ErrNoMessage):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("dead letter %d: %w", seq, err)
	case !extentOf(op).Has(m):
		return false, nil
	}
	l := decode(m)
	if !l.attachable() {
		return true, nil // its step says why
	}
	source := l.source()
	r := admission.Request{Kind: subject.Video, Tenant: l.GetTenant(), Source: &source}
	op.LetterJobs[i] = &genbusv1.LetterJob{Tenant: r.Tenant, Id: r.JobID()}
	return true, nil
}

// attachments go on at the cursor, the number of the letter in the list.
func (p Operations) attachments(op *genbusv1.Operation, tasks []*genbusv1.LetterTask, cursor string) (steps []bulk.Step, next string, err error) {
	from := 0
	if cursor != "" {
		if from, err = strconv.Atoi(cursor); err != nil || from < 0 || from > len(tasks) {
			return nil, "", errcode.New(errcode.InvalidPageToken, "%q is no place in the list of letters", cursor)
		}
	}
	to := min(from+maxPage, len(tasks))
	for i, t := range tasks[from:to] {
		steps = append(steps, p.attachment(op, t, op.GetLetterJobs()[from+i]))
	}
	if to < len(tasks) {
		next = strconv.Itoa(to)
	}
	return steps, next, nil
}

// attachment makes a job of one letter. A letter that is gone has failed, unless its job is
// there: a sequence may be mistyped.
func (p Operations) attachment(op *genbusv1.Operation, t *genbusv1.LetterTask, job *genbusv1.LetterJob) bulk.Step {
	letters := p.Letters.within(extentOf(op))
	return bulk.Step{Letter: t.GetSequence(), Do: func(ctx context.Context) (changed bool, err error) {
		_, err = letters.Attach(ctx, t.GetSequence(), t.GetUpstreamTaskId())
		if errcode.CodeOf(err) != errcode.LetterNotFound || job.GetId() == "" {
			return err == nil, err
		}
		made, readErr := letters.isAccepted(ctx, subject.TaskName{Kind: subject.Video, Tenant: job.GetTenant(), ID: job.GetId()})
		switch {
		case readErr != nil:
			return false, readErr
		case made:
			return false, nil
		}
		return false, err
	}}
}

// isAccepted reports whether there is a job, also one whose first event is not written yet.
func (p *DeadLetterActions) isAccepted(ctx context.Context, n subject.TaskName) (bool, error) {
	_, err := p.Log.Get(ctx, n)
	if !errors.Is(err, joblog.ErrNotFound) {
		return err == nil, err
	}
	_, err = p.Items.Find(ctx, n)
	if errors.Is(err, broker.ErrNoMessage) {
		return false, nil
	}
	return err == nil, err
}
