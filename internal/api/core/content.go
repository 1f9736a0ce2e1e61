package core

import (
	"context"
	"io"
	"strconv"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Content opens the files of completed tasks.
type Content struct {
	jobs   *Jobs
	routes *routes.Table
	reader *content.Reader
	bodies *broker.Bodies
	drain  *drain
}

// Open opens a file of a completed task, counted from 0. It prefers the archived copy to the
// upstream's file. For a task that has not completed it returns an error without asking the
// upstream. The caller must close Body. Reads fail after Core.Close.
func (c *Content) Open(ctx context.Context, n subject.JobName, index int, r content.Request) (*content.File, error) {
	ctx, release := c.drain.hold(ctx)
	file, err := c.open(ctx, n, index, r)
	if err != nil {
		release()
		return nil, err
	}
	file.Body = heldBody{file.Body, release}
	return file, nil
}

// Part opens the part of a file that a request selects. The caller must close Body.
func (c *Content) Part(ctx context.Context, tenant string, m *genbusv1.DownloadVideoRequest) (content.Part, error) {
	for field, value := range map[string]int64{"offset": m.GetOffset(), "length": m.GetLength()} {
		if value < 0 {
			return content.Part{}, errcode.Invalid([]errcode.Violation{{Field: field, Description: "must not be negative"}})
		}
	}
	name := subject.JobName{Kind: subject.Video, Tenant: tenant, ID: m.GetId()}
	file, err := c.Open(ctx, name, int(m.GetIndex()), content.Request{Range: content.RangeOf(m.GetOffset(), m.GetLength())})
	if err != nil {
		return content.Part{}, err
	}
	part, err := file.Part(m.GetOffset())
	if err != nil {
		_ = file.Body.Close()
	}
	return part, err
}

// heldBody is a body that counts as a running call until Close.
type heldBody struct {
	io.ReadCloser
	release func()
}

func (b heldBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

func (c *Content) open(ctx context.Context, n subject.JobName, index int, r content.Request) (*content.File, error) {
	e, err := c.jobs.Get(ctx, n)
	if err != nil {
		return nil, err
	}
	t := VideoOf(e)
	if t.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		return nil, notReady(e).ForJob(n.ID)
	}
	if index < 0 || index > 0 && index >= len(t.GetVideos()) {
		return nil, errcode.Invalid([]errcode.Violation{{Field: "index", Description: "the task has " + strconv.Itoa(len(t.GetVideos())) + " videos; the first is 0"}}).ForJob(n.ID)
	}
	var file *genbusv1.Video
	if index < len(t.GetVideos()) {
		file = t.GetVideos()[index]
	}
	if ref := file.GetArchived(); ref != nil {
		f, err := content.OpenArchive(ctx, c.bodies, publisher.BodyOf(ref), ref.GetContentType(), r)
		if err != nil {
			return nil, Explain(ctx, n, err)
		}
		return f, nil
	}
	place, err := c.routes.Place(t, file.GetUrl())
	if err != nil {
		return nil, err
	}
	f, err := c.reader.Open(ctx, place, r)
	if err != nil {
		return nil, Explain(ctx, n, err)
	}
	return f, nil
}

// notReady returns the error for a task without content, in words that clients of this interface
// know.
func notReady(e joblog.Entry) *errcode.Error {
	word := task.StatusWord(e.Job.GetStatus())
	if e.Terminal() {
		return errcode.New(errcode.ContentNotReady, "Task has ended without content, current status: %s", strings.ToUpper(word))
	}
	return errcode.New(errcode.ContentNotReady, "Task is not completed yet, current status: %s", strings.ToUpper(word))
}
