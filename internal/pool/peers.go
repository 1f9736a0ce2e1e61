package pool

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// peerNotification announces the breaker state of one upstream's creates to other replicas.
type peerNotification struct {
	Replica  string `json:"replica"`
	Upstream string `json:"upstream,omitempty"`
	// Wait is the time between two trial creates in nanoseconds, or zero if the breaker is closed.
	// Next is how long receivers must wait before they send a trial.
	Wait time.Duration `json:"wait,omitempty"`
	Next time.Duration `json:"next,omitempty"`
	// Ask requests the state of all open breakers. Replies name the asking replica in To.
	Ask bool   `json:"ask,omitempty"`
	To  string `json:"to,omitempty"`
}

// maxNotifications limits the send queue. Further notifications are dropped.
const maxNotifications = 256

// Share exchanges the breaker state of creates with other replicas on subject until stop is called.
// A lost message may cost one extra trial.
func (p *Pool) Share(conn *nats.Conn, subject, self string) (stop func(), err error) {
	sub, err := conn.Subscribe(subject, func(m *nats.Msg) { p.handlePeerNotification(m.Data, self) })
	if err != nil {
		return nil, fmt.Errorf("subscribe to breaker state of other replicas: %w", err)
	}
	p.announce(peerNotification{Ask: true})
	stopping, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
		for {
			select {
			case <-stopping:
				return
			case n := <-p.notifications:
				n.Replica = self
				if data, err := json.Marshal(n); err == nil {
					_ = conn.Publish(subject, data)
				}
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(stopping)
		<-done
	}), nil
}

// announce queues a peer notification without blocking.
func (p *Pool) announce(n peerNotification) {
	select {
	case p.notifications <- n:
	default:
	}
}

func (p *Pool) handlePeerNotification(data []byte, self string) {
	var n peerNotification
	if json.Unmarshal(data, &n) != nil || n.Replica == "" || n.Replica == self || n.To != "" && n.To != self {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n.Ask {
		now := time.Now()
		for _, s := range p.services {
			if c := &s.creates; !c.closed() {
				p.announce(peerNotification{Upstream: s.name, Wait: c.wait, Next: c.until.Sub(now), To: n.Replica})
			}
		}
		return
	}
	if s := p.services[n.Upstream]; s != nil && s.breaks.Failures > 0 {
		s.creates.apply(n)
	}
}
