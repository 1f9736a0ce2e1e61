package console

import (
	"context"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/task"
)

const jobsPageSize = 50

// filters are the query parameters that filter the job list.
var filters = []string{"kind", "status", "phase", "tenant", "route", "model", "upstream", "upstream_key", "error_code", "id", "label", "created_after", "created_before", "updated_after", "updated_before"}

func loadJobs(ctx context.Context, c *Console, r *query) (any, error) {
	if err := r.only(append(filters, "order", "page_token")...); err != nil {
		return nil, err
	}
	m, err := jobsRequest(r)
	if err != nil {
		return nil, err
	}
	return c.api.ListJobs(ctx, m)
}

// tab is a link to the list of jobs with one status.
type tab struct {
	Status, Title string
	// Jobs is the number of matching jobs, if Counted.
	Jobs    int64
	Counted bool
}

// Tabs returns a tab for each status of the job list, with the other filters of the page.
func (p page) Tabs() []tab {
	tabs := []tab{
		{Title: "All"}, {Status: "unfinished", Title: "Unfinished"}, {Status: "queued", Title: "Queued"}, {Status: "in_progress", Title: "In progress"},
		{Status: "completed", Title: "Completed"}, {Status: "failed", Title: "Failed"}, {Status: "cancelled", Title: "Cancelled"},
	}
	jobs, ok := p.Data.(*genbusv1.ListJobsResponse)
	for i, t := range tabs {
		tabs[i].Counted = ok && (len(jobs.GetByStatus()) > 0 || jobs.GetTotal() == 0)
		for status, n := range jobs.GetByStatus() {
			if t.Status == "" || t.Status == status || t.Status == "unfinished" && !task.TerminalWord(status) {
				tabs[i].Jobs += n
			}
		}
	}
	return tabs
}

// Cancellable reports whether the tab has jobs that a bulk action can cancel.
func (t tab) Cancellable() bool {
	return t.Jobs > 0 && slices.Contains([]string{"unfinished", "queued", "in_progress"}, t.Status)
}

// Filtered reports whether the job list is filtered.
func (p page) Filtered() bool {
	return slices.ContainsFunc(filters, func(name string) bool { return p.Query(name) != "" })
}

// FilteredMore reports whether a filter is set that the job list shows only on request.
func (p page) FilteredMore() bool {
	return slices.ContainsFunc([]string{"kind", "phase", "upstream_key", "id", "label", "created_after", "created_before", "order"}, func(name string) bool { return p.Query(name) != "" })
}

// jobsRequest converts the query parameters of a page to an API request.
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

// readTime parses a time from a browser's input field or in RFC 3339 format. It returns the zero
// time for an empty text.
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

// took formats how long a job took or, while it runs, has taken. The browser computes the latter.
func took(j *genbusv1.JobSummary) template.HTML {
	if ended(j.GetStatus()) {
		return template.HTML(spanOf(j.GetUpdatedAt().AsTime().Sub(j.GetCreatedAt().AsTime()))) //nolint:gosec // digits and units
	}
	return since(j.GetCreatedAt())
}

type jobPage struct {
	*genbusv1.GetJobResponse
	Timeline timeline
	Ended    bool
	// Bodies reports whether operators may read requests and replies.
	Bodies bool
	// TraceURL is the address of the job's trace. It is empty if no tracing UI is configured.
	TraceURL string
}

func (p jobPage) heading() string { return p.GetJob().GetId() }

func loadJob(ctx context.Context, c *Console, r *query) (any, error) {
	out, err := c.api.GetJob(ctx, &genbusv1.GetJobRequest{Kind: r.PathValue("kind"), Tenant: r.PathValue("tenant"), Id: r.PathValue("id")})
	if err != nil {
		return nil, err
	}
	return jobPage{
		GetJobResponse: out, Timeline: timelineOf(out, time.Now()), Ended: ended(out.GetJob().GetStatus()),
		Bodies: c.Config.Now().OperatorsReadBodies, TraceURL: c.Config.Now().Telemetry.TraceURLOf(out.GetTraceId()),
	}, nil
}

// find redirects to the job that an ID of any kind identifies. If that fails, it redirects to the
// job list, filtered by the ID.
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
