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

// Chat runs the chats of one route, and moves on to another account where one
// fails. It is safe for concurrent use.
type Chat struct {
	chooser *Chooser
	clients func(Account) *chat.Client
	total   time.Duration
	late    error // the cause when a chat has had all its time
}

// NewChat runs chats with the accounts of a chat route. clients gives the client
// of each account of the route; it is called for each attempt, so it should keep
// them. An account that it gives no client for, nil, is passed over: the pool may have
// it from a later configuration. The route's total timeout bounds all attempts at one chat together.
func NewChat(chooser *Chooser, clients func(Account) *chat.Client) *Chat {
	total := chat.Options{Total: chooser.route.Timeouts.Total}.WithDefaults().Total
	return &Chat{
		chooser: chooser.Among(func(a Account) bool { return clients(a) != nil }), clients: clients, total: total,
		late: fmt.Errorf("the chat was not over within %v: %w", total, context.DeadlineExceeded),
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
	// Lease is the place that the chat has already, from Reserve; nil takes one. It
	// is over with the call. That of an account that has no client here, because it was
	// reserved before a reload, is given back, and another one is taken.
	Lease *Lease
	// Tried is kept across the attempts of a queued chat, so that the next one
	// begins with an account that has not failed yet; nil starts again.
	Tried *Tried
}

// ChatReply is a whole answer and who gave it.
type ChatReply struct {
	chat.Reply
	Account Account
}

// Reserve takes a place for a chat that is about to be called, so that nothing
// has to be promised for one that must wait. Where all slots are in use, the ticket waits
// for one. The error is a *BusyError or ErrExhausted.
func (c *Chat) Reserve(t *Tried, in *Ticket) (*Lease, error) { return c.acquire(t, in, true) }

// Complete asks for a whole reply, of one account after the other until one
// answers. Every error is an *upstream.Error: that of the last account which was
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
		reply = ChatReply{Reply: *r, Account: a.lease.Account()}
		a.answered(r.Status)
		return nil
	})
	return reply, err
}

// attempt is one call of one account.
type attempt struct {
	client  *chat.Client
	request chat.Request
	chooser *Chooser // of the client's configuration
	job     Job
	lease   *Lease
	begin   time.Time
}

func (a *attempt) answered(status int) {
	a.measure("answered", status)
	a.lease.Report(a.chooser, a.job, nil)
	a.lease.Release()
}

func (a *attempt) failed(err *upstream.Error) {
	verdict := "failed"
	if givenUp(err) {
		verdict = "given_up"
	}
	a.measure(verdict, err.HTTPStatus)
	a.lease.Report(a.chooser, a.job, err)
	a.lease.Release()
}

func (a *attempt) measure(verdict string, status int) {
	a.lease.service.metrics.Request(opChat, verdict, status, time.Since(a.begin))
}

// run calls account after account until one works, or the failure is nothing
// that another one could avoid.
func (c *Chat) run(ctx context.Context, req ChatRequest, call func(*attempt) error) error {
	if req.Tried == nil {
		req.Tried = new(Tried)
	}
	var last *upstream.Error
	var from Account
	for {
		lease, err := c.reserved(req.Lease), error(nil)
		if req.Lease = nil; lease == nil {
			lease, err = c.acquire(req.Tried, nil, last == nil)
		}
		if err != nil {
			return c.noAccount(err, last)
		}
		if last != nil {
			c.chooser.pool.logger.Info("chat moves on", telemetry.KeyJobID, req.Job.ID, telemetry.KeyTenant, req.Job.Tenant, telemetry.KeyRoute, c.chooser.route.Name,
				"from", from.String(), "to", lease.account.String(), telemetry.KeyHTTPStatus, last.HTTPStatus, telemetry.KeyUpstreamCode, last.Code)
		}
		last, from = c.try(ctx, req, lease, call), lease.account
		switch {
		case last == nil:
			return nil
		case ctx.Err() != nil || !movesOn(last, req.Queued):
			return last
		}
	}
}

// reserved is the lease, if it can be used here.
func (c *Chat) reserved(lease *Lease) *Lease {
	if lease != nil && c.clients(lease.account) == nil {
		lease.Release()
		return nil
	}
	return lease
}

// acquire finds the next account. A chat whose earlier attempts left none to
// try begins a new round; where those that they left are busy, it does so the
// next time, lest it wait for ever for one that is never free.
func (c *Chat) acquire(t *Tried, in *Ticket, first bool) (*Lease, error) {
	again := first && len(t.accounts) > 0
	lease, err := c.chooser.AcquireInTurn(t, in)
	if err == nil || !again {
		return lease, err
	}
	*t = Tried{SentBefore: true}
	if errors.Is(err, ErrExhausted) {
		return c.chooser.AcquireInTurn(t, in)
	}
	return nil, err
}

// try makes one call. The lease is over with it, unless the call keeps it.
func (c *Chat) try(ctx context.Context, req ChatRequest, lease *Lease, call func(*attempt) error) *upstream.Error {
	a := &attempt{client: c.clients(lease.account), chooser: c.chooser, job: req.Job, lease: lease, begin: time.Now()}
	sent := req.Body
	if name := c.chooser.route.ModelFor(lease.account.Upstream, req.Model); name != req.Model {
		sent = sent.WithText("model", name)
		if err := sent.Err(); err != nil {
			lease.Release()
			return upstream.NotSent(opChat, err)
		}
	}
	a.request = chat.Request{JobID: req.Job.ID, Body: sent.Bytes(), OnResend: lease.countResend}
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

// noAccount says why there is no account to go to. A refusal for good is not the
// whole answer while another account is only busy.
func (c *Chat) noAccount(err error, last *upstream.Error) error {
	busy, ok := errors.AsType[*BusyError](err)
	switch {
	case last != nil && (!ok || !last.Final):
		return last
	case !ok:
		return upstream.NotSent(opChat, fmt.Errorf("route %s has no upstream", c.chooser.route.Name))
	}
	e := &upstream.Error{
		Op: opChat, Message: "no upstream of route " + c.chooser.route.Name + " takes a chat now; try again later",
		RetryAfter: max(time.Until(busy.Until), time.Millisecond), Scope: upstream.ScopeUpstream, Err: err,
	}
	if busy.told != nil {
		busy.told.describe(e, busy.Until)
	}
	return e
}

// movesOn reports whether a failed chat may go to another account.
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
