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

const opChat = "chat"

// Chat runs the chats of one route, with failover to other keys. It is safe for concurrent use.
type Chat struct {
	chooser *Chooser
	clients func(UpstreamKey) *chat.Client
	total   time.Duration
	late    error // cancellation cause when the total time has run out
}

// NewChat returns a Chat for a chat route. clients returns the client for a key. It is called for
// each attempt, so it should cache the clients. If it returns nil for a key, for example one from a
// later configuration, the key is skipped. The route's total timeout bounds all attempts of one
// chat together.
func NewChat(chooser *Chooser, clients func(UpstreamKey) *chat.Client) *Chat {
	total := chat.Options{Total: chooser.route.Timeouts.Total}.WithDefaults().Total
	return &Chat{
		chooser: chooser.Among(func(a UpstreamKey) bool { return clients(a) != nil }), clients: clients, total: total,
		late: fmt.Errorf("the chat did not finish within %v: %w", total, context.DeadlineExceeded),
	}
}

// ChatRequest describes one chat.
type ChatRequest struct {
	// Job identifies the chat. Its ID is sent to every upstream as the Idempotency-Key, unless the
	// ID is empty.
	Job Job
	// Model is the caller's model name, which Body contains too.
	Model string
	// Body is the caller's JSON. Apart from AskForUsage, the call changes only the model name, and
	// only if the route maps it. Body must not change until the reply is complete or the stream is
	// closed.
	Body body.Document
	// AskForUsage adds a request for token usage to the body of a streamed chat. An upstream that
	// refuses this gets the body without it.
	AskForUsage bool
	// Queued is true for a queued chat. Queued chats fail over only if the upstream certainly did
	// not start, because their attempts are counted and work that an upstream has done is paid for.
	// Other chats fail over after any failure that another upstream might avoid, except timeouts,
	// unless the route has retry_timeouts.
	Queued bool
	// Slot is a slot from Reserve, or nil to acquire one. The call releases it. If the slot was
	// reserved before a reload and its key has no client here, the call acquires another slot.
	Slot *Slot
	// Tried is kept across the attempts of a queued chat, so that the next attempt starts with a
	// key that has not failed. Nil starts a new round.
	Tried *Tried
}

// ChatReply is a complete reply and the key that produced it.
type ChatReply struct {
	chat.Reply
	UpstreamKey UpstreamKey
}

// Reserve acquires a slot for a chat before genbus promises its caller a reply. If all slots are in
// use, the waiter queues for one. It fails with *BusyError or ErrExhausted.
func (c *Chat) Reserve(t *Tried, in *Waiter) (*Slot, error) { return c.acquire(t, in, true) }

// Complete returns a complete reply, trying keys in turn until one answers. Its error is an
// *upstream.Error, usually that of the last key called. If all keys are busy, or the last call
// failed for good while another key is busy, the error is neither Written nor Final and has
// RetryAfter.
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

// run tries keys until a call succeeds or fails in a way that another key cannot avoid.
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
		case ctx.Err() != nil || !movesOn(last, req.Queued) || chat.TimedOut(last) && !c.chooser.route.RetryTimeouts:
			return last
		}
	}
}

// reserved returns slot if this Chat has a client for it, and releases it otherwise.
func (c *Chat) reserved(slot *Slot) *Slot {
	if slot != nil && c.clients(slot.id) == nil {
		slot.Release()
		return nil
	}
	return slot
}

// acquire returns a slot with the next key. If earlier attempts have tried all keys, it starts a
// new round. If the remaining keys are busy, the next call starts a new round, so that the chat
// does not wait forever for a key that is never free.
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

// try makes one call. It releases slot, unless the call keeps it.
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
	a.request = chat.Request{JobID: req.Job.ID, Body: sent.Bytes(), OnResend: slot.countResend, OnSkip: slot.service.metrics.EventSkipped}
	var err error
	if req.AskForUsage {
		err = a.askForUsage(ctx, sent, call)
	} else {
		err = call(a)
	}
	if err == nil {
		return nil
	}
	e := c.explain(ctx, err)
	a.failed(e)
	return e
}

// explain converts err to an *upstream.Error. If the total timeout ended the call, the error
// reports that.
func (c *Chat) explain(ctx context.Context, err error) *upstream.Error {
	e := upstream.AsError(opChat, err)
	if cause := context.Cause(ctx); e.Code == chat.CodeCancelled && errors.Is(cause, c.late) {
		e.Code, e.Message = chat.CodeTotalTimeout, cause.Error()
	}
	return e
}

// noKey returns the error of a chat that has no key to try. It does not return a key's final
// refusal while another key is only busy.
func (c *Chat) noKey(err error, last *upstream.Error) error {
	busy, ok := errors.AsType[*BusyError](err)
	switch {
	case last != nil && (!ok || !last.Final):
		return last
	case !ok:
		return upstream.NotSent(opChat, fmt.Errorf("route %s has no upstream", c.chooser.route.Name))
	}
	e := &upstream.Error{
		Op: opChat, Message: "no upstream of route " + c.chooser.route.Name + " is accepting chats; try again later",
		RetryAfter: max(time.Until(busy.Until), time.Millisecond), Scope: upstream.ScopeUpstream, Err: err,
	}
	if busy.pause != nil {
		busy.pause.describe(e, busy.Until)
	}
	return e
}

func movesOn(err *upstream.Error, queued bool) bool {
	if err.Scope == upstream.ScopeRequest {
		return false
	}
	return !queued || notBegun(err)
}

// notBegun reports whether the upstream certainly did not start the chat.
func notBegun(err *upstream.Error) bool {
	if !err.Written || err.Unrouted() {
		return true
	}
	if !err.Reported {
		return false
	}
	switch status := err.HTTPStatus; status {
	case 408, 409, 425: // it may be running
		return false
	case 503, 529: // overloaded
		return true
	default:
		// A final 5xx refuses further calls but reveals nothing about this one.
		return status < 500 && (err.Final || status >= 300)
	}
}
