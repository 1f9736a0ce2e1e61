package joblog

import "math/rand/v2"

// Wake checks every followed job, as after a reconnect.
func (l *Log) Wake() { l.tails.Wake() }

// DropLive drops a random share of later live messages.
func (l *Log) DropLive(share float64) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	l.hub.loses = func() bool { return rand.Float64() < share }
}
