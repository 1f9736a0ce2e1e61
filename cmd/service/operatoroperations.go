package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

type operationsCommand struct {
	List operationsListCommand `cmd:"" help:"List operations, those that were started last first."`
	Show operationsShowCommand `cmd:"" help:"Show one: how far it is, and what failed."`
	Stop operationsStopCommand `cmd:"" help:"Stop one; what it has done stays."`
}

type operationsListCommand struct {
	Limit int `help:"Most operations to list; 0 for all." default:"100"`
}

// Run lists operations, page after page.
func (c operationsListCommand) Run(ctx context.Context, o *operatorCommand, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		all := &genbusv1.ListOperationsResponse{}
		request := &genbusv1.ListOperationsRequest{}
		err := eachPage(c.Limit, func(size int32) (listed int, more bool, err error) {
			request.PageSize = size
			page, err := call.ListOperations(ctx, request)
			all.Operations = append(all.GetOperations(), page.GetOperations()...)
			request.PageToken, all.NextPageToken = page.GetNextPageToken(), page.GetNextPageToken()
			return len(all.GetOperations()), request.GetPageToken() != "", err
		})
		if err != nil {
			return err
		}
		return call.operations(all)
	})
}

// operationID names an operation on the command line.
type operationID struct {
	ID string `arg:"" help:"Id of the operation."`
}

type operationsShowCommand struct{ operationID }

// Run shows an operation.
func (c operationsShowCommand) Run(ctx context.Context, o *operatorCommand, out io.Writer) error {
	op, err := o.operation(ctx, out, c.ID)
	if err != nil {
		return err
	}
	return printer{out: out, json: o.JSON}.operation(op)
}

type operationsStopCommand struct{ operationID }

// Run stops an operation.
func (c operationsStopCommand) Run(ctx context.Context, o *operatorCommand, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.StopOperation(ctx, &genbusv1.StopOperationRequest{Id: c.ID})
		if err != nil {
			return answered(err)
		}
		return call.say(answer.GetOperation(), "operation %s is %s", c.ID, stateWord(answer.GetOperation()))
	})
}

func (p printer) operations(m *genbusv1.ListOperationsResponse) error {
	if p.json {
		return p.asJSON(m)
	}
	if len(m.GetOperations()) == 0 {
		return p.say(m, "no operations")
	}
	var rows []string
	for _, op := range m.GetOperations() {
		done := op.GetProgress()
		rows = append(rows, cells(moment(op.GetStartedAt()), op.GetOperator(), op.GetId(), specLine(op.GetSpec()), stateWord(op),
			fmt.Sprint(atLeast(op), op.GetTotal()), fmt.Sprint(done.GetDone()), fmt.Sprint(done.GetChanged()), fmt.Sprint(done.GetFailed()), moment(done.GetUpdatedAt())))
	}
	if err := p.table("STARTED\tOPERATOR\tOPERATION\tWHAT\tSTATE\tTOTAL\tDONE\tCHANGED\tFAILED\tUPDATED", rows); err != nil {
		return err
	}
	if m.GetNextPageToken() != "" {
		return p.say(m, "There are more; see --limit.")
	}
	return nil
}

// operation writes an operation, and what failed.
func (p printer) operation(op *genbusv1.Operation) error {
	if p.json {
		return p.asJSON(op)
	}
	done := op.GetProgress()
	rows := []string{
		cells("operation", op.GetId()), cells("what", specLine(op.GetSpec())), cells("operator", op.GetOperator()), cells("started", moment(op.GetStartedAt())),
		cells("as of", moment(op.GetAsOf())), cells("state", strings.TrimSpace(stateWord(op)+" "+done.GetCode())), cells("progress", progressLine(op)),
		cells("updated", moment(done.GetUpdatedAt())), cells("replica", done.GetReplica()), cells("takeovers", fmt.Sprint(done.GetTakeovers())),
	}
	for _, code := range slices.Sorted(maps.Keys(done.GetFailedByCode())) {
		rows = append(rows, cells("failed", fmt.Sprintf("%d with %s", done.GetFailedByCode()[code], code)))
	}
	for _, f := range done.GetFailures() {
		about := f.GetJobId()
		if about == "" {
			about = fmt.Sprint("letter ", f.GetLetter())
		}
		rows = append(rows, cells("such as", about+": "+f.GetCode()))
	}
	return p.table("FIELD\tVALUE", rows)
}

// progressLine says how far an operation is. What was neither changed nor failed had ended
// already, or was gone.
func progressLine(op *genbusv1.Operation) string {
	done := op.GetProgress()
	return fmt.Sprintf("%d of %s%d done: %d changed, %d failed", done.GetDone(), atLeast(op), op.GetTotal(), done.GetChanged(), done.GetFailed())
}

func stateWord(op *genbusv1.Operation) string {
	return strings.ToLower(strings.TrimPrefix(op.GetProgress().GetState().String(), "STATE_"))
}

// specLine says what an operation does, in the words of the commands.
func specLine(s *genbusv1.OperationSpec) string {
	var words []string
	add := func(name, value string) {
		if value != "" {
			words = append(words, name+"="+value)
		}
	}
	letters := func(f *genbusv1.DeadLetterFilter) {
		add("kind", f.GetKind())
		add("tenant", f.GetTenant())
		add("code", f.GetCode())
	}
	switch work := s.GetWork().(type) {
	case *genbusv1.OperationSpec_CancelJobs:
		f := work.CancelJobs.GetFilter()
		words = append(words, "cancel")
		for _, w := range [][2]string{
			{"kind", f.GetKind()}, {"tenant", f.GetTenant()}, {"status", f.GetStatus()}, {"phase", f.GetPhase()}, {"route", f.GetRoute()}, {"model", f.GetModel()},
			{"upstream", f.GetUpstream()}, {"key", f.GetUpstreamKey()}, {"code", f.GetErrorCode()}, {"labels", strings.Join(f.GetLabels(), ",")}, {"id", f.GetId()},
			{"created_after", moment(f.GetCreatedAfter())}, {"created_before", moment(f.GetCreatedBefore())},
			{"updated_after", moment(f.GetUpdatedAfter())}, {"updated_before", moment(f.GetUpdatedBefore())},
		} {
			add(w[0], w[1])
		}
	case *genbusv1.OperationSpec_RedriveDeadLetters:
		words = append(words, "redrive")
		letters(work.RedriveDeadLetters.GetFilter())
	case *genbusv1.OperationSpec_DropDeadLetters:
		words = append(words, "drop")
		letters(work.DropDeadLetters.GetFilter())
	case *genbusv1.OperationSpec_AttachUpstreamTasks:
		words = append(words, "attach")
	}
	return strings.Join(words, " ")
}
