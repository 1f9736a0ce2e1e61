package console

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
)

// bulkPage asks whether an operation is to be started, with what was counted.
type bulkPage struct {
	*genbusv1.Operation
	// Do is which operation, Filters what was asked for, and All whether that is everything.
	Do      string
	Filters url.Values
	All     bool
	// ID names the operation, so that a form that is sent twice starts one.
	ID string
}

// loadBulk counts what an operation would do. A list of tasks to attach is not counted, but
// asked for.
func loadBulk(ctx context.Context, c *Console, r *query) (any, error) {
	p := bulkPage{Do: r.get("do"), Filters: url.Values{}, ID: rand.Text()}
	for _, name := range append(filters, "code") {
		for _, v := range r.values[name] {
			if v != "" {
				p.Filters.Add(name, v)
			}
		}
	}
	p.All = len(p.Filters) == 0
	if p.Do == "attach" {
		return p, nil
	}
	spec, err := specOf(r)
	if err != nil {
		return nil, err
	}
	out, err := c.api.StartOperation(ctx, &genbusv1.StartOperationRequest{Spec: spec, Everything: true, CountOnly: true})
	p.Operation = out.GetOperation()
	return p, err
}

// specOf is the operation that a form asks for.
func specOf(r *query) (*genbusv1.OperationSpec, error) {
	letters := &genbusv1.DeadLetterFilter{Kind: r.get("kind"), Tenant: r.get("tenant"), Code: r.get("code")}
	switch r.get("do") {
	case "cancel":
		m, err := jobsRequest(r)
		if err != nil {
			return nil, err
		}
		m.PageSize, m.PageToken, m.OldestFirst = 0, "", false
		return &genbusv1.OperationSpec{Work: &genbusv1.OperationSpec_CancelJobs{CancelJobs: &genbusv1.CancelJobs{Filter: m}}}, nil
	case "redrive":
		return &genbusv1.OperationSpec{Work: &genbusv1.OperationSpec_RedriveDeadLetters{RedriveDeadLetters: &genbusv1.RedriveDeadLetters{Filter: letters}}}, nil
	case "drop":
		return &genbusv1.OperationSpec{Work: &genbusv1.OperationSpec_DropDeadLetters{DropDeadLetters: &genbusv1.DropDeadLetters{Filter: letters}}}, nil
	case "attach":
		tasks, err := tasksOf(r.get("tasks"))
		if err != nil {
			return nil, err
		}
		return &genbusv1.OperationSpec{Work: &genbusv1.OperationSpec_AttachUpstreamTasks{AttachUpstreamTasks: &genbusv1.AttachUpstreamTasks{Tasks: tasks}}}, nil
	}
	return nil, errcode.Invalid([]errcode.Violation{{Field: "do", Description: "must be cancel, redrive, drop or attach"}})
}

// tasksOf reads lines of a letter's number and the upstream's id of its task.
func tasksOf(text string) (tasks []*genbusv1.LetterTask, err error) {
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		seq, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil || len(fields) > 2 {
			return nil, errcode.Invalid([]errcode.Violation{{Field: "tasks", Description: "line " + strconv.Itoa(i+1) + " must be the number of a letter, and the upstream's id of its task"}})
		}
		t := &genbusv1.LetterTask{Sequence: seq}
		if len(fields) == 2 {
			t.UpstreamTaskId = fields[1]
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

func operationURL(id string) string { return Path + "/operations/" + url.PathEscape(id) }

// startOperation starts what loadBulk has counted.
func startOperation(ctx context.Context, c *Console, r *http.Request) (next, word string, err error) {
	q := &query{Request: r, values: r.PostForm}
	m := &genbusv1.StartOperationRequest{Id: q.get("operation"), Everything: q.get("everything") == "yes"}
	if m.Spec, err = specOf(q); err != nil {
		return Path + "/operations", "", err
	}
	asOf, ok := readTime(q.get("as_of"))
	if !ok {
		return Path + "/operations", "", errcode.Invalid([]errcode.Violation{{Field: "as_of", Description: "is no time"}})
	}
	if !asOf.IsZero() {
		m.AsOf = timestamppb.New(asOf)
	}
	out, err := c.api.StartOperation(ctx, m)
	if err != nil {
		return Path + "/operations", "", err
	}
	return operationURL(out.GetOperation().GetId()), "started", nil
}

func stopOperation(ctx context.Context, c *Console, r *http.Request) (next, word string, err error) {
	_, err = c.api.StopOperation(ctx, &genbusv1.StopOperationRequest{Id: r.PathValue("id")})
	return operationURL(r.PathValue("id")), "stopping", err
}

func loadOperations(ctx context.Context, c *Console, r *query) (any, error) {
	return c.api.ListOperations(ctx, &genbusv1.ListOperationsRequest{PageSize: jobsPageSize, PageToken: r.get("page_token")})
}

func loadOperation(ctx context.Context, c *Console, r *query) (any, error) {
	out, err := c.api.GetOperation(ctx, &genbusv1.GetOperationRequest{Id: r.PathValue("id")})
	return out.GetOperation(), err
}

// workOf says what an operation does.
func workOf(s *genbusv1.OperationSpec) string {
	switch s.GetWork().(type) {
	case *genbusv1.OperationSpec_CancelJobs:
		return "cancel jobs"
	case *genbusv1.OperationSpec_RedriveDeadLetters:
		return "redrive dead letters"
	case *genbusv1.OperationSpec_DropDeadLetters:
		return "drop dead letters"
	case *genbusv1.OperationSpec_AttachUpstreamTasks:
		return "attach upstreams' tasks"
	}
	return "?"
}

// isRunning reports whether an operation goes on.
func isRunning(o *genbusv1.Operation) bool {
	s := o.GetProgress().GetState()
	return s == genbusv1.OperationProgress_STATE_RUNNING || s == genbusv1.OperationProgress_STATE_STOPPING
}
