package api

import (
	"context"
	"errors"
	"log/slog"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/chatlog"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/erasure"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/inline"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
)

// core does what callers ask for, in plain Go. HTTP, gRPC and NATS only
// translate. Every error that it returns is a *fault.Error.
type core struct {
	cfg       *config.Live
	admission *admission.Admission
	queue     *queue.Queue
	log       *tasklog.Log
	bodies    *broker.Bodies
	eraser    erasure.Eraser
	routes    *routes.Table
	content   *content.Reader
	inline    *inline.Runner
	chats     *chatlog.Log
	logger    *slog.Logger
	drain     *drain
	now       func() time.Time
	// writeTimeout bounds one write to a client.
	writeTimeout time.Duration
	// bodyTimeout bounds the arrival of a request's body by HTTP.
	bodyTimeout time.Duration
	strangers   *strangers
}

func newCore(o Options, d *drain) *core {
	return &core{
		cfg: o.Config, admission: o.Admission, queue: o.Queue, log: o.Log, bodies: o.Bodies, eraser: o.Eraser, routes: o.Routes, content: o.Content,
		inline: o.Inline, chats: o.Chats, logger: o.Logger, drain: d, now: time.Now, writeTimeout: writeTimeout, bodyTimeout: bodyTimeout, strangers: newStrangers(),
	}
}

// submit accepts a job, or attaches to the one that the request names.
func (c *core) submit(ctx context.Context, r admission.Request) (tasklog.Entry, error) {
	return c.admission.Admit(ctx, r)
}

// get reads a job of a tenant. The job of another tenant does not exist. A job
// whose first event is not stored yet has no sequence.
func (c *core) get(ctx context.Context, n subject.TaskName) (tasklog.Entry, error) {
	if !wellFormed(n) {
		return tasklog.Entry{}, notFound(n)
	}
	if err := c.log.Trouble(); err != nil {
		return tasklog.Entry{}, meaning(ctx, n, err)
	}
	e, err := c.log.Get(ctx, n)
	if errors.Is(err, tasklog.ErrNotFound) {
		e, err = c.queue.Accepted(ctx, n)
	}
	if err != nil {
		return tasklog.Entry{}, meaning(ctx, n, err)
	}
	return e, nil
}

// getRecorded is get for who goes on from the log: it waits for the first event.
func (c *core) getRecorded(ctx context.Context, n subject.TaskName) (tasklog.Entry, error) {
	e, err := c.get(ctx, n)
	if err != nil || e.Seq != 0 {
		return e, err
	}
	if err := c.recorded(ctx, e); err != nil {
		return tasklog.Entry{}, err
	}
	return c.get(ctx, n)
}

// wellFormed reports whether there can be a job of this name.
func wellFormed(n subject.TaskName) bool {
	kind, ok := subject.KindOf(n.ID)
	return ok && kind == n.Kind
}

// list reads a page of a tenant's jobs, newest first.
func (c *core) list(ctx context.Context, q tasklog.Query) (tasklog.Page, error) {
	after := subject.TaskName{Kind: q.Kind, Tenant: q.Tenant, ID: q.After}
	if q.After != "" && !wellFormed(after) {
		return tasklog.Page{}, notFound(after)
	}
	if err := c.log.Trouble(); err != nil {
		return tasklog.Page{}, meaning(ctx, subject.TaskName{Kind: q.Kind, Tenant: q.Tenant}, err)
	}
	page, err := c.log.List(ctx, q)
	switch {
	case err == nil:
		return page, nil
	case errors.Is(err, tasklog.ErrPageToken):
		return tasklog.Page{}, fault.New(fault.InvalidPageToken, "page_token is not one of this list; start again without it")
	case errors.Is(err, tasklog.ErrNotFound):
		return tasklog.Page{}, notFound(after)
	default:
		return tasklog.Page{}, meaning(ctx, subject.TaskName{Kind: q.Kind, Tenant: q.Tenant}, err)
	}
}

// models lists what the routes offer; kind is "video", "chat" or empty for both.
func (c *core) models(ctx context.Context, kind string) ([]*genbusv1.Model, error) {
	if kind != "" && !subject.Kind(kind).Valid() {
		return nil, fault.Invalid([]fault.Violation{{Field: "kind", Description: "must be video, chat or empty"}})
	}
	return c.routes.Models(ctx, kind), nil
}

// meaning turns an error about a job into the one that its caller is told. What
// ended the context comes first: an error that follows from it says less.
func meaning(ctx context.Context, n subject.TaskName, err error) *fault.Error {
	var f *fault.Error
	switch {
	case ctx.Err() != nil && errors.As(context.Cause(ctx), &f):
	case errors.As(err, &f):
	case errors.Is(err, tasklog.ErrNotFound):
		return notFound(n)
	case errors.Is(err, chatlog.ErrToken):
		f = fault.Invalid([]fault.Violation{{Field: "resume_token", Description: "is not one of this chat"}})
	case errors.Is(err, tasklog.ErrSlowReader):
		f = fault.New(fault.SlowReader, "the reader of %s was too far behind; resume from the last event", n.ID)
	case errors.Is(err, tasklog.ErrUncertain):
		f = fault.New(fault.AcceptanceUnknown, "the change of %s may have been stored: %s", n.ID, broker.Reason(err)).Because(err)
	case errors.Is(err, tasklog.ErrFull):
		f = fault.New(fault.StorageFull, "the change of %s was not stored: the task log is full", n.ID).Because(err).WithRetryAfter(30 * time.Second)
	case errors.Is(err, broker.ErrBodyLost):
		f = fault.New(fault.InputLost, "the stored reply of %s: %w", n.ID, err)
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded) && broker.CutOff(err):
		// A deadline without a cause is the caller's own. What it cut off says nothing of
		// the broker.
		f = fault.New(fault.CallerDeadline, "the deadline of the call passed before %s was read or changed; call again with a longer one", describe(n)).Because(err)
	case broker.Unavailable(err):
		f = fault.New(fault.BrokerUnavailable, "%s could not be read or changed: %s", describe(n), broker.Reason(err)).Because(err).WithRetryAfter(time.Second)
	default:
		f = fault.From(err)
	}
	if f.JobID == "" && n.ID != "" {
		f = f.ForJob(n.ID)
	}
	return f
}

func describe(n subject.TaskName) string {
	if n.ID == "" {
		return "the list"
	}
	return n.ID
}

func notFound(n subject.TaskName) *fault.Error {
	if n.Kind == subject.Chat {
		return fault.New(fault.ChatNotFound, "there is no chat %q", fault.Clip(n.ID, 64))
	}
	return fault.New(fault.TaskNotFound, "there is no video task %q", fault.Clip(n.ID, 64))
}

// video and chat are the jobs of entries whose kind the log has checked.
func video(e tasklog.Entry) *genbusv1.VideoTask { return jobOf[*genbusv1.VideoTask](e.Job) }
func chat(e tasklog.Entry) *genbusv1.Chat       { return jobOf[*genbusv1.Chat](e.Job) }

func jobOf[J task.Job](j task.Job) J {
	job, _ := j.(J)
	return job
}
