package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/plural"
	"github.com/genbus/genbus/internal/task"
)

type jobsCommand struct {
	List jobsListCommand `cmd:"" help:"List jobs of all tenants, newest first."`
	Show jobsShowCommand `cmd:"" help:"Show one job, its history and its current place."`

	Retry jobsRetryCommand `cmd:"" help:"Submit an ended job again, as a new job. The upstream may charge for both."`
	Body  jobsBodyCommand  `cmd:"" help:"Print a job's request, including the user's prompt, if it is still stored."`
}

// jobFilter selects jobs that match all given flags.
type jobFilter struct {
	Kind     string        `help:"Show only this kind: video or chat."`
	Tenant   string        `help:"Show only this tenant."`
	Status   string        `help:"Show only this status: queued, in_progress, completed, failed, cancelled or unfinished."`
	Phase    string        `help:"Show only this phase: a status, submitting or submitted."`
	Route    string        `help:"Show only jobs of this route."`
	Model    string        `help:"Show only jobs with this model."`
	Upstream string        `help:"Show only jobs submitted to this upstream."`
	Key      string        `help:"Show only jobs submitted with this upstream key, by name." name:"upstream-key"`
	Code     string        `help:"Show only jobs with this error code, such as deadline_exceeded."`
	Label    []string      `help:"Show only jobs with this label, key=value; may be repeated." sep:"none"`
	ID       string        `help:"Show only jobs with this job ID (or its beginning), upstream task ID or request ID." name:"id"`
	Since    time.Duration `help:"Show only jobs accepted within this duration, such as 1h."`
	Idle     time.Duration `help:"Show only jobs without an event for this duration."`
}

type jobsListCommand struct {
	jobFilter `embed:""`
	Oldest    bool `help:"List the oldest first."`
	Limit     int  `help:"Maximum jobs to list; 0 for all in the index." default:"100"`
}

// request returns the filter for a call. It rejects negative durations. As times in the future,
// they would match no job (--since) or every job (--idle).
func (c jobFilter) request(now time.Time) (*genbusv1.ListJobsRequest, error) {
	for _, f := range []struct {
		flag  string
		value time.Duration
	}{{"--since", c.Since}, {"--idle", c.Idle}} {
		if f.value < 0 {
			return nil, WrongUse("%s: %s is negative; use a duration such as 1h, or 0 for no limit", f.flag, f.value)
		}
	}
	m := &genbusv1.ListJobsRequest{
		Kind: c.Kind, Tenant: c.Tenant, Status: c.Status, Phase: c.Phase, Route: c.Route, Model: c.Model, Upstream: c.Upstream, UpstreamKey: c.Key,
		ErrorCode: c.Code, Labels: c.Label, Id: c.ID,
	}
	if c.Since > 0 {
		m.CreatedAfter = timestamppb.New(now.Add(-c.Since))
	}
	if c.Idle > 0 {
		m.UpdatedBefore = timestamppb.New(now.Add(-c.Idle))
	}
	return m, nil
}

func (c jobsListCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	request, err := c.request(time.Now())
	if err != nil {
		return err
	}
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		var all *genbusv1.ListJobsResponse
		request.OldestFirst = c.Oldest
		err := eachPage(c.Limit, func(size int32) (listed int, more bool, err error) {
			request.PageSize = size
			page, err := call.ListJobs(ctx, request)
			if err != nil {
				return 0, false, err
			}
			page.Jobs = append(all.GetJobs(), page.GetJobs()...)
			all, request.PageToken = page, page.GetNextPageToken()
			return len(all.GetJobs()), request.GetPageToken() != "", nil
		})
		if err != nil {
			return err
		}
		return call.jobs(all)
	})
}

type jobsShowCommand struct{ foundJob }

func (c jobsShowCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.GetJob(ctx, &genbusv1.GetJobRequest{Id: c.ID, Tenant: c.Tenant, Kind: c.Kind})
		if err != nil {
			return answered(err)
		}
		return call.jobDetails(answer)
	})
}

func (p printer) jobs(m *genbusv1.ListJobsResponse) error {
	if p.json {
		return p.asJSON(m)
	}
	if len(m.GetJobs()) == 0 {
		return p.message(m, "no jobs match%s", beyondIndex(m))
	}
	rows := make([]string, 0, len(m.GetJobs()))
	for _, j := range m.GetJobs() {
		rows = append(rows, cells(moment(j.GetCreatedAt()), j.GetTenant(), j.GetId(), task.PhaseWord(j.GetPhase()), moment(j.GetUpdatedAt()),
			j.GetModel(), j.GetRoute(), upstreamKeyOf(j.GetUpstream(), j.GetUpstreamKey()), j.GetUpstreamTaskId(), j.GetErrorCode(), labelsLine(j)))
	}
	if err := p.table("CREATED\tTENANT\tJOB\tPHASE\tUPDATED\tMODEL\tROUTE\tUPSTREAM\tUPSTREAM TASK\tCODE\tLABELS", rows); err != nil {
		return err
	}
	more := ""
	if m.GetNextPageToken() != "" {
		more = "; see --limit"
	}
	return p.message(m, "%d of %d%s%s", len(m.GetJobs()), m.GetTotal(), more, beyondIndex(m))
}

// beyondIndex describes the jobs that a list may lack.
func beyondIndex(m *genbusv1.ListJobsResponse) string {
	switch {
	case m.GetTotalExact():
		return ""
	case m.GetCompleteSince() == nil:
		return "; others may match, because the index does not know all of their labels"
	}
	return "; jobs accepted before " + moment(m.GetCompleteSince()) + " may be missing (limits.list_index)"
}

func labelsLine(j *genbusv1.JobSummary) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(j.GetLabels())) {
		out = append(out, k+"="+j.GetLabels()[k])
	}
	if j.GetMoreLabels() {
		out = append(out, "…")
	}
	return strings.Join(out, ",")
}

func (p printer) jobDetails(m *genbusv1.GetJobResponse) error {
	if p.json {
		return p.asJSON(m)
	}
	j := m.GetJob()
	rows := []string{
		cells("job", j.GetId()), cells("kind", j.GetKind()), cells("tenant", j.GetTenant()), cells("request id", m.GetRequestId()), cells("retry of", m.GetRetryOf()),
		cells("replaced by", strings.Join(m.GetReplacedBy(), ", ")),
		cells("phase", task.PhaseWord(j.GetPhase())), cells("model", j.GetModel()), cells("route", j.GetRoute()),
		cells("upstream", upstreamKeyOf(j.GetUpstream(), j.GetUpstreamKey())), cells("upstream task", j.GetUpstreamTaskId()), cells("labels", labelsLine(j)),
		cells("created", moment(j.GetCreatedAt())), cells("start by", moment(m.GetStartBy())), cells("end by", moment(m.GetEndBy())),
		cells("trace", m.GetTraceId()), cells("work item", workItemLine(m.GetWorkItem())),
	}
	h := m.GetWorkItem().GetHeld()
	if h.GetPollsFailed() > 0 {
		rows = append(rows, cells("polls", failuresLine(h.GetPollsFailed(), h.GetLastPollErrorAt(), h.GetLastPollError())))
	}
	if h.GetCallsFailed() > 0 {
		rows = append(rows, cells("calls", failuresLine(h.GetCallsFailed(), h.GetLastCallErrorAt(), h.GetLastCallError())))
	}
	if e := m.GetError(); e != nil {
		rows = append(rows, cells("error", e.GetCode()+": "+e.GetMessage()))
		if len(m.GetReplacedBy()) == 0 {
			rows = append(rows, cells("to do", remedy(e.GetCode())))
		}
	}
	if err := p.table("FIELD\tVALUE", rows); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(p.out); err != nil {
		return err
	}
	if m.GetHistoryCut() {
		if err := p.message(m, "only the latest %s:", plural.Count(len(m.GetHistory()), "event")); err != nil {
			return err
		}
	}
	rows = nil
	for _, h := range m.GetHistory() {
		rows = append(rows, historyLine(h))
	}
	return p.table("VERSION\tTIME\tAFTER\tPHASE\tATTEMPT\tPROGRESS\tUPSTREAM\tUPSTREAM STATUS\tHTTP\tCODE\tREPLICA", rows)
}

// failuresLine describes the number of consecutive failed polls or calls and the last failure.
func failuresLine(n uint32, at *timestamppb.Timestamp, last string) string {
	failed := plural.Form(n, "the last one failed,", fmt.Sprintf("the last %d failed, the last one", n))
	return fmt.Sprintf("%s at %s: %s", failed, moment(at), last)
}

func historyLine(h *genbusv1.JobHistoryEvent) string {
	after, progress, http := "", "", ""
	if d := h.GetSincePrevious(); d != nil {
		after = d.AsDuration().Round(time.Millisecond).String()
	}
	if h.GetProgress() > 0 {
		progress = fmt.Sprintf("%d %%", h.GetProgress())
	}
	if h.GetUpstreamHttpStatus() > 0 {
		http = fmt.Sprint(h.GetUpstreamHttpStatus())
	}
	return cells(fmt.Sprint(h.GetVersion()), h.GetTime().AsTime().Format("2006-01-02T15:04:05.000Z07:00"), after, task.PhaseWord(h.GetPhase()),
		fmt.Sprint(h.GetAttempt()), progress, upstreamKeyOf(h.GetUpstream(), h.GetUpstreamKey()), h.GetUpstreamStatus(), http, h.GetErrorCode(), cmp.Or(h.GetReplicaAddress(), h.GetReplica()))
}

// holderOf names the holder if it is not the last writer, or reports that the last writer may be
// gone.
func holderOf(w *genbusv1.WorkItemPlace) string {
	lost := "is gone"
	if w.GetReplicaHeardAt() != nil { // the replica may be hung, overloaded or killed
		lost = "does not answer (last seen at " + moment(w.GetReplicaHeardAt()) + ")"
	}
	switch {
	case w.GetHolder() != "" && w.GetHolder() != w.GetReplica():
		return "; replica " + cmp.Or(w.GetHolderAddress(), w.GetHolder()) + " holds it now"
	case w.GetReplicaGone():
		return ", which " + lost + "; no replica reports holding the job, and one takes it within the route's ack_wait or when the route resumes"
	}
	return ""
}

func workItemLine(w *genbusv1.WorkItemPlace) string {
	since := moment(w.GetSince())
	switch w.GetState() {
	case genbusv1.WorkItemPlace_STATE_WAITING:
		return fmt.Sprintf("waiting since %s, behind %d of its route", since, w.GetAhead())
	case genbusv1.WorkItemPlace_STATE_READY:
		if w.GetHolder() == "" {
			return "ready since " + since
		}
		return fmt.Sprintf("ready since %s; replica %s holds it and waits for an upstream or one of its keys", since, cmp.Or(w.GetHolderAddress(), w.GetHolder()))
	case genbusv1.WorkItemPlace_STATE_IN_HAND:
		return fmt.Sprintf("held since %s by replica %s", since, cmp.Or(w.GetReplicaAddress(), w.GetReplica())) + holderOf(w)
	case genbusv1.WorkItemPlace_STATE_UNSPECIFIED:
	}
	return "none"
}
