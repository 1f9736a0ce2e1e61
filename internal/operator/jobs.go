package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/operator/erasure"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

const (
	// maxHistory bounds the number of a job's events in an answer. A long video task has thousands.
	maxHistory = 1000
	// maxFilterLabels and maxFilter bound the size of a filter.
	maxFilterLabels = 16
	maxFilter       = 1024 // bytes per field; upstream IDs can be this long
)

// Jobs searches, describes and erases jobs of any tenant.
type Jobs struct {
	Log    *joblog.Log
	Index  *jobindex.Index
	Queue  *queue.Queue
	Eraser erasure.Eraser
	Fleet  *fleet.Member
}

// Search finds jobs in the index.
func (p Jobs) Search(ctx context.Context, m *genbusv1.ListJobsRequest) (*genbusv1.ListJobsResponse, error) {
	s, err := searchOf(m)
	if err != nil {
		return nil, err
	}
	found, err := p.Index.Search(ctx, s)
	if err != nil {
		return nil, searchError(err)
	}
	out := &genbusv1.ListJobsResponse{
		NextPageToken: found.NextToken, Total: int64(found.Total), AsOf: timestamppb.New(time.Unix(0, found.AsOf)), CompleteSince: since(found),
		TotalExact: found.Maybe == 0 && (found.Since == 0 || s.CreatedFrom > found.Since) && publisher.IsIndexed(m.GetModel()) && publisher.IsIndexed(m.GetId()),
	}
	if found.ByStatus != nil {
		out.ByStatus = map[string]int64{}
	}
	for status, n := range found.ByStatus {
		out.ByStatus[status] = int64(n)
	}
	for _, j := range found.Jobs {
		out.Jobs = append(out.Jobs, summaryOf(j))
	}
	return out, nil
}

// searchError converts an error of the index for callers.
func searchError(err error) error {
	switch {
	case errors.Is(err, jobtable.ErrPageToken):
		return errcode.New(errcode.InvalidPageToken, "page_token does not belong to a list with these filters; list again without it")
	case errors.Is(err, jobindex.ErrCatchingUp):
		return errcode.New(errcode.IndexCatchingUp, "no replica has the job index ready; list again soon").WithRetryAfter(time.Second)
	case errors.Is(err, jobindex.ErrBusy):
		return errcode.New(errcode.IndexCatchingUp, "too many operator lists at once; list again soon").WithRetryAfter(time.Second)
	}
	return err
}

// since returns the creation time of the newest job evicted from the index, or nil.
func since(found jobtable.Found) *timestamppb.Timestamp {
	if found.Since == 0 {
		return nil
	}
	return timestamppb.New(time.Unix(0, found.Since))
}

// searchOf validates a request and converts it to a search.
func searchOf(m *genbusv1.ListJobsRequest) (jobtable.Search, error) {
	var wrong []errcode.Violation
	add := func(field, format string, args ...any) {
		wrong = append(wrong, errcode.Violation{Field: field, Description: fmt.Sprintf(format, args...)})
	}
	if m.GetKind() != "" && !subject.Kind(m.GetKind()).Valid() {
		add("kind", "must be video, chat or empty")
	}
	if m.GetTenant() != "" && subject.CheckToken(m.GetTenant()) != nil {
		add("tenant", "must be a tenant's name, or empty")
	}
	if s := m.GetStatus(); s != "" && s != jobtable.Unfinished && !slices.Contains(statusWords(), s) {
		add("status", "must be %s, %s or empty", strings.Join(statusWords(), ", "), jobtable.Unfinished)
	}
	if s := m.GetPhase(); s != "" && !slices.Contains(phaseWords(), s) {
		add("phase", "must be %s or empty", strings.Join(phaseWords(), ", "))
	}
	for field, value := range map[string]string{
		"route": m.GetRoute(), "model": m.GetModel(), "upstream": m.GetUpstream(), "upstream_key": m.GetUpstreamKey(),
		"error_code": m.GetErrorCode(), "id": m.GetId(), "page_token": m.GetPageToken(),
	} {
		if len(value) > maxFilter {
			add(field, "has %d bytes; the limit is %d", len(value), maxFilter)
		}
	}
	labels, err := labelsOf(m.GetLabels())
	if err != nil {
		add("labels", "%s", err)
	}
	for field, at := range map[string]*timestamppb.Timestamp{
		"created_after": m.GetCreatedAfter(), "created_before": m.GetCreatedBefore(), "updated_after": m.GetUpdatedAfter(), "updated_before": m.GetUpdatedBefore(),
	} {
		if at != nil && at.CheckValid() != nil {
			add(field, "is not a valid time")
		}
	}
	if m.GetPageSize() < 0 {
		add("page_size", "must not be negative")
	}
	if len(wrong) > 0 {
		slices.SortFunc(wrong, func(a, b errcode.Violation) int { return cmp.Compare(a.Field, b.Field) })
		return jobtable.Search{}, errcode.Invalid(wrong)
	}
	var ids []string
	if m.GetId() != "" {
		ids = []string{m.GetId()}
	}
	return jobtable.Search{
		Filter: jobtable.Filter{
			Kind: subject.Kind(m.GetKind()), Tenant: m.GetTenant(), Status: m.GetStatus(), Phase: m.GetPhase(), Route: m.GetRoute(), Model: m.GetModel(),
			Upstream: m.GetUpstream(), Key: m.GetUpstreamKey(), ErrorCode: m.GetErrorCode(), Labels: labels, IDs: ids, Find: m.GetId(),
			CreatedFrom: jobtable.Bound(m.GetCreatedAfter()), CreatedBefore: jobtable.Bound(m.GetCreatedBefore()),
			UpdatedFrom: jobtable.Bound(m.GetUpdatedAfter()), UpdatedBefore: jobtable.Bound(m.GetUpdatedBefore()),
		},
		Oldest: m.GetOldestFirst(), Size: int(m.GetPageSize()), Token: m.GetPageToken(),
	}, nil
}

func labelsOf(pairs []string) (map[string]string, error) {
	if len(pairs) > maxFilterLabels {
		return nil, fmt.Errorf("has %d entries; the limit is %d", len(pairs), maxFilterLabels)
	}
	out := map[string]string{}
	for _, pair := range pairs {
		k, v, ok := strings.Cut(pair, "=")
		if !ok || k == "" || len(pair) > maxFilter {
			return nil, errors.New(`each must be "key=value"`)
		}
		if old, twice := out[k]; twice && old != v {
			return nil, fmt.Errorf("has two values of %q, which no job can match", errcode.Clip(k, 64))
		}
		out[k] = v
	}
	return out, nil
}

func statusWords() (out []string) {
	for s := genbusv1.JobStatus_JOB_STATUS_QUEUED; s <= genbusv1.JobStatus_JOB_STATUS_CANCELLED; s++ {
		out = append(out, task.StatusWord(s))
	}
	return out
}

func phaseWords() (out []string) {
	for p := genbusv1.JobPhase_JOB_PHASE_QUEUED; p <= genbusv1.JobPhase_JOB_PHASE_CANCELLED; p++ {
		out = append(out, task.PhaseWord(p))
	}
	return out
}

func summaryOf(j jobtable.FoundJob) *genbusv1.JobSummary {
	labels, all := j.Labels.Map()
	return &genbusv1.JobSummary{
		Kind: string(j.Kind), Tenant: j.Tenant, Id: j.ID, Status: task.StatusOf(j.Status), Phase: task.PhaseOf(j.Phase), Model: j.Model, Route: j.Route,
		Upstream: j.Upstream, UpstreamKey: j.Key, UpstreamTaskId: j.UpstreamTask, ErrorCode: j.ErrorCode, Labels: labels, MoreLabels: !all, Progress: int32(j.Progress),
		CreatedAt: timestamppb.New(j.CreatedAt()), UpdatedAt: timestamppb.New(j.UpdatedAt()),
	}
}

// Find returns the name of a job. It looks up a whole job ID in the log and any other ID in the
// index.
func (p Jobs) Find(ctx context.Context, m *genbusv1.GetJobRequest) (subject.JobName, error) {
	if m.GetId() == "" {
		return subject.JobName{}, errcode.Invalid([]errcode.Violation{{Field: "id", Description: "is missing"}})
	}
	named := &genbusv1.ListJobsRequest{Kind: m.GetKind(), Tenant: m.GetTenant(), Id: m.GetId(), PageSize: maxNamed}
	if _, err := searchOf(named); err != nil {
		return subject.JobName{}, err
	}
	if kind, ok := subject.KindOf(m.GetId()); ok && (m.GetKind() == "" || m.GetKind() == string(kind)) {
		if m.GetTenant() != "" {
			return subject.JobName{Kind: kind, Tenant: m.GetTenant(), ID: m.GetId()}, nil
		}
		switch e, err := p.Log.Find(ctx, kind, m.GetId()); {
		case err == nil:
			return e.Name(), nil
		case !errors.Is(err, joblog.ErrNotFound):
			return subject.JobName{}, err
		}
	}
	found, err := p.Search(ctx, named)
	if err != nil {
		return subject.JobName{}, err
	}
	names := namesOf(found.GetJobs())
	switch {
	case len(names) > 1:
		return subject.JobName{}, errcode.Invalid([]errcode.Violation{{Field: "id", Description: "matches several jobs: " + listed(names, found.GetTotal()) + "; choose one of them"}})
	case len(names) == 1:
		return names[0], nil
	case m.GetTenant() != "":
		return p.requested(ctx, m)
	}
	return subject.JobName{}, errcode.New(errcode.NotFound, "the job index has no job with the ID %q; the beginning of a job ID needs its kind and four more characters, and the request ID of an old job needs the tenant", errcode.Clip(m.GetId(), 64))
}

// maxNamed bounds the number of jobs that an error names for an ambiguous ID.
const maxNamed = 5

// namesOf returns the distinct names of jobs. A reused ID appears once.
func namesOf(jobs []*genbusv1.JobSummary) (out []subject.JobName) {
	for _, j := range jobs {
		if n := (subject.JobName{Kind: subject.Kind(j.GetKind()), Tenant: j.GetTenant(), ID: j.GetId()}); !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

func listed(names []subject.JobName, total int64) string {
	var out []string
	for _, n := range names {
		out = append(out, fmt.Sprintf("%s of %s", n.ID, n.Tenant))
	}
	if more := total - int64(len(names)); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, ", ")
}

// requested looks up a request ID in the log. It is for jobs that were evicted from the index.
func (p Jobs) requested(ctx context.Context, m *genbusv1.GetJobRequest) (subject.JobName, error) {
	for _, k := range subject.Kinds {
		n := subject.JobName{Kind: k, Tenant: m.GetTenant(), ID: subject.JobID(k, m.GetTenant(), subject.RequestSource(m.GetId()))}
		if m.GetKind() != "" && m.GetKind() != string(k) {
			continue
		}
		_, err := p.Log.Get(ctx, n)
		if !errors.Is(err, joblog.ErrNotFound) {
			return n, err
		}
	}
	return subject.JobName{}, errcode.New(errcode.NotFound, "tenant %s has no job with the ID or request ID %q", m.GetTenant(), errcode.Clip(m.GetId(), 64))
}

// Describe combines information from a job's log and its work item. e has no sequence if the job
// has been accepted but is not in the log yet.
func (p Jobs) Describe(ctx context.Context, e joblog.Entry) (*genbusv1.GetJobResponse, error) {
	history, cut, err := p.Log.History(ctx, e.Name(), maxHistory)
	if err != nil {
		return nil, err
	}
	if len(history) > 0 {
		e = history[len(history)-1].Entry
	}
	out := &genbusv1.GetJobResponse{
		Job: summaryOfEntry(e), RequestId: e.Job.GetRequestId(), RetryOf: e.Job.GetRetryOf(), Stream: e.Job.GetExecution().GetStream(), Error: e.Job.GetError(),
		HistoryCut: cut, TraceId: traceID(e.Job.GetExecution().GetTraceparent()),
	}
	if by, limited := task.StartBy(e.Job); limited {
		out.StartBy = timestamppb.New(by)
	}
	if by, limited := task.EndBy(e.Job); limited {
		out.EndBy = timestamppb.New(by)
	}
	for i, h := range history {
		shown := historyEvent(h)
		shown.ReplicaAddress = p.Fleet.Address(shown.GetReplica())
		if i > 0 {
			shown.SincePrevious = durationpb.New(h.Time.Sub(history[i-1].Time))
		}
		out.History = append(out.History, shown)
	}
	out.ReplacedBy = p.Index.ReplacedBy(ctx, e)
	out.WorkItem, err = p.place(ctx, e, history)
	return out, err
}

func summaryOfEntry(e joblog.Entry) *genbusv1.JobSummary {
	f, n := publisher.FactsOf(e.Job), e.Name()
	video, _ := e.Job.(*genbusv1.VideoTask) // nil for a chat
	return &genbusv1.JobSummary{
		Kind: string(n.Kind), Tenant: n.Tenant, Id: n.ID, Status: e.Job.GetStatus(), Phase: e.Job.GetExecution().GetPhase(), Model: e.Job.GetModel(), Route: f.Route,
		Upstream: f.Upstream, UpstreamKey: f.Key, UpstreamTaskId: f.UpstreamTask, ErrorCode: f.ErrorCode, Labels: e.Job.GetLabels(), Progress: video.GetProgress(),
		CreatedAt: e.Job.GetCreatedAt(), UpdatedAt: e.Job.GetUpdatedAt(),
	}
}

// historyEvent converts one event, without request and result.
func historyEvent(e joblog.Recorded) *genbusv1.JobHistoryEvent {
	x, f := e.Job.GetExecution(), publisher.FactsOf(e.Job)
	out := &genbusv1.JobHistoryEvent{
		Version: e.Version(), Time: timestamppb.New(e.Time), Status: e.Job.GetStatus(), Phase: x.GetPhase(), Attempt: x.GetAttempt(),
		Upstream: f.Upstream, UpstreamKey: f.Key, UpstreamTaskId: f.UpstreamTask, ErrorCode: f.ErrorCode,
		UpstreamHttpStatus: e.Job.GetError().GetUpstreamHttpStatus(), NotBefore: x.GetNotBefore(), Replica: x.GetWriter(), Sequence: e.Seq, Headers: map[string]string{},
	}
	for name := range e.Header {
		out.Headers[name] = strings.ToValidUTF8(e.Header.Get(name), string(utf8.RuneError)) // another program may have written it
	}
	if v, ok := e.Job.(*genbusv1.VideoTask); ok {
		out.Progress, out.UpstreamStatus = v.GetProgress(), v.GetUpstreamStatus()
	}
	return out
}

// traceID returns the trace ID of a W3C traceparent.
func traceID(parent string) string {
	if parts := strings.Split(parent, "-"); len(parts) >= 4 && len(parts[1]) == 32 {
		return parts[1]
	}
	return ""
}

// place locates a job's work item. It returns nil if the job has none.
func (p Jobs) place(ctx context.Context, e joblog.Entry, history []joblog.Recorded) (*genbusv1.WorkItemPlace, error) {
	item, err := p.Queue.Items.Find(ctx, e.Name())
	if errors.Is(err, broker.ErrNoMessage) {
		return nil, nil //nolint:nilnil // the job has no work item
	}
	if err != nil {
		return nil, err
	}
	out := &genbusv1.WorkItemPlace{Since: timestamppb.New(item.Time)}
	switch phase := e.Job.GetExecution().GetPhase(); {
	case p.Queue.Items.Waits(item):
		out.State = genbusv1.WorkItemPlace_STATE_WAITING
		out.Ahead, err = p.Queue.Items.StoredBefore(ctx, item)
	case phase == genbusv1.JobPhase_JOB_PHASE_QUEUED && e.Job.GetExecution().GetFirstSubmitAt() == nil:
		out.State = genbusv1.WorkItemPlace_STATE_READY
		p.addHolder(ctx, out, e.Name().ID)
		out.ReplicaGone = false // no replica has written an event of its own
	default:
		out.State, out.Replica = genbusv1.WorkItemPlace_STATE_IN_HAND, e.Job.GetExecution().GetWriter()
		out.ReplicaAddress = p.Fleet.Address(out.GetReplica())
		if since := heldSince(history, out.GetReplica()); !since.IsZero() {
			out.Since = timestamppb.New(since)
		}
		p.addHolder(ctx, out, e.Name().ID)
	}
	return out, err
}

// addHolder asks all replicas which of them holds a job. The log names only the last writer, which
// may have stopped, and a replica that takes the job over writes nothing until the job changes. If
// the replicas cannot be asked, out stays unchanged.
func (p Jobs) addHolder(ctx context.Context, out *genbusv1.WorkItemPlace, id string) {
	states, silent, err := p.Fleet.AskForHolder(ctx, id)
	if err != nil {
		return
	}
	out.ReplicaGone = ctx.Err() == nil // otherwise the replicas had too little time to answer
	for _, s := range states {
		if s.GetHeldJob() != nil {
			out.Holder, out.HolderAddress, out.Held, out.ReplicaGone = s.GetId(), s.GetAddress(), s.GetHeldJob(), false
			return
		}
		out.ReplicaGone = out.GetReplicaGone() && s.GetId() != out.GetReplica()
	}
	for _, s := range silent {
		if s.GetId() == out.GetReplica() {
			out.ReplicaHeardAt = s.GetHeardAt()
		}
	}
}

// heldSince returns the time since which all events were written by the replica. It returns the
// zero time if another replica wrote the last event.
func heldSince(history []joblog.Recorded, replica string) (since time.Time) {
	for _, e := range slices.Backward(history) {
		if e.Job.GetExecution().GetWriter() != replica {
			break
		}
		since = e.Time
	}
	return since
}
