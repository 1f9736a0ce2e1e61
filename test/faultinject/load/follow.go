package load

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
)

// errBroken means that the client itself closed the connection.
var errBroken = errors.New("broken off by the client")

// follower follows one job over any number of connections.
type follower struct {
	*client
	job       string
	seen      check.Followed
	version   uint64 // last version seen
	token     string // token of the last item; used for chats and SSE
	terminal  bool
	remaining int // items until the client closes the connection; negative means never
}

// following follows a job until the job or ctx ends.
func (c *client) following(ctx context.Context, job string) {
	f := &follower{client: c, job: job, seen: check.Followed{Client: c.name + " follower", Ingress: c.follow, Job: job}}
	defer func() {
		f.seen.FinishedAt = time.Now()
		c.o.Recorder.Follow(f.seen)
	}()
	for n := 0; ; n++ {
		f.remaining = -1
		if n < c.cuts {
			f.remaining = 1 + n*2
		}
		f.seen.Connections++
		f.connect(ctx)
		if f.seen.Ended || !faultinject.Pause(ctx, 300*time.Millisecond) {
			return
		}
	}
}

func (f *follower) connect(ctx context.Context) {
	at := f.replica()
	a := answer{Call: check.Call{
		Tenant: f.tenant.Name, Client: f.seen.Client, Series: "follow", Op: check.OpGet, Ingress: f.seen.Ingress, Target: f.o.Replicas[at].Name, Job: f.job, Asked: time.Now(),
	}}
	var err error
	switch {
	case f.follow == "sse":
		err = f.overSSE(ctx, at, &a)
	case kindOf(f.job) == subject.Chat:
		err = f.watchChat(ctx, at, &a)
	default:
		err = f.watchVideo(ctx, at, &a)
	}
	switch {
	case errors.Is(err, io.EOF) && (f.terminal || f.follow == "watch"):
		f.seen.Ended = true
	case errors.Is(err, errBroken): // not an error, because the client closed the connection
	case ctx.Err() != nil:
		return // closed by this client, because ctx ended
	case a.Code == "":
		a.answered(err, func() {})
	}
	a.Time, a.Job = time.Now(), f.job
	f.o.Recorder.Record(a.Call)
}

func (f *follower) event(id string, version uint64, status string) error {
	f.version, f.terminal = version, task.TerminalWord(status)
	return f.item(check.Item{ID: id, Version: version, Status: status})
}

// item records an item. It returns errBroken if the client must close the connection.
func (f *follower) item(i check.Item) error {
	f.seen.Items = append(f.seen.Items, i)
	if f.remaining--; f.remaining == 0 && !f.terminal {
		return errBroken
	}
	return nil
}

// after returns the version after which to resume, as a Last-Event-ID.
func (f *follower) after() string {
	if f.version == 0 {
		return ""
	}
	return strconv.FormatUint(f.version, 10)
}
