package admission

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// item returns the work item to store. Other replicas compare its times with their clocks, so item
// refuses the request if this replica's clock is wrong. If the body is large, the route keeps
// requests, or the request resolves a dead letter, item first stores the body. It uses a new object, so that no other attempt at the same
// request removes it. A body that is not large also stays in the item, where the job's holder reads
// it.
func (a *Admission) item(ctx context.Context, r Request, c Checked) (*genbusv1.WorkItem, error) {
	now, err := a.b.Clock().Now()
	if err != nil {
		return nil, errcode.New(errcode.ClockWrong, "nothing was accepted: %w", err).WithRetryAfter(time.Second)
	}
	item := c.Item(ctx, r, now)
	// The rest of the message is left for the item's other fields.
	large := int64(len(c.Body)) > min(int64(a.cfg.Now().Limits.ClaimCheckBytes), a.b.MaxPayload()/4)
	if keep := (c.Route.KeepRequests || r.Resolves) && len(c.Body) > 0; !large && !keep {
		return item, nil
	}
	ref, err := a.bodies.PutNew(ctx, r.Tenant, publisher.RequestBody(c.ID), c.Body)
	switch {
	case err != nil && !large && !c.Route.KeepRequests:
		return item, nil // resolving the dead letter matters more
	case isUsedUp(err):
		return nil, usedUp(err)
	case errors.Is(err, broker.ErrFull):
		return nil, bodiesFull(err)
	case err != nil:
		return nil, unavailable(err)
	}
	item.BodyRef = publisher.BlobRef(ref)
	if large {
		item.Body = nil
	}
	return item, nil
}

// isUsedUp reports whether an operator must give NATS more storage or raise the limits of genbus's
// account.
func isUsedUp(err error) bool {
	return errors.Is(err, broker.ErrStorage) || errors.Is(err, broker.ErrAccountLimit)
}

func usedUp(cause error) *errcode.Error {
	return errcode.New(errcode.StorageFull, "nothing was accepted: %s", broker.Reason(cause)).Because(cause).WithRetryAfter(30 * time.Second)
}

func bodiesFull(cause error) *errcode.Error {
	return errcode.New(errcode.StorageFull, "nothing was accepted: the tenant's object store (limits.bodies_bytes, limits.bodies_messages) or the disk under it is full").
		Because(cause).WithRetryAfter(30 * time.Second)
}

// Item returns the work item of a request accepted now, with the complete body.
func (c Checked) Item(ctx context.Context, r Request, now time.Time) *genbusv1.WorkItem {
	item := &genbusv1.WorkItem{
		Id: c.ID, Kind: string(r.Kind), Tenant: r.Tenant, Route: c.Route.Name, Model: c.Model, Body: c.Body,
		Fingerprint: c.Fingerprint, RequestId: r.RequestID, Labels: r.Labels, RetryOf: r.RetryOf,
		AcceptedAt: timestamppb.New(now), QueueDeadline: timestamppb.New(now.Add(c.Route.Timeouts.Queue)),
		Protocol: c.Route.Protocol, Stream: c.Stream, Trace: telemetry.Inject(ctx), Size: c.Asked.Size, Seconds: c.Asked.Seconds,
		Form: r.Form,
	}
	if r.Attached != nil { // it does not wait for a submission
		item.Attached, item.QueueDeadline = r.Attached.until(now.Add(c.Route.Timeouts.Deadline)), nil
	}
	if archive := c.archives(r); archive {
		item.Archive = &archive
	}
	if !r.ExpiresAt.IsZero() {
		item.ExpiresAt = timestamppb.New(r.ExpiresAt)
	}
	return item
}

// archives reports whether to archive the result. The request's setting overrides the route's.
func (c Checked) archives(r Request) bool {
	if r.Kind != subject.Video {
		return false
	}
	if r.Archive != nil {
		return *r.Archive
	}
	return c.Route.Archive
}
