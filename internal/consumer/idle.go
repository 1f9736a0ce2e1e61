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
	// idleAfter is the time without messages after which a loop sends a long request.
	idleAfter = 10 * time.Second
	// longFetch is how long the server keeps such a request, and idleBatch how many messages it
	// asks for. There are few, because messages sent to a process that has just died wait for
	// AckWait.
	longFetch = 10 * time.Minute
	idleBatch = 4
	// idleHeartbeat is the server's heartbeat interval for the request. After two missed ones, the
	// server is assumed to have lost the request.
	idleHeartbeat = 30 * time.Second
	// drainWithin bounds the wait for messages that the server sent before it saw the end.
	drainWithin = 5 * time.Second
)

// idlePull is the long request of one fetch loop. With it, a route without jobs costs about a
// message a minute instead of two a second.
type idlePull struct {
	mu     sync.Mutex
	cancel context.CancelFunc // nil if none is waiting
}

// idlePulls has the long requests of all fetch loops.
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

// begin returns a context that interrupt can end, until done is called.
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

// interrupt ends the long request, so that short ones follow: the server that had it may be gone.
func (p *idlePull) interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cancel != nil {
		p.cancel()
	}
}

// await sends one long request for a few messages, and begins the first one and any others sent
// with it. It also returns if the request is interrupted or fails, or ctx ends. It drains an
// iterator, because messages sent to an abandoned Fetch would wait for AckWait.
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
	_ = f.c.resync.pass(ctx) // after a reconnect, the client has repeated the request
	if ctx.Err() == nil {
		for _, m := range batch {
			f.begin(m)
		}
	} else {
		f.handBack(batch)
	}
	if errors.Is(err, jetstream.ErrNoHeartbeat) || waiting.Err() != nil {
		err = nil // the next short request shows the error
	}
	return len(batch), ended(ctx, err)
}

// drain ends an iterator and returns the messages that the server sent before it knew.
func drain(ctx context.Context, messages jetstream.MessagesContext) (rest []jetstream.Msg) {
	messages.Drain()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWithin)
	defer cancel()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return rest // there are no more
		}
		rest = append(rest, m)
	}
}
