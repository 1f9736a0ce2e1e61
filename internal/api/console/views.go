package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/protocol"
	"github.com/genbus/genbus/internal/subject"
)

// views are the pages that read something, by their patterns below Path.
var views = map[string]view{
	"":                                  {"overview", "Overview", "overview", loadOverview, true},
	"/jobs":                             {"jobs", "Jobs", "jobs", loadJobs, true},
	"/jobs/{kind}/{tenant}/{id}":        {"job", "Job", "jobs", loadJob, true},
	"/jobs/{kind}/{tenant}/{id}/bodies": {"bodies", "Request and reply", "jobs", loadBodies, false},
	"/operations":                       {"operations", "Operations", "operations", loadOperations, true},
	"/operations/new":                   {"bulk", "Do it to many", "operations", loadBulk, false},
	"/operations/{id}":                  {"operation", "Operation", "operations", loadOperation, true},
	"/decisions":                        {"decisions", "Needs a decision", "decisions", loadDecisions, true},
	"/decisions/{sequence}":             {"decision", "Dead letter", "decisions", loadDecision, true},
	"/routes":                           {"routes", "Routes", "routes", loadRoutes, true},
	"/upstreams":                        {"upstreams", "Upstreams and keys", "upstreams", loadUpstreams, true},
	"/tenants":                          {"tenants", "Tenants", "tenants", loadTenants, true},
	"/replicas":                         {"replicas", "Replicas", "replicas", loadReplicas, true},
	"/streams":                          {"streams", "Streams", "streams", loadStreams, true},
	"/audit":                            {"audit", "Audit", "audit", loadAudit, true},
	"/try":                              {"try", "Try", "try", loadTry, false},
}

// errcodeOf is the code of a call's error.
func errcodeOf(err error) errcode.Code { return errcode.FromStatus(err).Code }

// jobsPageSize is how many jobs a page of the list has.
const jobsPageSize = 50

// filters are the parameters of the list of jobs that go into its request as they are.
var filters = []string{"kind", "status", "phase", "tenant", "route", "model", "upstream", "upstream_key", "error_code", "id", "label", "created_after", "created_before", "updated_after", "updated_before"}

func loadJobs(ctx context.Context, c *Console, r *query) (any, error) {
	m, err := jobsRequest(r)
	if err != nil {
		return nil, err
	}
	return c.api.ListJobs(ctx, m)
}

// Filtered reports whether the list of jobs leaves anything out by a filter.
func (p page) Filtered() bool {
	return slices.ContainsFunc(filters, func(name string) bool { return p.Query(name) != "" })
}

// jobsRequest is what a list of jobs is asked for by its address.
func jobsRequest(r *query) (*genbusv1.ListJobsRequest, error) {
	m := &genbusv1.ListJobsRequest{
		Kind: r.get("kind"), Status: r.get("status"), Phase: r.get("phase"), Tenant: r.get("tenant"), Route: r.get("route"), Model: r.get("model"),
		Upstream: r.get("upstream"), UpstreamKey: r.get("upstream_key"), ErrorCode: r.get("error_code"), Id: strings.TrimSpace(r.get("id")),
		OldestFirst: r.get("order") == "oldest", PageSize: jobsPageSize, PageToken: r.get("page_token"),
	}
	for _, label := range r.values["label"] {
		if label = strings.TrimSpace(label); label != "" {
			m.Labels = append(m.Labels, label)
		}
	}
	var wrong []errcode.Violation
	for name, at := range map[string]**timestamppb.Timestamp{
		"created_after": &m.CreatedAfter, "created_before": &m.CreatedBefore, "updated_after": &m.UpdatedAfter, "updated_before": &m.UpdatedBefore,
	} {
		t, ok := readTime(r.get(name))
		if !ok {
			wrong = append(wrong, errcode.Violation{Field: name, Description: "must be a time in UTC, such as 2026-11-26T15:04"})
		} else if !t.IsZero() {
			*at = timestamppb.New(t)
		}
	}
	if len(wrong) > 0 {
		return nil, errcode.Invalid(wrong)
	}
	return m, nil
}

// readTime reads a time as browsers' fields and RFC 3339 have it; zero for an empty one.
func readTime(text string) (t time.Time, ok bool) {
	if text == "" {
		return t, true
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return t, false
}

type jobPage struct {
	*genbusv1.GetJobResponse
	Timeline timeline
	Ended    bool
	// Bodies is whether operators read requests and replies.
	Bodies bool
	// Paused is whether it waits because its route is paused.
	Paused bool
	// TraceURL is where the job's trace is shown; empty where that is not configured.
	TraceURL string
}

func loadJob(ctx context.Context, c *Console, r *query) (any, error) {
	var header metadata.MD
	out, err := c.api.GetJob(ctx, &genbusv1.GetJobRequest{Kind: r.PathValue("kind"), Tenant: r.PathValue("tenant"), Id: r.PathValue("id")}, grpc.Header(&header))
	if err != nil {
		return nil, err
	}
	return jobPage{
		GetJobResponse: out, Timeline: timelineOf(out, time.Now()), Ended: ended(out.GetJob().GetStatus()),
		Paused: slices.Contains(header.Get(subject.HeaderNotice), core.NoticeRoutePaused), Bodies: c.Config.Now().OperatorsReadBodies, TraceURL: c.Config.Now().Telemetry.TraceURLOf(out.GetTraceId()),
	}, nil
}

func ended(s genbusv1.JobStatus) bool {
	return s == genbusv1.JobStatus_JOB_STATUS_COMPLETED || s == genbusv1.JobStatus_JOB_STATUS_FAILED || s == genbusv1.JobStatus_JOB_STATUS_CANCELLED
}

// find leads to the job with an id, of whatever sort, or to the list of those that may be meant.
func (c *Console) find(w http.ResponseWriter, r *http.Request) {
	who, err := c.viewer(r)
	if needsLogin(err) {
		c.askForLogin(w, r)
		return
	}
	id, tenant := strings.TrimSpace(r.URL.Query().Get("q")), strings.TrimSpace(r.URL.Query().Get("tenant"))
	if id == "" {
		http.Redirect(w, r, Path+"/jobs", http.StatusSeeOther)
		return
	}
	ctx, cancel := context.WithTimeout(withKey(r.Context(), who), loadTimeout)
	defer cancel()
	out, err := c.api.GetJob(ctx, &genbusv1.GetJobRequest{Id: id, Tenant: tenant})
	if err == nil {
		j := out.GetJob()
		http.Redirect(w, r, jobURL(j.GetKind(), j.GetTenant(), j.GetId()), http.StatusSeeOther)
		return
	}
	http.Redirect(w, r, Path+"/jobs?"+url.Values{"id": {id}, "tenant": {tenant}}.Encode(), http.StatusSeeOther)
}

// letterCodes are the codes by which letters are chosen in the list: those that need most care.
var letterCodes = []errcode.Code{
	errcode.SubmissionUnknown, errcode.OrphanedSubmission, errcode.UpstreamRemoved, errcode.Poisoned, errcode.InvalidRequest,
}

func loadDecisions(ctx context.Context, c *Console, r *query) (any, error) {
	return c.api.ListDeadLetters(ctx, &genbusv1.ListDeadLettersRequest{
		Kind: r.get("kind"), Tenant: r.get("tenant"), Code: r.get("code"), PageSize: jobsPageSize, PageToken: r.get("page_token"),
	})
}

type decisionPage struct {
	*genbusv1.StoredDeadLetter
	Stakes stakes
}

// loadDecision reads a letter without its request, which is a prompt: who reads that is recorded.
func loadDecision(ctx context.Context, c *Console, r *query) (any, error) {
	seq, err := sequenceOf(r.Request)
	if err != nil {
		return nil, err
	}
	l, err := c.letter(ctx, seq)
	if err != nil {
		return nil, err
	}
	return decisionPage{StoredDeadLetter: l, Stakes: stakesOf(l)}, nil
}

func loadRoutes(ctx context.Context, c *Console, _ *query) (any, error) {
	routes, err := c.api.ListRoutes(ctx, &genbusv1.ListRoutesRequest{})
	if err != nil {
		return nil, err
	}
	orphans, err := c.api.ListOrphans(ctx, &genbusv1.ListOrphansRequest{})
	if err != nil {
		return nil, err
	}
	return struct {
		Routes  []*genbusv1.RouteState
		Orphans []*genbusv1.OrphanedRoute
	}{routes.GetRoutes(), orphans.GetRoutes()}, nil
}

func loadUpstreams(ctx context.Context, c *Console, _ *query) (any, error) {
	out, err := c.api.ListUpstreams(ctx, &genbusv1.ListUpstreamsRequest{})
	if err != nil {
		return nil, err
	}
	return struct {
		*genbusv1.ListUpstreamsResponse
		Names []string
	}{out, upstreamNames(out)}, nil
}

func upstreamNames(out *genbusv1.ListUpstreamsResponse) (names []string) {
	for _, u := range out.GetUpstreams() {
		if !slices.Contains(names, u.GetUpstream().GetName()) {
			names = append(names, u.GetUpstream().GetName())
		}
	}
	return names
}

func loadTenants(ctx context.Context, c *Console, r *query) (any, error) {
	return c.api.ListTenants(ctx, &genbusv1.ListTenantsRequest{Kind: r.get("kind"), Route: r.get("route"), PageSize: 100})
}

func loadReplicas(ctx context.Context, c *Console, _ *query) (any, error) {
	return c.api.ListReplicas(ctx, &genbusv1.ListReplicasRequest{})
}

func loadStreams(ctx context.Context, c *Console, _ *query) (any, error) {
	return c.api.ListStreams(ctx, &genbusv1.ListStreamsRequest{})
}

func loadAudit(ctx context.Context, c *Console, r *query) (any, error) {
	return c.api.ListAuditRecords(ctx, &genbusv1.ListAuditRecordsRequest{
		Operator: r.get("operator"), Action: r.get("action"), JobId: strings.TrimSpace(r.get("job_id")), Route: r.get("route"), Tenant: r.get("tenant"),
		Letter: r.number("letter"), PageSize: jobsPageSize, PageToken: r.get("page_token"),
	})
}

// tryModel is a model of videos, and the protocol of its route, which the body of a request is
// in.
type tryModel struct{ Name, Protocol string }

// tryPage is what the forms of Try offer.
type tryPage struct {
	Videos []tryModel
	Chats  []string
	// Keys is whether a tenant's key is needed; NATS is the subject of a request.
	Keys          bool
	VideoSubject  string
	ChatSubject   string
	GRPC, NATSURL string
}

func loadTry(_ context.Context, c *Console, _ *query) (any, error) {
	cfg := c.Config.Now()
	p := tryPage{Keys: len(cfg.APIKeys) > 0, GRPC: c.GRPCAddr, NATSURL: c.NATSURL}
	for _, r := range cfg.Routes {
		for _, m := range r.Models {
			m = strings.TrimSuffix(m, "*") // a pattern is no model: who looks types the rest
			if r.Kind == string(subject.Chat) {
				p.Chats = append(p.Chats, m)
			} else {
				p.Videos = append(p.Videos, tryModel{Name: m, Protocol: r.Protocol})
			}
		}
	}
	rank := func(m tryModel) int { // those of the primary protocol come first
		if m.Protocol == protocol.Primary.Name {
			return 0
		}
		return 1
	}
	slices.SortFunc(p.Videos, func(a, b tryModel) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name)) })
	slices.Sort(p.Chats)
	tenant := config.DefaultTenant
	if p.Keys {
		tenant = "TENANT"
	}
	p.VideoSubject, p.ChatSubject = c.Names.Call(subject.Video, tenant), c.Names.Call(subject.Chat, tenant)
	return p, nil
}
