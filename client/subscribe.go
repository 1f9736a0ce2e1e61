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

// AllTenants chooses the jobs of every tenant, for programs whose NATS user may read
// them.
const AllTenants = "*"

// Feed chooses finished jobs. The zero value is every end of every job of the client's
// tenant, from the oldest that is kept, and no place that is remembered.
type Feed struct {
	// Durable is the name under which NATS keeps the place of this reader: it goes on
	// after the last job that it has dealt with, and programs with the same name share
	// the jobs. 1 to 64 of [A-Za-z0-9_-]; all tenants' readers have their names in one
	// place, so let it begin with the program's. A name belongs to what it chooses: with
	// another Kind, Tenant or Status Subscribe fails. Empty: nothing is kept.
	Durable string
	// Kind chooses videos or chats. Empty: both.
	Kind Kind
	// Tenant chooses another tenant, or AllTenants. Empty: the client's.
	Tenant string
	// Status chooses one end: COMPLETED, FAILED or CANCELLED. UNSPECIFIED: every end.
	Status genbusv1.JobStatus
	// From is where a reader begins that has no place yet. The zero value: with the
	// oldest job that is kept.
	From Start
	// Parallel is how many jobs are handled at a time. Default: 1.
	Parallel int
}

// Start is where in the feed a reader begins.
type Start struct {
	policy jetstream.DeliverPolicy
	at     time.Time
}

// FromNow begins with what finishes from now on.
func FromNow() Start { return Start{policy: jetstream.DeliverNewPolicy} }

// FromTime begins with what finished at a time or later.
func FromTime(t time.Time) Start {
	return Start{policy: jetstream.DeliverByStartTimePolicy, at: t}
}

// Finished is a job that has come to its end.
type Finished struct {
	// EventID is the same in every delivery: what was handled under it is done.
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

// Err is the error that the job ended with, an *Error; nil for one that completed.
func (f Finished) Err() error {
	if f.Video != nil {
		return ErrorOf(f.Video.GetTask().GetError(), f.ID)
	}
	return ErrorOf(f.Chat.GetChat().GetError(), f.ID)
}

// Subscribe hands finished jobs to handle until ctx ends, and then returns nil when the
// handlers in hand have returned. A job whose handler returns nil is done with; one
// whose handler fails comes again, after a second at first and a minute at most, as often
// as it takes. A handler may take its time: no other handler of this program is given
// the job meanwhile, and none of another program as long as NATS is there.
//
// Delivery is at least once. A handler that must not act twice remembers
// Finished.EventID.
//
// It outlives restarts of NATS and of genbus. It fails when it cannot begin: without
// genbus's streams, without the right to read them, or with a Feed that is none; and
// with nats.ErrConnectionClosed when nats.go gives the connection up.
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
	s.leave(context.WithoutCancel(ctx))
	return err
}

// filters are the subjects of a feed.
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
