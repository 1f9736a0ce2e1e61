package chatlog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// freshEnough is how old a look at the stream may be where it only has to
// notice, some time, that the stream was recreated.
const freshEnough = time.Second

// stream is what is known of the stream of chunks. Those who look at the same time share
// a look.
type stream struct {
	read func(context.Context) (*jetstream.StreamInfo, error)

	mu      sync.Mutex
	known   *jetstream.StreamInfo
	at      time.Time // when known was asked for; zero: it is not known
	running bool
	next    *look // begins when the one that runs has ended
}

// look is one question for the stream's state.
type look struct {
	done chan struct{}
	info *jetstream.StreamInfo
	err  error
}

// info is the stream's state, at most maxAge old; nil: there is no such stream.
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
		go s.run(context.WithoutCancel(ctx)) // it is not this caller's alone; a read has its own limit
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

// forget makes the next one look.
func (s *stream) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
}

func (l *Log) readStream(ctx context.Context) (*jetstream.StreamInfo, error) {
	s, err := l.b.Stream(ctx, l.b.Names().Chunks())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil //nolint:nilnil // no stream is an answer
	}
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

// created is the creation of a stream, as positions have it; 0: there is none.
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
