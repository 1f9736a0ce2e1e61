package queue

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/telemetry"
)

// claimsMessage is what replicas send each other on genbus.internal.dispatch: each what it
// dispatches, once a second and when that changes.
type claimsMessage struct {
	Replica  string           `json:"replica"`
	Claims   map[string]claim `json:"claims,omitempty"` // by durable
	Released []string         `json:"released,omitempty"`
}

// maxClaims bounds the routes in one message.
const maxClaims = 1000

// claims tells the other replicas which routes this one dispatches, and hears it of them.
type claims struct {
	b    *broker.Broker
	self string
	// all is the routes of this process, and known one of them by its durable; nil for none.
	all   func() []*Route
	known func(durable string) *Route

	mu sync.Mutex // of two messages about one route, the later is sent later
	// listens is when the claims of others were first listened to; zero before that.
	listens time.Time
}

// run listens and claims until ctx ends.
func (c *claims) run(ctx context.Context, logger *slog.Logger) {
	sub, err := c.b.Conn().Subscribe(c.b.Names().Dispatch(), c.heard)
	if err != nil { // the connection is closed
		logger.Error("who dispatches cannot be agreed on with other replicas", telemetry.KeyError, err)
		return
	}
	defer func() { _ = sub.Unsubscribe() }() // a closed connection has none
	c.mu.Lock()
	c.listens = time.Now()
	c.mu.Unlock()
	ticker := time.NewTicker(claimEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.say(c.all()...)
		}
	}
}

// unheard is how long it takes until this replica would have heard of one that dispatches;
// zero or less once it would.
func (c *claims) unheard(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listens.IsZero() {
		return listenFor
	}
	return listenFor - now.Sub(c.listens)
}

// say tells the others which of these routes this replica dispatches.
func (c *claims) say(routes ...*Route) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	m := claimsMessage{Claims: map[string]claim{}}
	for _, r := range routes {
		if said, ok := r.lease.claim(now); ok {
			m.Claims[r.durable] = said
		}
		if len(m.Claims) == maxClaims {
			c.send(m)
			m.Claims = map[string]claim{}
		}
	}
	if len(m.Claims) > 0 {
		c.send(m)
	}
}

// release gives up the lease of a route, and tells the others where this replica had it.
func (c *claims) release(r *Route) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.lease.release() {
		c.send(claimsMessage{Released: []string{r.durable}})
	}
}

// send tells the other replicas. What is lost is repeated, or was to save work only.
func (c *claims) send(m claimsMessage) {
	m.Replica = c.self
	if data, err := json.Marshal(m); err == nil {
		_ = c.b.Conn().Publish(c.b.Names().Dispatch(), data)
	}
}

// heard takes a message of another replica.
func (c *claims) heard(m *nats.Msg) {
	var said claimsMessage
	if err := json.Unmarshal(m.Data, &said); err != nil || said.Replica == "" || said.Replica == c.self {
		return
	}
	now := time.Now()
	for durable, claim := range said.Claims {
		r := c.known(durable)
		if r == nil {
			continue
		}
		changed, object := r.lease.heard(said.Replica, claim, now)
		if object {
			c.say(r)
		}
		if changed {
			r.backlog.wake()
		}
	}
	for _, durable := range said.Released {
		if r := c.known(durable); r != nil {
			r.lease.released(said.Replica)
			r.backlog.wake()
		}
	}
}
