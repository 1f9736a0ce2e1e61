package fleet

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/telemetry"
)

// message is sent between replicas. Once a second and whenever its leases change, each replica
// sends the leases that it holds.
type message struct {
	Replica  string           `json:"replica"`
	Claims   map[string]claim `json:"claims,omitempty"` // by lease key
	Released []string         `json:"released,omitempty"`
	// Ask makes the others send their claims at once.
	Ask bool `json:"ask,omitempty"`
}

// maxClaims bounds the leases in a message.
const maxClaims = 1000

// ClaimsOptions configures Claims. All fields but Listen are required. The functions must be safe
// for concurrent use.
type ClaimsOptions struct {
	Conn *nats.Conn
	// Subject is the NATS subject on which replicas exchange claims of these leases. It must have
	// no other use.
	Subject string
	// Self is this replica's ID, as in its leases.
	Self string
	// All returns the leases of this process by key. The returned map must not change.
	All func() map[string]*Lease
	// Lease returns the lease with this key, or nil if this process has none.
	Lease func(key string) *Lease
	// Listen is how long a replica listens before it takes a lease. Holders answer at once when a
	// replica starts listening. Listening for longer than one claim interval also catches a holder
	// whose answer was lost. Default: 1.25 s.
	Listen time.Duration
	// Changed is called when another replica newly holds the lease with this key, or reports that
	// it has released the lease. It is not called when a claim expires because the holder has
	// disappeared, so check the lease for that. Other messages wait until Changed returns.
	Changed func(key string)
}

// Claims exchanges lease claims with the other replicas. It is safe for concurrent use.
type Claims struct {
	o ClaimsOptions

	mu sync.Mutex // keeps messages about a lease in order
	// listens is when this replica last started listening to claims. It is zero before that.
	listens time.Time
}

// NewClaims returns Claims that neither send nor receive until Run is called.
func NewClaims(o ClaimsOptions) *Claims {
	if o.Listen == 0 {
		o.Listen = listenFor
	}
	return &Claims{o: o}
}

// Run receives and sends claims until ctx ends.
func (c *Claims) Run(ctx context.Context, logger *slog.Logger) {
	sub, err := c.o.Conn.Subscribe(c.o.Subject, c.handle)
	if err != nil { // the connection is closed
		logger.Error("cannot exchange lease claims with other replicas", telemetry.KeySubject, c.o.Subject, telemetry.KeyError, err)
		return
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection, which has no subscriptions
	c.Listen()
	ticker := time.NewTicker(claimEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.announce(c.o.All())
		}
	}
}

// Listen starts the listening time again and asks the others for their claims. Call it again after
// a period without messages.
func (c *Claims) Listen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listens = time.Now()
	c.send(message{Ask: true})
}

// ListenRemaining returns how much longer this replica must listen before it knows every holder.
// The result is zero or less after that. Do not take a lease earlier.
func (c *Claims) ListenRemaining(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listens.IsZero() {
		return c.o.Listen
	}
	return c.o.Listen - now.Sub(c.listens)
}

// Announce tells the others which leases with these keys this replica holds.
func (c *Claims) Announce(keys ...string) {
	leases := make(map[string]*Lease, len(keys))
	for _, key := range keys {
		if l := c.o.Lease(key); l != nil {
			leases[key] = l
		}
	}
	c.announce(leases)
}

func (c *Claims) announce(leases map[string]*Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	m := message{Claims: map[string]claim{}}
	for key, l := range leases {
		claimed, ok := l.claim(now)
		if !ok {
			continue
		}
		m.Claims[key] = claimed
		if len(m.Claims) >= maxClaims {
			c.send(m)
			m.Claims = map[string]claim{}
		}
	}
	if len(m.Claims) > 0 {
		c.send(m)
	}
}

// Release releases the lease with this key, and tells the others if this replica held it.
func (c *Claims) Release(key string) {
	l := c.o.Lease(key)
	if l == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.Release() {
		c.send(message{Released: []string{key}})
	}
}

// send sends a message to the others. A lost claim is repeated. A lost release only delays the next
// holder.
func (c *Claims) send(m message) {
	m.Replica = c.o.Self
	if data, err := json.Marshal(m); err == nil {
		_ = c.o.Conn.Publish(c.o.Subject, data)
	}
}

// handle handles a message from another replica.
func (c *Claims) handle(m *nats.Msg) {
	var msg message
	if err := json.Unmarshal(m.Data, &msg); err != nil || msg.Replica == "" || msg.Replica == c.o.Self {
		return
	}
	if msg.Ask {
		c.announce(c.o.All())
	}
	now := time.Now()
	for key, claim := range msg.Claims {
		l := c.o.Lease(key)
		if l == nil {
			continue
		}
		changed, object := l.handleClaim(msg.Replica, claim, now)
		if object {
			c.Announce(key)
		}
		if changed {
			c.o.Changed(key)
		}
	}
	for _, key := range msg.Released {
		if l := c.o.Lease(key); l != nil {
			l.released(msg.Replica)
			c.o.Changed(key)
		}
	}
}
