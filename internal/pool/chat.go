package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/chat"
)

// opChat names the call in errors and metrics.
const opChat = "chat"

// Chat runs the chats of one route, and moves on to another key where one
// fails. It is safe for concurrent use.
type Chat struct {
	chooser *Chooser
	clients func(UpstreamKey) *chat.Client
	total   time.Duration
	late    error // the cause when a chat has had all its time
}

// NewChat runs chats with the keys of a chat route. clients gives the client
// of each key of the route; it is called for each attempt, so it should keep
// them. A key that it gives no client for, nil, is passed over: the pool may have
// it from a later configuration. The route's total timeout bounds all attempts at one chat together.
func NewChat(chooser *Chooser, clients func(UpstreamKey) *chat.Client) *Chat {
	total := chat.Options{Total: chooser.route.Timeouts.Total}.WithDefaults().Total
	return &Chat{
		chooser: chooser.Among(func(a UpstreamKey) bool { return clients(a) != nil }), clients: clients, total: total,
		late: fmt.Errorf("the chat did not finish within %v: %w", total, context.DeadlineExceeded),
	}
}

// ChatRequest is one chat to run.
type ChatRequest struct {
	// Job is whose chat it is. Its id is sent as Idempotency-Key to every upstream,
	// unless it is empty.
	Job Job
	// Model is the caller's name of the model, which Body has too.
	Model string
	// Body is the caller's JSON; only the model's name is changed, where the
	// route says so. It must not change until the reply or the stream is closed.
	Body body.Document
	// Queued chats move on only when the upstream certainly did not begin: their
	// attempts are counted, and so is what is paid for. Others move on after any
	// failure that another upstream might not have.
	Queued bool
	// Slot is the place that the chat has already, from Reserve; nil takes one. It
	// is over with the call. That of a key that has no client here, because it was
	// reserved before a reload, is given back, and another one is taken.
	Slot *Slot
	// Tried is kept across the attempts of a queued chat, so that the next one
	// begins with a key that has not failed yet; nil starts again.
	Tried *Tried
}

// ChatReply is a whole answer and who gave it.
type ChatReply struct {
	chat.Reply
	UpstreamKey UpstreamKey
}

// Reserve takes a place for a chat that is about to be called, so that nothing
// has to be promised for one that must wait. Where all slots are in use, the waiter waits
// for one. The error is a *BusyError or ErrExhausted.
func (c *Chat) Reserve(t *Tried, in *Waiter) (*Slot, error) { return c.acquire(t, in, true) }

// Complete asks for a whole reply, of one key after the other until one
// answers. Every error is an *upstream.Error: that of the last key which was
// called, or, when none was or the next one only has no place now, one that is
// neither Written nor Final and says in RetryAfter when to try again.
func (c *Chat) Complete(ctx context.Context, req ChatRequest) (ChatReply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.total, c.late)
	defer cancel()
	var reply ChatReply
	err := c.run(ctx, req, func(a *attempt) error {
		r, err := a.client.Complete(ctx, a.request)
		if err != nil {
			return err
		}
		reply = ChatReply{Reply: *r, UpstreamKey: a.slot.UpstreamKey()}
		a.answered(r.Status)
		return nil
	})
	return reply, err
}

// attempt is one call of one key.
type attempt struct {
	client  *chat.Client
	request chat.Request
	chooser *Chooser // of the client's configuration
	job     Job
	slot    *Slot
	begin   time.Time
}

func (a *attempt) answered(status int) {
	a.measure("answered", status)
	a.slot.Report(a.chooser, a.job, nil)
	a.slot.Release()
}

func (a *attempt) failed(err *upstream.Error) {
	verdict := "failed"
	if givenUp(err) {
		verdict = "given_up"
	}
	a.measure(verdict, err.HTTPStatus)
	a.slot.Report(a.chooser, a.job, err)
	a.slot.Release()
}

func (a *attempt) measure(verdict string, status int) {
	a.slot.service.metrics.Request(opChat, verdict, status, time.Since(a.begin))
}

// run calls key after key until one works, or the failure is nothing
// that another one could avoid.
func (c *Chat) run(ctx context.Context, req ChatRequest, call func(*attempt) error) error {
	if req.Tried == nil {
		req.Tried = new(Tried)
	}
	var last *upstream.Error
	var from UpstreamKey
	for {
		slot, err := c.reserved(req.Slot), error(nil)
		if req.Slot = nil; slot == nil {
			slot, err = c.acquire(req.Tried, nil, last == nil)
		}
		if err != nil {
			return c.noKey(err, last)
		}
		if last != nil {
			c.chooser.pool.logger.Info("moved chat to another upstream key", telemetry.KeyJobID, req.Job.ID, telemetry.KeyTenant, req.Job.Tenant, telemetry.KeyRoute, c.chooser.route.Name,
				"from", from.String(), "to", slot.id.String(), telemetry.KeyHTTPStatus, last.HTTPStatus, telemetry.KeyUpstreamCode, last.Code)
		}
		last, from = c.try(ctx, req, slot, call), slot.id
		switch {
		case last == nil:
			return nil
		case ctx.Err() != nil || !movesOn(last, req.Queued):
			return last
		}
	}
}

// reserved is the slot, if it can be used here.
func (c *Chat) reserved(slot *Slot) *Slot {
	if slot != nil && c.clients(slot.id) == nil {
		slot.Release()
		return nil
	}
	return slot
}

// acquire finds the next key. A chat whose earlier attempts left none to
// try begins a new round; where those that they left are busy, it does so the
// next time, lest it wait for ever for one that is never free.
func (c *Chat) acquire(t *Tried, in *Waiter, first bool) (*Slot, error) {
	again := first && len(t.keys) > 0
	slot, err := c.chooser.AcquireInTurn(t, in)
	if err == nil || !again {
		return slot, err
	}
	*t = Tried{SentBefore: true}
	if errors.Is(err, ErrExhausted) {
		return c.chooser.AcquireInTurn(t, in)
	}
	return nil, err
}

// try makes one call. The slot is over with it, unless the call keeps it.
func (c *Chat) try(ctx context.Context, req ChatRequest, slot *Slot, call func(*attempt) error) *upstream.Error {
	a := &attempt{client: c.clients(slot.id), chooser: c.chooser, job: req.Job, slot: slot, begin: time.Now()}
	sent := req.Body
	if name := c.chooser.route.ModelFor(slot.id.Upstream, req.Model); name != req.Model {
		sent = sent.WithText("model", name)
		if err := sent.Err(); err != nil {
			slot.Release()
			return upstream.NotSent(opChat, err)
		}
	}
	a.request = chat.Request{JobID: req.Job.ID, Body: sent.Bytes(), OnResend: slot.countResend}
	err := call(a)
	if err == nil {
		return nil
	}
	e := c.explain(ctx, err)
	a.failed(e)
	return e
}

// explain names the time that all attempts have together, where that is what
// ended a call.
func (c *Chat) explain(ctx context.Context, err error) *upstream.Error {
	e := upstream.AsError(opChat, err)
	if cause := context.Cause(ctx); e.Code == chat.CodeCancelled && errors.Is(cause, c.late) {
		e.Code, e.Message = chat.CodeTotalTimeout, cause.Error()
	}
	return e
}

// noKey says why there is no key to go to. A refusal for good is not the
// whole answer while another key is only busy.
func (c *Chat) noKey(err error, last *upstream.Error) error {
	busy, ok := errors.AsType[*BusyError](err)
	switch {
	case last != nil && (!ok || !last.Final):
		return last
	case !ok:
		return upstream.NotSent(opChat, fmt.Errorf("route %s has no upstream", c.chooser.route.Name))
	}
	e := &upstream.Error{
		Op: opChat, Message: "no upstream of route " + c.chooser.route.Name + " accepts a chat now; try again later",
		RetryAfter: max(time.Until(busy.Until), time.Millisecond), Scope: upstream.ScopeUpstream, Err: err,
	}
	if busy.told != nil {
		busy.told.describe(e, busy.Until)
	}
	return e
}

// movesOn reports whether a failed chat may go to another key.
func movesOn(err *upstream.Error, queued bool) bool {
	if err.Scope == upstream.ScopeRequest {
		return false
	}
	return !queued || notBegun(err)
}

// notBegun reports whether the upstream certainly did not begin with the chat.
func notBegun(err *upstream.Error) bool {
	if !err.Written {
		return true
	}
	if !err.Said {
		return false
	}
	switch status := err.HTTPStatus; status {
	case 408, 409, 425: // it may be at it
		return false
	case 503, 529: // overloaded
		return true
	default:
		// A 5xx that calls itself final has refused the next call, not this one.
		return status < 500 && (err.Final || status >= 300)
	}
}
