package queue

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/subject"
)

// Pause is an operator's pause of a route. JetStream keeps only its end, so the durable consumer's
// metadata contains the whole pause.
type Pause struct {
	// Since is when the route was paused, and By the operator key that last paused it. Both are
	// empty if the consumer was paused with another tool.
	Since time.Time `json:"since"`
	By    string    `json:"by"`
	// Reason is one line for callers and operators, or empty.
	Reason string `json:"reason,omitempty"`
	// Until is when the route resumes by itself, or zero if an operator must resume it.
	Until time.Time `json:"until"`
}

// noEnd is the end, in JetStream, of a pause that an operator must end.
var noEnd = time.Date(2126, 1, 1, 0, 0, 0, 0, time.UTC)

// pauseOf returns the pause of a durable consumer, or nil if it is not paused. Metadata with another
// end than the consumer's belongs to an earlier pause.
func pauseOf(info *jetstream.ConsumerInfo) *Pause {
	if !info.Paused {
		return nil
	}
	p, until := &Pause{}, *info.Config.PauseUntil
	if err := json.Unmarshal([]byte(info.Config.Metadata[subject.MetadataPause]), p); err != nil || !p.Until.Equal(until) {
		p = &Pause{Until: until}
	}
	if p.Until.Equal(noEnd) {
		p.Until = time.Time{}
	}
	return p
}

// over reports whether the route has resumed by itself.
func (p *Pause) over(now time.Time) bool { return !p.Until.IsZero() && !now.Before(p.Until) }
