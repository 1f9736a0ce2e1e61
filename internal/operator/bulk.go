package operator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/upstream"
)

const (
	// maxTasks bounds the list of AttachUpstreamTasks.
	maxTasks = 1000
	// maxNamedTasks bounds the number of wrong list entries that an error names.
	maxNamedTasks = 10
	// indexMargin is the margin by which the index must be past as_of before jobs are listed. It is
	// needed because a job's first event is stored some time after the job's acceptance, and
	// because the clocks of replicas differ.
	indexMargin = 2 * time.Second
	// indexWait bounds the wait for the index, and indexPoll is the interval between checks.
	indexWait = 15 * time.Second
	indexPoll = 200 * time.Millisecond
	// countTime bounds the time for counting, which reads dead letters one by one.
	countTime = 5 * time.Second
)

// Bulk acts on many jobs or dead letters in one call. Each method checks its request and returns an
// Action that does the work. All fields are required.
type Bulk struct {
	Jobs        Jobs
	DeadLetters *DeadLetterActions
	Cancel      Cancel
}

// Cancel cancels an unfinished job if holds returns true for its log entry. It reports whether it
// has cancelled the job.
type Cancel func(ctx context.Context, n subject.JobName, holds func(joblog.Entry) bool) (cancelled bool, err error)

// CancelJobs cancels the unfinished jobs that match a filter.
func (b Bulk) CancelJobs(m *genbusv1.CancelJobsRequest) (Action, error) {
	f := proto.CloneOf(m.GetFilter())
	if f == nil {
		f = &genbusv1.ListJobsRequest{}
	}
	all := proto.Size(f) == 0 || proto.Equal(f, &genbusv1.ListJobsRequest{Status: jobtable.Unfinished})
	if f.GetStatus() == "" {
		f.Status = jobtable.Unfinished
	}
	var wrong []errcode.Violation
	if f.GetOldestFirst() || f.GetPageSize() != 0 || f.GetPageToken() != "" {
		wrong = append(wrong, errcode.Violation{Field: "filter", Description: "must not set oldest_first, page_size or page_token: it applies to all matching jobs"})
	}
	if s := f.GetStatus(); s != "" && s != jobtable.Unfinished && task.TerminalWord(s) {
		wrong = append(wrong, errcode.Violation{Field: "filter.status", Description: "must be the status of unfinished jobs: others cannot be cancelled"})
	}
	if _, err := searchOf(f); err != nil {
		return Action{}, err
	}
	return newAction(m, &genbusv1.CancelJobsRequest{Filter: f}, append(wrong, checkEverything(m, m.GetEverything(), all)...), work{
		existing: func(context.Context) (deadletter.Extent, error) {
			now, err := b.DeadLetters.Streams.Broker.Clock().Now()
			return deadletter.Extent{At: now}, err
		},
		count: func(ctx context.Context, at deadletter.Extent, p *genbusv1.BulkProgress) error {
			page, err := b.Jobs.Search(ctx, jobFilter(f, at.At, ""))
			if err == nil {
				p.Total, p.TotalExact, p.CompleteSince = page.GetTotal(), page.GetTotalExact(), page.GetCompleteSince()
			}
			return err
		},
		steps: func(ctx context.Context, at deadletter.Extent, cursor string) ([]step, string, error) {
			return b.cancels(ctx, jobFilter(f, at.At, cursor), at.At)
		},
	})
}

// RedriveDeadLetters resubmits the requests of dead letters as new jobs.
func (b Bulk) RedriveDeadLetters(m *genbusv1.RedriveDeadLettersRequest) (Action, error) {
	f := orEmpty(m.GetFilter())
	return b.eachDeadLetter(m, &genbusv1.RedriveDeadLettersRequest{Filter: f}, f, m.GetEverything(), func(ctx context.Context, letters *DeadLetterActions, seq uint64) error {
		_, err := letters.Redrive(ctx, seq)
		return err
	})
}

// DropDeadLetters removes dead letters and their bodies.
func (b Bulk) DropDeadLetters(m *genbusv1.DropDeadLettersRequest) (Action, error) {
	f := orEmpty(m.GetFilter())
	return b.eachDeadLetter(m, &genbusv1.DropDeadLettersRequest{Filter: f}, f, m.GetEverything(), func(ctx context.Context, letters *DeadLetterActions, seq uint64) error {
		return letters.Drop(ctx, seq)
	})
}

// AttachUpstreamTasks creates jobs for the upstream tasks of dead letters. A missing dead letter
// counts as a failure, because its sequence may be mistyped.
func (b Bulk) AttachUpstreamTasks(m *genbusv1.AttachUpstreamTasksRequest) (Action, error) {
	tasks := m.GetTasks()
	return newAction(m, &genbusv1.AttachUpstreamTasksRequest{Tasks: tasks}, checkTasks(tasks), work{
		existing: b.DeadLetters.Streams.Extent,
		count: func(ctx context.Context, at deadletter.Extent, p *genbusv1.BulkProgress) error {
			p.Total, p.TotalExact = int64(len(tasks)), true
			if !m.GetDryRun() {
				return nil // a run detects missing dead letters in its steps
			}
			letters := b.DeadLetters.within(at)
			for _, t := range tasks {
				_, err := letters.deadLetter(ctx, t.GetSequence())
				switch {
				case errcode.CodeOf(err) == errcode.DeadLetterNotFound:
					p.Total--
					addFailure(p, step{deadLetter: t.GetSequence()}, errcode.DeadLetterNotFound, err)
				case err != nil:
					return err
				}
			}
			return nil
		},
		steps: func(_ context.Context, at deadletter.Extent, _ string) (steps []step, next string, err error) {
			letters := b.DeadLetters.within(at)
			for _, t := range tasks {
				steps = append(steps, step{deadLetter: t.GetSequence(), do: func(ctx context.Context) (bool, error) {
					_, err := letters.Attach(ctx, t.GetSequence(), t.GetUpstreamTaskId())
					return err == nil, err
				}})
			}
			return steps, "", nil
		},
	})
}

func orEmpty(f *genbusv1.DeadLetterFilter) *genbusv1.DeadLetterFilter {
	if f == nil {
		return &genbusv1.DeadLetterFilter{}
	}
	return f
}

// eachDeadLetter returns an action on the dead letters that match a filter.
func (b Bulk) eachDeadLetter(m BulkRequest, asked proto.Message, f *genbusv1.DeadLetterFilter, everything bool, do func(context.Context, *DeadLetterActions, uint64) error) (Action, error) {
	query := func(at deadletter.Extent, token string) Query {
		return Query{Kind: f.GetKind(), Tenant: f.GetTenant(), Code: f.GetCode(), Size: maxPage, Token: token, stored: &at}
	}
	return newAction(m, asked, checkEverything(m, everything, proto.Size(f) == 0), work{
		existing: b.DeadLetters.Streams.Extent,
		count: func(ctx context.Context, at deadletter.Extent, p *genbusv1.BulkProgress) error {
			begin := time.Now()
			for token := ""; ; {
				page, err := b.DeadLetters.List(ctx, query(at, token))
				if err != nil {
					return err
				}
				p.Total += int64(len(page.DeadLetters))
				if token = page.Next; token == "" {
					p.TotalExact = true
					return nil
				}
				if time.Since(begin) > countTime {
					return nil
				}
			}
		},
		steps: func(ctx context.Context, at deadletter.Extent, cursor string) (steps []step, next string, err error) {
			page, err := b.DeadLetters.List(ctx, query(at, cursor))
			letters := b.DeadLetters.within(at)
			for _, l := range page.DeadLetters {
				steps = append(steps, step{deadLetter: l.GetSequence(), do: func(ctx context.Context) (bool, error) {
					err := do(ctx, letters, l.GetSequence())
					return err == nil, ifThere(err)
				}})
			}
			return steps, page.Next, err
		},
	})
}

// BulkRequest is the request of a bulk action.
type BulkRequest interface {
	proto.Message
	GetDryRun() bool
	GetToken() string
}

// checkEverything rejects a run whose filter matches everything unless the request also sets the
// field everything.
func checkEverything(m BulkRequest, everything, all bool) []errcode.Violation {
	if !all || everything || m.GetDryRun() {
		return nil
	}
	return []errcode.Violation{{Field: "everything", Description: "must be true (--all on the command line) if the filter selects everything of all tenants"}}
}

func checkTasks(tasks []*genbusv1.LetterTask) (wrong []errcode.Violation) {
	add := func(field, format string, args ...any) {
		wrong = append(wrong, errcode.Violation{Field: field, Description: fmt.Sprintf(format, args...)})
	}
	if n := len(tasks); n == 0 || n > maxTasks {
		add("tasks", "has %d dead letters; it must have 1 to %d", n, maxTasks)
	}
	listed := map[uint64]bool{}
	for i, t := range tasks {
		switch at := fmt.Sprintf("tasks[%d].sequence", i); {
		case len(wrong) >= maxNamedTasks:
			return wrong
		case t.GetSequence() == 0:
			add(at, "is required")
		case listed[t.GetSequence()]:
			add(at, "is listed twice; a dead letter becomes one job")
		case len(t.GetUpstreamTaskId()) > upstream.MaxTaskID:
			add(fmt.Sprintf("tasks[%d].upstream_task_id", i), "has %d bytes; at most %d are an ID", len(t.GetUpstreamTaskId()), upstream.MaxTaskID)
		}
		listed[t.GetSequence()] = true
	}
	return wrong
}

// isKnown reports whether this version knows all fields of a message. Ignoring a newer client's
// filter field would match more than the caller asked for.
func isKnown(m protoreflect.Message) bool {
	known := len(m.GetUnknown()) == 0
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil || f.IsMap(): // no request has a map
		case f.IsList():
			for i := range v.List().Len() {
				known = known && isKnown(v.List().Get(i).Message())
			}
		default:
			known = known && isKnown(v.Message())
		}
		return known
	})
	return known
}

// jobFilter restricts a filter to jobs accepted no later than until, and lists the oldest first.
// Cancelled jobs no longer match, but this does not shift the next page, because a cursor refers to
// a job and not to an offset.
func jobFilter(given *genbusv1.ListJobsRequest, until time.Time, cursor string) *genbusv1.ListJobsRequest {
	f := proto.CloneOf(given)
	f.OldestFirst, f.PageSize, f.PageToken = true, maxPage, cursor
	if end := until.Add(1); f.GetCreatedBefore() == nil || end.Before(f.GetCreatedBefore().AsTime()) {
		f.CreatedBefore = timestamppb.New(end)
	}
	return f
}

// cancels returns the steps for a page of jobs. It first waits until the index has all jobs
// accepted no later than until.
func (b Bulk) cancels(ctx context.Context, f *genbusv1.ListJobsRequest, until time.Time) (steps []step, next string, err error) {
	var page *genbusv1.ListJobsResponse
	for begin := time.Now(); ; {
		if page, err = b.Jobs.Search(ctx, f); err != nil {
			return nil, "", err
		}
		if !page.GetAsOf().AsTime().Before(until.Add(indexMargin)) {
			break
		}
		if time.Since(begin) > indexWait {
			return nil, "", errcode.New(errcode.IndexCatchingUp, "the job index is more than %s behind and may lack matching jobs", indexWait).WithRetryAfter(indexWait)
		}
		if err := broker.Wait(ctx, indexPoll); err != nil {
			return nil, "", err
		}
	}
	for _, j := range page.GetJobs() {
		n := subject.JobName{Kind: subject.Kind(j.GetKind()), Tenant: j.GetTenant(), ID: j.GetId()}
		holds := func(e joblog.Entry) bool { // a different creation time means that the job was erased and its ID reused
			return e.Job.GetCreatedAt().AsTime().Equal(j.GetCreatedAt().AsTime()) && stillMatches(f, e)
		}
		steps = append(steps, step{jobID: n.ID, do: func(ctx context.Context) (bool, error) {
			cancelled, err := b.Cancel(ctx, n, holds)
			return cancelled, ifThere(err)
		}})
	}
	return steps, page.GetNextPageToken(), nil
}

// stillMatches reports whether a job still matches its filter according to the log. The index may
// lag behind the log, and a step may have waited. stillMatches checks only fields that can change.
func stillMatches(f *genbusv1.ListJobsRequest, e joblog.Entry) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	facts, updated := publisher.FactsOf(e.Job), e.Job.GetUpdatedAt().AsTime().UnixNano()
	from, before := jobtable.Bound(f.GetUpdatedAfter()), jobtable.Bound(f.GetUpdatedBefore())
	status := f.GetStatus() == jobtable.Unfinished && !e.Terminal() || is(f.GetStatus(), task.StatusWord(e.Job.GetStatus()))
	return status && is(f.GetPhase(), facts.Phase) && is(f.GetRoute(), facts.Route) && is(f.GetUpstream(), facts.Upstream) &&
		is(f.GetUpstreamKey(), facts.Key) && is(f.GetErrorCode(), facts.ErrorCode) && (from == 0 || updated >= from) && (before == 0 || updated < before)
}

// ifThere ignores errors about missing jobs and dead letters, because an earlier run or another
// operator has already handled them.
func ifThere(err error) error {
	if slices.Contains([]errcode.Code{errcode.TaskNotFound, errcode.ChatNotFound, errcode.DeadLetterNotFound}, errcode.CodeOf(err)) {
		return nil
	}
	return err
}
