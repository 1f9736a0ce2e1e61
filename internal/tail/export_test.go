package tail

// Held is what all tails keep, in bytes.
func (s *Set[K, V]) Held() int64 { return s.held.Load() }
