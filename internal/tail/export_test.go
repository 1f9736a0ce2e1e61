package tail

// Held returns the number of bytes that all tails keep.
func (s *Set[K, V]) Held() int64 { return s.held.Load() }
