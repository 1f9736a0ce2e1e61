package joblog

import "math/rand/v2"

// Wake checks every job that is followed, as after a reconnect.
func (l *Log) Wake() { l.tails.Wake() }

// DropLive loses a share of the live messages from now on, at random.
func (l *Log) DropLive(share float64) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	l.hub.loses = func() bool { return rand.Float64() < share }
}
