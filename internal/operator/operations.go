package operator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/bulk"
	"github.com/genbus/genbus/internal/clock"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

const (
	// maxTasks bounds the list of AttachUpstreamTasks, and maxSpec what an operation is to do in
	// bytes: it is one message.
	maxTasks = 1000
	maxSpec  = 256 << 10
	// settled is how long after the moment that an operation covers the index has to be, so
	// that it has the jobs that were accepted just before: their first event is stored after
	// that, and the clocks of replicas differ.
	settled = 2 * time.Second
	// countTime bounds the count of letters, which are read one by one.
	countTime = 5 * time.Second
)

// Operations is what operators do to many jobs or letters: what there is to do, which a
// bulk.Runner does. All fields are required.
type Operations struct {
	Jobs    Jobs
	Letters *DeadLetterActions
	// Cancel ends a job while something holds of it, and says what has become of it.
	Cancel func(ctx context.Context, n subject.TaskName, holds func(joblog.Entry) bool) (genbusv1.JobStatus, error)
}

// Plan checks what is asked for, and counts what there is to do.
func (p Operations) Plan(ctx context.Context, m *genbusv1.StartOperationRequest) (*genbusv1.Operation, error) {
	op := &genbusv1.Operation{Id: m.GetId(), Spec: m.GetSpec()}
	if m.GetCountOnly() {
		op.Id = ""
	}
	if wrong := p.check(m); len(wrong) > 0 {
		return nil, errcode.Invalid(wrong)
	}
	if err := p.cover(ctx, op, m.GetAsOf()); err != nil {
		return nil, err
	}
	var err error
	switch work := op.GetSpec().GetWork().(type) {
	case *genbusv1.OperationSpec_CancelJobs:
		err = p.countJobs(ctx, op, work.CancelJobs.GetFilter())
	case *genbusv1.OperationSpec_RedriveDeadLetters:
		err = p.countLetters(ctx, op, work.RedriveDeadLetters.GetFilter())
	case *genbusv1.OperationSpec_DropDeadLetters:
		err = p.countLetters(ctx, op, work.DropDeadLetters.GetFilter())
	case *genbusv1.OperationSpec_AttachUpstreamTasks:
		err = p.planAttachments(ctx, op, work.AttachUpstreamTasks.GetTasks())
	}
	return op, err
}

// check says what is wrong with a request.
func (p Operations) check(m *genbusv1.StartOperationRequest) (wrong []errcode.Violation) {
	add := func(field, description string) {
		wrong = append(wrong, errcode.Violation{Field: field, Description: description})
	}
	if m.GetId() != "" && subject.CheckToken(m.GetId()) != nil {
		add("id", `must be 1 to 64 letters, digits, "-" and "_", or empty`)
	}
	if at := m.GetAsOf(); at != nil && (at.CheckValid() != nil || at.AsTime().After(time.Now().Add(clock.Limit))) {
		add("as_of", "must be a legal time, and not be to come")
	}
	if spec := m.GetSpec(); spec.GetWork() != nil && !bulk.IsKnown(spec) {
		add("spec", "has a field that this version of genbus does not know; it would leave that out, and may choose more than is meant")
	}
	if n := proto.Size(m.GetSpec()); n > maxSpec {
		add("spec", fmt.Sprintf("has %d bytes; at most %d are taken", n, maxSpec))
	}
	all := false // whether the filter chooses all there are
	switch work := m.GetSpec().GetWork().(type) {
	case *genbusv1.OperationSpec_CancelJobs:
		f := work.CancelJobs.GetFilter()
		if f.GetOldestFirst() || f.GetPageSize() != 0 || f.GetPageToken() != "" {
			add("spec.cancel_jobs.filter", "must have no oldest_first, page_size or page_token: it is about all jobs that match")
		}
		if s := f.GetStatus(); s != "" && s != jobindex.Unfinished && task.TerminalWord(s) {
			add("spec.cancel_jobs.filter.status", "must be of jobs that have not ended: the others are not cancelled")
		}
		rest := proto.CloneOf(f)
		if rest.GetStatus() == jobindex.Unfinished {
			rest.Status = ""
		}
		all = rest == nil || proto.Size(rest) == 0
	case *genbusv1.OperationSpec_RedriveDeadLetters:
		all = proto.Size(work.RedriveDeadLetters.GetFilter()) == 0
	case *genbusv1.OperationSpec_DropDeadLetters:
		all = proto.Size(work.DropDeadLetters.GetFilter()) == 0
	case *genbusv1.OperationSpec_AttachUpstreamTasks:
		wrong = append(wrong, checkTasks(work.AttachUpstreamTasks)...)
	default:
		add("spec", "must say what is to be done: cancel_jobs, redrive_dead_letters, drop_dead_letters or attach_upstream_tasks")
	}
	if all && !m.GetEverything() && !m.GetCountOnly() {
		add("everything", "must be true (a command has --all for it) where the filter is empty: it chooses all there are, of all tenants")
	}
	return wrong
}

// cover notes what exists now, and when that is. Letters are covered by their sequences, which
// no clock can get wrong: what is redriven and fails at once has a later one.
func (p Operations) cover(ctx context.Context, op *genbusv1.Operation, given *timestamppb.Timestamp) error {
	op.AsOf = timestamppb.Now()
	if op.GetSpec().GetCancelJobs() == nil {
		e, err := p.Letters.Streams.Extent(ctx)
		if err != nil {
			return err
		}
		op.AsOf, op.LastDeadLetter, op.LastRejectedLetter = timestamppb.New(e.At), e.Dead, e.Rejected
	}
	if given != nil && given.AsTime().Before(op.GetAsOf().AsTime()) {
		op.AsOf = given
	}
	return nil
}

// jobFilter is what the index is asked for: a job that was cancelled leaves the filter, and the
// place of the next page stays.
func jobFilter(op *genbusv1.Operation, cursor string) *genbusv1.ListJobsRequest {
	f := &genbusv1.ListJobsRequest{}
	if given := op.GetSpec().GetCancelJobs().GetFilter(); given != nil {
		f = proto.CloneOf(given)
	}
	if f.GetStatus() == "" {
		f.Status = jobindex.Unfinished
	}
	f.OldestFirst, f.PageSize, f.PageToken = true, maxPage, cursor
	if end := op.GetAsOf().AsTime().Add(1); f.GetCreatedBefore() == nil || end.Before(f.GetCreatedBefore().AsTime()) {
		f.CreatedBefore = timestamppb.New(end)
	}
	return f
}

func (p Operations) countJobs(ctx context.Context, op *genbusv1.Operation, given *genbusv1.ListJobsRequest) error {
	if given != nil {
		if _, err := searchOf(given); err != nil {
			return err
		}
	}
	page, err := p.Jobs.Search(ctx, jobFilter(op, ""))
	if err == nil {
		op.Total, op.TotalExact, op.CompleteSince = page.GetTotal(), page.GetTotalExact(), page.GetCompleteSince()
	}
	return err
}

func (p Operations) countLetters(ctx context.Context, op *genbusv1.Operation, f *genbusv1.DeadLetterFilter) error {
	begin := time.Now()
	for token := ""; ; {
		page, err := p.Letters.List(ctx, letterQuery(op, f, token))
		if err != nil {
			return err
		}
		op.Total += int64(len(page.Letters))
		if token = page.Next; token == "" {
			op.TotalExact = true
			return nil
		}
		if time.Since(begin) > countTime {
			return nil
		}
	}
}

func letterQuery(op *genbusv1.Operation, f *genbusv1.DeadLetterFilter, token string) Query {
	return Query{
		Kind: f.GetKind(), Tenant: f.GetTenant(), Code: f.GetCode(), Size: maxPage, Token: token, stored: new(extentOf(op)),
	}
}

// extentOf is which letters an operation covers.
func extentOf(op *genbusv1.Operation) deadletter.Extent {
	return deadletter.Extent{Dead: op.GetLastDeadLetter(), Rejected: op.GetLastRejectedLetter(), At: op.GetAsOf().AsTime()}
}

// Steps are the steps of an operation, for bulk.Runner.
func (p Operations) Steps(ctx context.Context, op *genbusv1.Operation, cursor string) ([]bulk.Step, string, error) {
	letters := p.Letters.within(extentOf(op))
	switch work := op.GetSpec().GetWork().(type) {
	case *genbusv1.OperationSpec_CancelJobs:
		return p.cancels(ctx, op, cursor)
	case *genbusv1.OperationSpec_RedriveDeadLetters:
		return p.each(ctx, letterQuery(op, work.RedriveDeadLetters.GetFilter(), cursor), func(ctx context.Context, seq uint64) error {
			_, err := letters.Redrive(ctx, seq)
			return err
		})
	case *genbusv1.OperationSpec_DropDeadLetters:
		return p.each(ctx, letterQuery(op, work.DropDeadLetters.GetFilter(), cursor), letters.Drop)
	case *genbusv1.OperationSpec_AttachUpstreamTasks:
		return p.attachments(op, work.AttachUpstreamTasks.GetTasks(), cursor)
	}
	return nil, "", errcode.New(errcode.Internal, "this version of genbus does not know what operation %s is to do", op.GetId())
}

func (p Operations) cancels(ctx context.Context, op *genbusv1.Operation, cursor string) (steps []bulk.Step, next string, err error) {
	filter := jobFilter(op, cursor)
	page, err := p.Jobs.Search(ctx, filter)
	if err != nil {
		return nil, "", err
	}
	holds := func(e joblog.Entry) bool { return stillMatches(filter, e) }
	if page.GetAsOf().AsTime().Before(op.GetAsOf().AsTime().Add(settled)) {
		return nil, "", errcode.New(errcode.IndexCatchingUp, "the index of jobs may lack some that operation %s covers", op.GetId()).WithRetryAfter(time.Second)
	}
	for _, j := range page.GetJobs() {
		n := subject.TaskName{Kind: subject.Kind(j.GetKind()), Tenant: j.GetTenant(), ID: j.GetId()}
		steps = append(steps, bulk.Step{JobID: n.ID, Do: func(ctx context.Context) (bool, error) {
			status, err := p.Cancel(ctx, n, holds)
			// One that this operation has cancelled before a crash is not counted yet.
			return status == genbusv1.JobStatus_JOB_STATUS_CANCELLED, gone(err)
		}})
	}
	return steps, page.GetNextPageToken(), nil
}

// stillMatches reports whether a job fits the filter by which it was found, as the log has it
// now: the index is behind, and a step may wait. What never changes is not looked at.
func stillMatches(f *genbusv1.ListJobsRequest, e joblog.Entry) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	facts, updated := publisher.FactsOf(e.Job), e.Job.GetUpdatedAt().AsTime().UnixNano()
	from, before := jobindex.Bound(f.GetUpdatedAfter()), jobindex.Bound(f.GetUpdatedBefore())
	status := f.GetStatus() == jobindex.Unfinished && !e.Terminal() || is(f.GetStatus(), task.StatusWord(e.Job.GetStatus()))
	return status && is(f.GetPhase(), facts.Phase) && is(f.GetRoute(), facts.Route) && is(f.GetUpstream(), facts.Upstream) &&
		is(f.GetUpstreamKey(), facts.Key) && is(f.GetErrorCode(), facts.ErrorCode) && (from == 0 || updated >= from) && (before == 0 || updated < before)
}

func (p Operations) each(ctx context.Context, q Query, do func(context.Context, uint64) error) (steps []bulk.Step, next string, err error) {
	page, err := p.Letters.List(ctx, q)
	for _, l := range page.Letters {
		steps = append(steps, letterStep(l.GetSequence(), do))
	}
	return steps, page.Next, err
}

func letterStep(seq uint64, do func(context.Context, uint64) error) bulk.Step {
	return bulk.Step{Letter: seq, Do: func(ctx context.Context) (bool, error) {
		err := do(ctx, seq)
		return err == nil, gone(err)
	}}
}

// gone leaves out that there is nothing to change any more: it was done before a crash, or by
// another operator.
func gone(err error) error {
	if slices.Contains([]errcode.Code{errcode.TaskNotFound, errcode.ChatNotFound, errcode.LetterNotFound}, errcode.CodeOf(err)) {
		return nil
	}
	return err
}
