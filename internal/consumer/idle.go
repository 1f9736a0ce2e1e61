package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// idleAfter is how long a loop goes without messages before it sends a long request.
	idleAfter = 10 * time.Second
	// longFetch is how long the server keeps a long request, and idleBatch is the maximum number of
	// messages it asks for. idleBatch is small because messages sent to a process that has just
	// died are not redelivered until AckWait expires.
	longFetch = 10 * time.Minute
	idleBatch = 4
	// idleHeartbeat is the server's heartbeat interval for a long request. After two missed
	// heartbeats, the client assumes that the server has lost the request.
	idleHeartbeat = 30 * time.Second
	// drainWithin bounds the wait for messages that the server sent before it learned that the
	// request had ended.
	drainWithin = 5 * time.Second
)

// idlePull is the long request of one fetch loop. It reduces the traffic of a route without jobs
// from about two messages a second to about two a minute.
type idlePull struct {
	mu     sync.Mutex
	cancel context.CancelFunc // nil if no long request is active
}

// idlePulls holds the long requests of all fetch loops.
type idlePulls struct {
	mu  sync.Mutex
	all []*idlePull
}

func (s *idlePulls) add() *idlePull {
	p := &idlePull{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, p)
	return p
}

func (s *idlePulls) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.all {
		p.interrupt()
	}
}

// begin returns a context that interrupt cancels. The caller must call done when the request ends.
func (p *idlePull) begin(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancel = cancel
	return ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cancel = nil
		cancel()
	}
}

// interrupt ends the long request so that the loop returns to short ones. It is called when the
// server may have lost the long request.
func (p *idlePull) interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cancel != nil {
		p.cancel()
	}
}

// await sends one long request for up to idleBatch messages. It starts work on the first message
// and any others sent with it. It also returns if the request is interrupted or fails, or if ctx
// ends. It uses an iterator, which can be drained, because messages sent to an abandoned Fetch
// would not be redelivered until AckWait expires.
func (f *fetcher) await(ctx context.Context) (got int, err error) {
	n, err := f.free.reserve(ctx, idleBatch)
	if err != nil {
		return 0, nil // the process is stopping
	}
	defer func() { f.free.release(n - got) }()
	messages, err := f.cons.Messages(jetstream.PullMaxMessages(n), jetstream.PullExpiry(longFetch), jetstream.PullHeartbeat(idleHeartbeat))
	if err != nil {
		return 0, ended(ctx, fmt.Errorf("wait for %d messages: %w", n, err))
	}
	defer messages.Stop()
	waiting, done := f.idle.begin(ctx)
	defer done()
	var batch []jetstream.Msg
	m, err := messages.Next(jetstream.NextContext(waiting))
	if err == nil {
		batch = append(batch, m)
	}
	batch = append(batch, drain(ctx, messages)...)
	_ = f.c.resync.pass(ctx) // after a reconnect, wait until held jobs have been rechecked
	if ctx.Err() == nil {
		for _, m := range batch {
			f.begin(m)
		}
	} else {
		f.handBack(batch)
	}
	if errors.Is(err, jetstream.ErrNoHeartbeat) || waiting.Err() != nil {
		err = nil // the next short request reports the error
	}
	return len(batch), ended(ctx, err)
}

// drain stops an iterator and returns the messages that the server had already sent.
func drain(ctx context.Context, messages jetstream.MessagesContext) (rest []jetstream.Msg) {
	messages.Drain()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWithin)
	defer cancel()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return rest // drained, or drainWithin has passed
		}
		rest = append(rest, m)
	}
}
