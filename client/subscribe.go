package client

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// AllTenants selects the jobs of every tenant. The NATS user needs permission to read them.
const AllTenants = "*"

// Feed selects finished jobs. The zero value selects every finished job of the client's tenant,
// from the oldest that is kept, and keeps no position.
type Feed struct {
	// Durable names the NATS consumer that keeps the reader's position: a restarted reader resumes
	// after the last handled job, and programs with the same name share the jobs. 1 to 64
	// characters of [A-Za-z0-9_-]. The readers of all tenants share one namespace, so start with
	// the program's name. Subscribe fails if the name exists with another Kind, Tenant or Status.
	// Empty: the position is not kept.
	Durable string
	// Kind selects videos or chats. Empty: both.
	Kind Kind
	// Tenant selects another tenant, or AllTenants. Empty: the client's tenant.
	Tenant string
	// Status selects one terminal status: COMPLETED, FAILED or CANCELLED. UNSPECIFIED: all three.
	Status genbusv1.JobStatus
	// From is where a reader without a position starts. The zero value: at the oldest job that is
	// kept.
	From Start
	// Parallel is how many jobs are handled at a time. Default: 1.
	Parallel int
}

// Start is a position in the feed where a reader starts.
type Start struct {
	policy jetstream.DeliverPolicy
	at     time.Time
}

// FromNow starts with jobs that finish from now on.
func FromNow() Start { return Start{policy: jetstream.DeliverNewPolicy} }

// FromTime starts with jobs that finished at t or later.
func FromTime(t time.Time) Start {
	return Start{policy: jetstream.DeliverByStartTimePolicy, at: t}
}

// Finished is a finished job.
type Finished struct {
	// EventID is the same in every delivery of the job. Use it to detect duplicates.
	EventID string
	Kind    Kind
	Tenant  string
	ID      string
	// Delivery counts the deliveries of this job to this reader, from 1.
	Delivery uint64
	// Video is the terminal event of a video, or nil.
	Video *genbusv1.VideoTaskEvent
	// Chat is the terminal event of a chat, or nil.
	Chat *genbusv1.ChatEvent
}

// Err returns the job's error, an *Error; nil if the job completed.
func (f Finished) Err() error {
	if f.Video != nil {
		return ErrorOf(f.Video.GetTask().GetError(), f.ID)
	}
	return ErrorOf(f.Chat.GetChat().GetError(), f.ID)
}

// GiveUp returns an error with which a handler ends the deliveries of its job: no handler can succeed.
// Subscribe logs the error to Options.Logger, and NATS publishes an advisory with it. GiveUp returns
// nil for nil.
func GiveUp(err error) error {
	if err == nil {
		return nil
	}
	return &giveUpError{err}
}

type giveUpError struct{ error }

func (g *giveUpError) Unwrap() error { return g.error }

// Subscribe passes finished jobs to handle until ctx ends. It then waits for running handlers and
// returns nil. If a handler returns nil, its job is acked. If it fails, the job is redelivered until a
// handler succeeds or returns GiveUp. The delay grows from 1 s to 1 min. A handler has no time limit.
// While it runs, no other handler of this call gets its job, and no other program does while NATS is
// reachable.
//
// Delivery is at least once. A handler that must not act twice on a job should remember
// Finished.EventID.
//
// Subscribe survives restarts of NATS and genbus. It fails if it cannot start (invalid Feed,
// missing stream, no permission), and with nats.ErrConnectionClosed once nats.go gives up on the
// connection.
func (c *Client) Subscribe(ctx context.Context, f Feed, handle func(context.Context, Finished) error) error {
	filters, err := c.filters(f)
	if err != nil {
		return err
	}
	s := &subscription{c: c, feed: f, filters: filters, handle: handle, held: map[string]*heldJob{}, dealt: map[string]struct{}{}}
	if s.consumer, err = s.bind(ctx); err != nil {
		return fmt.Errorf("subscribe to finished jobs: %w", err)
	}
	workers, working := errgroup.WithContext(ctx)
	for range max(f.Parallel, 1) {
		workers.Go(func() error { return s.work(working) })
	}
	err = workers.Wait()
	s.deleteConsumer(context.WithoutCancel(ctx))
	return err
}

// filters returns the subjects of a feed.
func (c *Client) filters(f Feed) ([]string, error) {
	tenant := cmp.Or(f.Tenant, c.tenant)
	if tenant != AllTenants {
		if err := subject.CheckToken(tenant); err != nil {
			return nil, fmt.Errorf("subscribe: Feed.Tenant: %w", err)
		}
	}
	status := "*"
	if f.Status != genbusv1.JobStatus_JOB_STATUS_UNSPECIFIED {
		if !Terminal(f.Status) {
			return nil, fmt.Errorf("subscribe: Feed.Status: %s is not a terminal status", f.Status)
		}
		status = task.StatusWord(f.Status)
	}
	if f.Durable != "" {
		if err := subject.CheckToken(f.Durable); err != nil {
			return nil, fmt.Errorf("subscribe: Feed.Durable: %w", err)
		}
	}
	switch f.Kind {
	case Video, Chat:
		return []string{c.names.Done(subject.Kind(f.Kind), tenant, status, "*")}, nil
	case "":
		return []string{c.names.Done(subject.Video, tenant, status, "*"), c.names.Done(subject.Chat, tenant, status, "*")}, nil
	default:
		return nil, fmt.Errorf("subscribe: Feed.Kind: %.40q is invalid; use video or chat", f.Kind)
	}
}
