package inline

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/upstream/chat"
)

// call is one inline chat from its admission to the end of the upstream call.
type call struct {
	r       *Runner
	req     admission.Request
	checked admission.Checked
	route   *routes.Chat
	slots   *limit
	begin   time.Time
	// caller is the context of the caller's connection, and ctx is the context of the upstream
	// call.
	caller context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	// outlives is true if the upstream call continues for subscribers after the caller has left.
	outlives bool
	rec      *record // nil if the chat has no events
	fault    error   // why the upstream call failed, or nil
	// onWait is called before the caller of a stream has to wait for event capacity.
	onWait func()
	// out frees the tenant's slot.
	out func()
}

// open admits a chat and starts storing its events. The caller must call release.
func (r *Runner) open(ctx context.Context, req admission.Request, streamed bool) (*call, error) {
	begin := time.Now()
	c, err := r.admit(ctx, req, streamed)
	r.o.Metrics.Admission(subject.Chat, req.Ingress, time.Since(begin))
	if err != nil {
		r.o.Metrics.Refused(subject.Chat, req.Ingress, string(errcode.Counted(ctx, err)))
		return nil, err
	}
	r.o.Metrics.Accepted(subject.Chat, req.Ingress, req.Tenant)
	return c, nil
}

func (r *Runner) admit(ctx context.Context, req admission.Request, streamed bool) (_ *call, err error) {
	checked, err := r.o.Admission.Check(req)
	if err != nil {
		return nil, err
	}
	if err := fitsCall(checked, streamed); err != nil {
		return nil, err
	}
	route, _ := r.o.Routes.Chat(checked.Route.Name)
	if err := r.o.Admission.Running(ctx, subject.Chat, route.Name); err != nil {
		return nil, err
	}
	c := &call{r: r, req: req, checked: checked, route: route, caller: ctx, begin: time.Now(), onWait: func() {}}
	c.slots = r.limit(route.Name)
	if c.slots.full(route.MaxInFlight) { // refuse before waiting for event capacity
		return nil, busy(route)
	}
	// Wait before taking a slot that other chats could use.
	events := r.awaitCapacity(ctx)
	defer func() {
		if err != nil {
			r.backlog.pass()
		}
	}()
	if c.out, err = r.o.Admission.Acquire(ctx, req.Tenant); err != nil {
		return nil, err
	}
	if !c.slots.acquire(route.MaxInFlight) {
		c.out()
		return nil, busy(route)
	}
	if err := r.begin(c, events, streamed); err != nil {
		c.slots.release()
		c.out()
		return nil, err
	}
	c.rec.start()
	return c, nil
}

func busy(route *routes.Chat) error {
	return errcode.New(errcode.QueueFull, "route %s has %d inline chats running on this replica; try again later, or send a request_id to queue the chat",
		route.Name, route.MaxInFlight).WithRetryAfter(time.Second)
}

// fitsCall returns an error if the body's stream field contradicts the kind of call.
func fitsCall(c admission.Checked, streamed bool) error {
	if c.Stream == streamed {
		return nil
	}
	if !streamed {
		return errcode.Invalid([]errcode.Violation{{Field: "stream", Description: "must not be true if the call wants the whole reply"}})
	}
	if c.StreamSet {
		return errcode.Invalid([]errcode.Violation{{Field: "stream", Description: "must not be false if the call wants a stream"}})
	}
	return nil
}

// begin registers the call and, if events is true, its record.
func (r *Runner) begin(c *call, events, streamed bool) error {
	if events {
		c.rec = r.newRecord(c, streamed)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		if c.rec != nil {
			c.rec.cancel(errPatience)
		}
		return errcode.New(errcode.ShuttingDown, "this replica is shutting down; send the chat again")
	}
	if c.rec != nil {
		r.records[c.rec] = struct{}{}
		c.outlives = r.o.Config.Now().Chat.FinishForSubscribers
	}
	parent := c.caller
	if c.outlives {
		parent = context.WithoutCancel(parent)
	}
	c.ctx, c.cancel = context.WithCancelCause(c.traced(parent))
	r.calls[c.checked.ID] = c
	r.work.Add(1)
	c.slots.metrics.AddInline(1)
	return nil
}

// awaitCapacity waits briefly for event capacity. It returns false if chat.inline_events is off or
// no capacity becomes free.
func (r *Runner) awaitCapacity(ctx context.Context) bool {
	if r.o.Config.Now().Chat.InlineEvents == config.InlineEventsOff {
		return false
	}
	if r.backlog.full() && !r.stores(ctx) {
		r.o.Metrics.InlineDropped(eventsOfRecord)
		return false
	}
	return true
}

// stores waits briefly for the broker to store events of other chats and reports whether it did.
func (r *Runner) stores(ctx context.Context) bool {
	return r.o.Broker.Trouble() == nil && r.backlog.await(ctx, r.o.capacityWait)
}

// release ends the call and cancels its upstream request.
func (c *call) release() {
	c.r.mu.Lock()
	delete(c.r.calls, c.checked.ID)
	c.r.mu.Unlock()
	c.cancel(nil)
	c.endTrace()
	c.slots.metrics.AddInline(-1)
	c.slots.release()
	c.out()
	c.r.work.Done()
}

// callerLeft reports whether the caller has left a call that outlives it.
func (c *call) callerLeft() bool { return c.outlives && c.caller.Err() != nil }

// request returns the upstream request. It sends the client's bytes, and adds the stream field if
// the call is streamed and the body does not have it.
func (c *call) request(streamed bool) pool.ChatRequest {
	d := body.Trusted(c.req.Body.Bytes())
	if streamed && !c.checked.Stream {
		d = chat.AskForStream(d)
	}
	return pool.ChatRequest{Job: pool.Job{ID: c.checked.ID, Tenant: c.req.Tenant}, Model: c.checked.Model, Body: d}
}

// failed records a failed upstream call and returns its error for the caller.
func (c *call) failed(err error) *errcode.Error {
	f := c.explain(err).ForJob(c.checked.ID)
	c.fault = f
	c.rec.close(outcome{fault: f})
	return f
}
