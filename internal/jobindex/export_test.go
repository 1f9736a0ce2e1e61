package jobindex

// OnIndexed lets a test wait until the index has heard of an event.
func (x *Index) OnIndexed(f func()) { x.heard.Store(&f) }

// Ready reports whether this replica keeps the index and has all that the log has.
func (x *Index) Ready() bool { return x.ready() != nil }
