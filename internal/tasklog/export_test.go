package tasklog

// OnIndexed lets a test wait until the list has heard of an event.
func (l *Log) OnIndexed(f func()) {
	l.index.mu.Lock()
	defer l.index.mu.Unlock()
	l.index.seen = f
}

// Wake makes every follower read the leader, as after a reconnect.
func (l *Log) Wake() { l.hub.wake() }
