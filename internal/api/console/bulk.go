package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
)

// bulkPage is a bulk action: as it was counted, or while it runs.
type bulkPage struct {
	// BulkProgress is nil where nothing was counted: a list of tasks is asked for first.
	*genbusv1.BulkProgress
	// Do is which action it is, Filters and Tasks what was asked for, and All whether no filter was.
	Do      string
	Filters url.Values
	Tasks   string
	All     bool
	// mark stands in the page where the progress goes.
	mark string
}

// Mark is mark; a template reads exported names only.
func (p bulkPage) Mark() string { return p.mark }

func newBulkPage(r *query) bulkPage {
	p := bulkPage{Do: r.get("do"), Filters: url.Values{}, Tasks: r.get("tasks")}
	for _, name := range append(filters, "code") {
		for _, v := range r.values[name] {
			if v != "" {
				p.Filters.Add(name, v)
			}
		}
	}
	p.All = len(p.Filters) == 0 && p.Do != "attach"
	return p
}

// bulkView is the page that counts what an action would do, and offers to do it.
var bulkView = view{"bulk", "Bulk action", "bulk", loadBulk, false}

func loadBulk(ctx context.Context, c *Console, r *query) (any, error) {
	for name := range r.values { // a mistyped filter would choose more
		if !slices.Contains(append([]string{"do", "code", "tasks", "done"}, filters...), name) {
			return nil, errcode.Invalid([]errcode.Violation{{Field: name, Description: "is not a filter of a bulk action"}})
		}
	}
	p := newBulkPage(r)
	if p.Do == "attach" && p.Tasks == "" {
		return p, nil
	}
	stream, err := c.startBulk(ctx, r, true)
	if err == nil {
		p.BulkProgress, err = stream.Recv()
	}
	return p, err
}

// startBulk calls the method that a form asks for.
func (c *Console) startBulk(ctx context.Context, r *query, dryRun bool) (grpc.ServerStreamingClient[genbusv1.BulkProgress], error) {
	token, everything := r.get("token"), r.get("everything") == "yes"
	letters := &genbusv1.DeadLetterFilter{Kind: r.get("kind"), Tenant: r.get("tenant"), Code: r.get("code")}
	switch r.get("do") {
	case "cancel":
		m, err := jobsRequest(r)
		if err != nil {
			return nil, err
		}
		m.PageSize, m.PageToken, m.OldestFirst = 0, "", false
		return c.api.CancelJobs(ctx, &genbusv1.CancelJobsRequest{Filter: m, DryRun: dryRun, Token: token, Everything: everything})
	case "redrive":
		return c.api.RedriveDeadLetters(ctx, &genbusv1.RedriveDeadLettersRequest{Filter: letters, DryRun: dryRun, Token: token, Everything: everything})
	case "drop":
		return c.api.DropDeadLetters(ctx, &genbusv1.DropDeadLettersRequest{Filter: letters, DryRun: dryRun, Token: token, Everything: everything})
	case "attach":
		tasks, err := tasksOf(r.get("tasks"))
		if err != nil {
			return nil, err
		}
		return c.api.AttachUpstreamTasks(ctx, &genbusv1.AttachUpstreamTasksRequest{Tasks: tasks, DryRun: dryRun, Token: token})
	}
	return nil, errcode.Invalid([]errcode.Violation{{Field: "do", Description: "must be cancel, redrive, drop or attach"}})
}

// tasksOf reads lines of a letter's number and the upstream's ID of its task.
func tasksOf(text string) (tasks []*genbusv1.LetterTask, err error) {
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		seq, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil || len(fields) > 2 {
			return nil, errcode.Invalid([]errcode.Violation{{Field: "tasks", Description: "line " + strconv.Itoa(i+1) + " must be a dead letter number and an upstream task ID"}})
		}
		t := &genbusv1.LetterTask{Sequence: seq}
		if len(fields) == 2 {
			t.UpstreamTaskId = fields[1]
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// runBulk serves the form of bulkView: it counts a list of tasks, which has no token yet, and runs
// what was counted. The page of a run is written while the action goes on; a browser that leaves
// stops it.
func (c *Console) runBulk(w http.ResponseWriter, r *http.Request) {
	who, ok := c.form(w, r)
	if !ok {
		return
	}
	q := &query{Request: r, values: r.PostForm}
	if q.get("token") == "" {
		p, code := c.load(r.Context(), q, who, bulkView)
		c.write(w, r, code, bulkView.template, p)
		return
	}
	data := newBulkPage(q)
	data.mark = rand.Text()
	p := page{Title: "Bulk action", Version: c.Version, Nav: "bulk", Viewer: who, URL: r.URL, Data: data}
	stream, err := c.startBulk(withKey(r.Context(), who), q, false)
	if err == nil {
		data.BulkProgress, err = stream.Recv()
	}
	if err != nil {
		f := errcode.FromStatus(err)
		p.Title, p.Err, p.Data = "Not done", f.Message, message{Code: string(f.Code)}
		c.write(w, r, errcode.MeaningOf(f.Code).HTTP, "message", p)
		return
	}
	p.Data = data
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no") // for nginx
	before, after, _ := bytes.Cut(c.render("bulkrun", "layout", p), []byte(data.mark))
	out := flusher{w: w, rc: http.NewResponseController(w)}
	err = out.write(before)
	for err == nil {
		if err = out.write(c.render("bulkrun", "progress", p)); err != nil {
			break
		}
		if data.BulkProgress, err = stream.Recv(); err == nil {
			p.Data = data
		}
	}
	if !errors.Is(err, io.EOF) {
		p.Err = errcode.FromStatus(err).Message
	}
	_ = out.write(append(c.render("bulkrun", "result", p), after...)) // a browser that left has stopped it
}

// flusher writes a page in parts. Each write has the deadline that httpapi gives it.
type flusher struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (f flusher) write(text []byte) error {
	if _, err := f.w.Write(text); err != nil {
		return err
	}
	return f.rc.Flush()
}
