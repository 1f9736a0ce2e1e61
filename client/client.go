// Package client is genbus for Go programs: it asks for videos and chats over NATS,
// follows a job from its first event to its end, and reads the feed of what has
// ended. It is not a client for HTTP and gRPC, which need none of their own, and it
// cannot cancel or list jobs, which NATS has no subjects for.
//
// A Client needs a connection of nats.go that the program has made, and stays out of
// its way: the program chooses servers, credentials and handlers, and closes it. All
// calls are safe for concurrent use, and end with their context.
//
//	nc, err := nats.Connect("nats://127.0.0.1:4222", nats.MaxReconnects(-1))
//	...
//	c, err := client.New(nc, client.Options{Tenant: "acme"})
//	...
//	task, err := c.SubmitVideo(ctx, request)
//	task, err = c.WaitVideo(ctx, task.GetId())
//
// A whole program is in examples/client.
//
// Errors that have a meaning are of type *Error, and compare with the codes of this
// package: errors.Is(err, client.ErrQueueFull).
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

// The kinds.
const (
	Video Kind = "video"
	Chat  Kind = "chat"
)

// Options are the options of a Client. The zero value is a good one for a genbus
// without API keys.
type Options struct {
	// Tenant in whose name is asked, and whose jobs are read: 1 to 64 of
	// [A-Za-z0-9_-]. Default: "default".
	Tenant string
	// Prefix is the first part of all subjects, nats.prefix of genbus. Default:
	// "genbus".
	Prefix string
	// Wait bounds a request whose context ends later, with all its repetitions.
	// Default: 30 s.
	Wait time.Duration
	// Reread is how often a follower looks at the log although nothing came: the
	// cheap way in which events arrive may lose one. Default: 10 s.
	Reread time.Duration
	// Notice hears what genbus tells of a job that SubmitVideo or SubmitChat sent, in addition
	// to its state: NoticeRoutePaused. It is called before they return, and may be nil.
	Notice func(jobID, notice string)
	// Logger hears of what is survived: lost connections, streams that cannot be read,
	// handlers that fail. It never hears of prompts and results. Default: nothing is logged.
	Logger *slog.Logger
}

// Client asks genbus and hears from it, as one tenant.
type Client struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	names  subject.Space
	tenant string
	wait   time.Duration
	reread time.Duration
	notice func(jobID, notice string)
	log    *slog.Logger
}

// NoticeRoutePaused says that a job waits because an operator has paused its route.
const NoticeRoutePaused = string(ErrRoutePaused)

// New returns a client on a connection. The connection may be in the middle of a
// reconnect; give it nats.MaxReconnects(-1) if it is to outlive long outages. It
// fails for a tenant or a prefix that is no legal name.
func New(nc *nats.Conn, o Options) (*Client, error) {
	c := &Client{nc: nc, tenant: cmp.Or(o.Tenant, "default"), wait: cmp.Or(o.Wait, 30*time.Second), reread: cmp.Or(o.Reread, 10*time.Second), notice: o.Notice, log: o.Logger}
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

// JobID is the id of the job that a request with a RequestId makes, or has made. It is
// known before the request is sent.
func (c *Client) JobID(kind Kind, requestID string) string {
	return subject.JobID(subject.Kind(kind), c.tenant, subject.RequestSource(requestID))
}

// pause waits, or less if ctx ends, and then says why it ended.
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
