package jobindex

// OnIndexed lets a test wait until the index has heard of an event.
func (x *Index) OnIndexed(f func()) { x.heard.Store(&f) }
