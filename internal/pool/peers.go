package pool

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// notice is what a replica tells the others of an upstream that fails creates.
type notice struct {
	Replica  string `json:"replica"`
	Upstream string `json:"upstream,omitempty"`
	// Wait is the time between two creates that try the upstream, in nanoseconds; zero once one
	// went well. Next is how long the others send none.
	Wait time.Duration `json:"wait,omitempty"`
	Next time.Duration `json:"next,omitempty"`
	// Ask has the others say which upstreams fail; To is who has asked, and empty in what all are told.
	Ask bool   `json:"ask,omitempty"`
	To  string `json:"to,omitempty"`
}

// maxNotices bounds those that wait to be sent.
const maxNotices = 256

// Share tells the other replicas on this subject which upstreams fail creates, and hears it of
// them, until stop is called. What is lost costs one more create that fails.
func (p *Pool) Share(conn *nats.Conn, subject, self string) (stop func(), err error) {
	sub, err := conn.Subscribe(subject, func(m *nats.Msg) { p.heard(m.Data, self) })
	if err != nil {
		return nil, fmt.Errorf("subscribe to what other replicas know of upstreams: %w", err)
	}
	p.announce(notice{Ask: true})
	stopping, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = sub.Unsubscribe() }() // a closed connection has none
		for {
			select {
			case <-stopping:
				return
			case n := <-p.notices:
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

// announce has the other replicas told, where there are any. It does not block.
func (p *Pool) announce(n notice) {
	select {
	case p.notices <- n:
	default:
	}
}

// heard takes what another replica says.
func (p *Pool) heard(data []byte, self string) {
	var n notice
	if json.Unmarshal(data, &n) != nil || n.Replica == "" || n.Replica == self || n.To != "" && n.To != self {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n.Ask {
		now := time.Now()
		for _, s := range p.services {
			if c := &s.caution; !c.trusts() {
				p.announce(notice{Upstream: s.name, Wait: c.wait, Next: c.until.Sub(now), To: n.Replica})
			}
		}
		return
	}
	if s := p.services[n.Upstream]; s != nil && s.breaks.Failures > 0 {
		s.caution.hear(n)
	}
}
