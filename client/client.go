// Package client submits, follows, reads, lists and cancels videos and queued chats over NATS. It
// downloads results, and reads the feed of finished jobs.
//
// A Client uses a nats.go connection that the program creates, configures and closes. All methods
// are safe for concurrent use and return when their context ends.
//
//	nc, err := nats.Connect("nats://127.0.0.1:4222", nats.MaxReconnects(-1))
//	...
//	c, err := client.New(nc, client.Options{Tenant: "acme"})
//	...
//	task, err := c.SubmitVideo(ctx, request)
//	task, err = c.WaitVideo(ctx, task.GetId())
//
// The directory examples/client has a complete program.
//
// Errors with a code are of type *Error. Compare them with the codes of this package:
// errors.Is(err, client.ErrQueueFull).
package client

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/subject"
)

// Kind is the kind of a job.
type Kind string

// Kinds of jobs.
const (
	Video Kind = "video"
	Chat  Kind = "chat"
)

// Options configures a Client. The zero value suits a genbus without API keys.
type Options struct {
	// Tenant submits the requests and owns the jobs that are read: 1 to 64 characters of
	// [A-Za-z0-9_-]. Default: "default".
	Tenant string
	// Prefix is the first part of all subjects, the setting nats.prefix of genbus. Default:
	// "genbus".
	Prefix string
	// Wait bounds one request including its retries, unless its context ends earlier. Default:
	// 30 s.
	Wait time.Duration
	// Reread is how often a follower rereads the log without being notified. It finds events that
	// were lost on their live subject, which does not guarantee delivery. Default: 10 s.
	Reread time.Duration
	// Header adds headers to each request. Package clientotel has a function that adds the trace
	// context. Default: no headers are added.
	Header func(ctx context.Context, h nats.Header)
	// Notice receives notices about an accepted job, such as NoticeRoutePaused, before SubmitVideo
	// or SubmitChat returns. A notice begins with its code. mime.ParseMediaType returns the code and
	// the parameters: reason and until (RFC 3339) of a pause, if known. Default: notices are dropped.
	Notice func(jobID, notice string)
	// Logger receives problems that the client recovers from: lost connections, unreadable streams,
	// failing handlers. Prompts and results are never logged. Default: no logging.
	Logger *slog.Logger
}

// Client sends requests to genbus and reads jobs, as one tenant.
type Client struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	names  subject.Space
	tenant string
	wait   time.Duration
	reread time.Duration
	header func(context.Context, nats.Header)
	notice func(jobID, notice string)
	log    *slog.Logger
}

// NoticeRoutePaused is the code of a notice that a job waits because an operator has paused its route.
const NoticeRoutePaused = string(ErrRoutePaused)

// New returns a client on nc, which may be reconnecting. Set nats.MaxReconnects(-1) on nc to
// survive long outages. New fails if the tenant or the prefix is not a legal name.
func New(nc *nats.Conn, o Options) (*Client, error) {
	c := &Client{nc: nc, tenant: cmp.Or(o.Tenant, "default"), wait: cmp.Or(o.Wait, 30*time.Second), reread: cmp.Or(o.Reread, 10*time.Second), header: o.Header, notice: o.Notice, log: o.Logger}
	if c.header == nil {
		c.header = func(context.Context, nats.Header) {}
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if err := subject.CheckToken(c.tenant); err != nil {
		return nil, fmt.Errorf("genbus client: tenant: %w", err)
	}
	var err error
	if c.names, err = subject.New(o.Prefix); err != nil {
		return nil, fmt.Errorf("genbus client: prefix: %w", err)
	}
	if c.js, err = jetstream.New(nc); err != nil {
		return nil, fmt.Errorf("genbus client: %w", err)
	}
	return c, nil
}

// JobID returns the ID of the job that a request with this RequestId creates for the client's
// tenant. The ID depends only on its arguments and the tenant, so it is known before the request is
// sent.
func (c *Client) JobID(kind Kind, requestID string) string {
	return subject.JobID(subject.Kind(kind), c.tenant, subject.RequestSource(requestID))
}

// pause waits for d. If ctx ends first, it returns the cause.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
