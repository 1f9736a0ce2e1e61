package chatlog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// freshEnough is the maximum age of the stream state for detecting a recreated stream.
const freshEnough = time.Second

// stream caches the state of the chunk stream. Concurrent callers share a read.
type stream struct {
	read func(context.Context) (*jetstream.StreamInfo, error)

	mu      sync.Mutex
	known   *jetstream.StreamInfo
	at      time.Time // when the read of known started; zero if there is none
	running bool
	next    *look // starts after the running read
}

// look is one read of the stream's state.
type look struct {
	done chan struct{}
	info *jetstream.StreamInfo
	err  error
}

// info returns the stream's state, which is at most maxAge old, or nil if the stream does not
// exist.
func (s *stream) info(ctx context.Context, maxAge time.Duration) (*jetstream.StreamInfo, error) {
	s.mu.Lock()
	if !s.at.IsZero() && time.Since(s.at) < maxAge {
		defer s.mu.Unlock()
		return s.known, nil
	}
	if s.next == nil {
		s.next = &look{done: make(chan struct{})}
	}
	mine := s.next
	if !s.running {
		s.running = true
		go s.run(context.WithoutCancel(ctx)) // shared by all callers; bounded by the read's own timeout
	}
	s.mu.Unlock()
	select {
	case <-mine.done:
		return mine.info, mine.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *stream) run(ctx context.Context) {
	for {
		s.mu.Lock()
		now := s.next
		if s.next = nil; now == nil {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		at := time.Now()
		now.info, now.err = s.read(ctx)
		s.mu.Lock()
		if now.err == nil {
			s.known, s.at = now.info, at
		}
		s.mu.Unlock()
		close(now.done)
	}
}

func (s *stream) invalidate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
}

func (l *Log) readStream(ctx context.Context) (*jetstream.StreamInfo, error) {
	s, err := l.b.Stream(ctx, l.b.Names().Chunks())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil //nolint:nilnil // a missing stream is a valid result
	}
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

// created returns the stream's creation time in Unix nanoseconds, or 0 if the stream does not
// exist.
func created(info *jetstream.StreamInfo) int64 {
	if info == nil {
		return 0
	}
	return info.Created.UnixNano()
}

func noStream(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamNotFound
}
