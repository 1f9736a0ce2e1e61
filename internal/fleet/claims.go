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

// message is what replicas send each other: each which leases it holds, once a second and
// when that changes.
type message struct {
	Replica  string           `json:"replica"`
	Claims   map[string]claim `json:"claims,omitempty"` // by the lease's key
	Released []string         `json:"released,omitempty"`
	// Ask has the others say at once what they hold.
	Ask bool `json:"ask,omitempty"`
}

// maxClaims bounds the leases in one message.
const maxClaims = 1000

// ClaimsOptions makes Claims. All but Listen are required. The functions are called by several
// goroutines.
type ClaimsOptions struct {
	Conn *nats.Conn
	// Subject is where the replicas tell each other of these leases, and of no other ones.
	Subject string
	// Self is the id of this replica, the same as that of its leases.
	Self string
	// All is the leases of this process by their keys, in a map that does not change any more.
	All func() map[string]*Lease
	// Lease is the lease of a key; nil where this process has none.
	Lease func(key string) *Lease
	// Listen is how long a replica listens before it takes a lease. The holders answer at once
	// when it begins; a longer time than that also hears of one whose answer is lost. Default: 1.25 s.
	Listen time.Duration
	// Changed is called when another replica holds the lease of a key that did not until now,
	// and when another one says that it has given it up. It is not called when a claim is
	// over because the holder is gone: that shows when the lease is asked. No message is heard
	// until it returns.
	Changed func(key string)
}

// Claims tells the other replicas which leases this one holds, and hears it of them. It is
// safe for concurrent use.
type Claims struct {
	o ClaimsOptions

	mu sync.Mutex // of two messages about one lease, the later is sent later
	// listens is when the claims of others were first listened to; zero before that.
	listens time.Time
}

// NewClaims returns Claims that say and hear nothing before Run.
func NewClaims(o ClaimsOptions) *Claims {
	if o.Listen == 0 {
		o.Listen = listenFor
	}
	return &Claims{o: o}
}

// Run listens and claims until ctx ends.
func (c *Claims) Run(ctx context.Context, logger *slog.Logger) {
	sub, err := c.o.Conn.Subscribe(c.o.Subject, c.heard)
	if err != nil { // the connection is closed
		logger.Error("cannot exchange lease claims with other replicas", telemetry.KeySubject, c.o.Subject, telemetry.KeyError, err)
		return
	}
	defer func() { _ = sub.Unsubscribe() }() // a closed connection has none
	c.Listen()
	ticker := time.NewTicker(claimEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.say(c.o.All())
		}
	}
}

// Listen begins to listen, again after a time in which nothing was heard: it asks the others
// what they hold.
func (c *Claims) Listen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listens = time.Now()
	c.send(message{Ask: true})
}

// Unheard is how long it takes until this replica would have heard of one that holds a
// lease; zero or less once it would. Before that none is to be taken.
func (c *Claims) Unheard(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listens.IsZero() {
		return c.o.Listen
	}
	return c.o.Listen - now.Sub(c.listens)
}

// Say tells the others which of the leases of these keys this replica holds.
func (c *Claims) Say(keys ...string) {
	leases := make(map[string]*Lease, len(keys))
	for _, key := range keys {
		if l := c.o.Lease(key); l != nil {
			leases[key] = l
		}
	}
	c.say(leases)
}

func (c *Claims) say(leases map[string]*Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	m := message{Claims: map[string]claim{}}
	for key, l := range leases {
		said, ok := l.claim(now)
		if !ok {
			continue
		}
		m.Claims[key] = said
		if len(m.Claims) >= maxClaims {
			c.send(m)
			m.Claims = map[string]claim{}
		}
	}
	if len(m.Claims) > 0 {
		c.send(m)
	}
}

// Release gives up the lease of a key, and tells the others where this replica had it.
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

// send tells the other replicas. What is lost is repeated, or was to save work only.
func (c *Claims) send(m message) {
	m.Replica = c.o.Self
	if data, err := json.Marshal(m); err == nil {
		_ = c.o.Conn.Publish(c.o.Subject, data)
	}
}

// heard takes a message of another replica.
func (c *Claims) heard(m *nats.Msg) {
	var said message
	if err := json.Unmarshal(m.Data, &said); err != nil || said.Replica == "" || said.Replica == c.o.Self {
		return
	}
	if said.Ask {
		c.say(c.o.All())
	}
	now := time.Now()
	for key, claim := range said.Claims {
		l := c.o.Lease(key)
		if l == nil {
			continue
		}
		changed, object := l.heard(said.Replica, claim, now)
		if object {
			c.Say(key)
		}
		if changed {
			c.o.Changed(key)
		}
	}
	for _, key := range said.Released {
		if l := c.o.Lease(key); l != nil {
			l.released(said.Replica)
			c.o.Changed(key)
		}
	}
}
