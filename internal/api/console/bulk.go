package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/grpc"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/grpcstatus"
)

// bulkPage shows the count or the progress of a bulk action.
type bulkPage struct {
	// BulkProgress is nil while the page still asks for a list of tasks.
	*genbusv1.BulkProgress
	// Do is the kind of action. Filters and Tasks are its parameters. All is set if no filter was
	// given.
	Do      string
	Filters url.Values
	Tasks   string
	All     bool
	// mark is a random text that marks where the progress goes in the page.
	mark string
}

// Mark returns mark for templates, which can use only exported names.
func (p bulkPage) Mark() string { return p.mark }

func newBulkPage(r *query) bulkPage {
	p := bulkPage{Do: r.get("do"), Filters: url.Values{}, Tasks: r.get("tasks")}
	for _, name := range bulkFilters(p.Do) {
		for _, v := range r.values[name] {
			if v != "" {
				p.Filters.Add(name, v)
			}
		}
	}
	p.All = len(p.Filters) == 0 && p.Do != "attach"
	return p
}

// bulkFilters returns the query parameters that filter what a bulk action affects.
func bulkFilters(do string) []string {
	switch do {
	case "cancel":
		return filters
	case "redrive", "drop":
		return deadLetterFilters
	default:
		return nil
	}
}

// bulkView is the page that shows how many items an action would affect and offers to run it.
var bulkView = view{"bulk", "Bulk actions", "bulk", loadBulk, false}

func loadBulk(ctx context.Context, c *Console, r *query) (any, error) {
	if err := r.only(append([]string{"do", "tasks"}, bulkFilters(r.get("do"))...)...); err != nil {
		return nil, err
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

// startBulk calls the API method for a form.
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

// tasksOf parses lines that consist of a dead letter's sequence and, optionally, the upstream's
// task ID.
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

// runBulk handles the form of bulkView. Without a token, it counts the listed tasks. With a token,
// it runs the action that was counted and writes the page as the action progresses. The action
// stops if the browser disconnects.
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
	p := page{Title: "Bulk actions", Version: c.Version, Nav: "bulk", Viewer: who, URL: r.URL, Data: data}
	stream, err := c.startBulk(withKey(r.Context(), who), q, false)
	if err == nil {
		data.BulkProgress, err = stream.Recv()
	}
	if err != nil {
		f := grpcstatus.Error(err)
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
		if err = out.write(c.render("bulkrun", "step", p)); err != nil {
			break
		}
		if data.BulkProgress, err = stream.Recv(); err == nil {
			p.Data = data
		}
	}
	if !errors.Is(err, io.EOF) {
		p.Err = grpcstatus.Error(err).Message
	}
	_ = out.write(append(c.render("bulkrun", "result", p), after...)) // fails only if the browser has left, which stops the action
}

// flusher writes a page in parts. Package httpapi sets the deadline of each write.
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
