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
	// idleAfter is how long no message comes until one is waited for by a long request.
	idleAfter = 10 * time.Second
	// longFetch is how long the server keeps such a request, and idleBatch how many messages
	// it asks for: few, as those that are sent to a process that has just died wait for AckWait.
	longFetch = 10 * time.Minute
	idleBatch = 4
	// idleHeartbeat is how often the server says that it has the request. Twice that long
	// without a word, and it is taken to have lost it.
	idleHeartbeat = 30 * time.Second
	// drainWithin bounds the wait for what the server has sent before it heard of the end.
	drainWithin = 5 * time.Second
)

// idlePull is the long request of one fetch loop: a route without jobs costs a message a
// minute or so, and not two a second.
type idlePull struct {
	mu     sync.Mutex
	cancel context.CancelFunc // nil while none waits
}

// idlePulls are those of all fetch loops.
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

// interrupt ends the long requests of all loops.
func (s *idlePulls) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.all {
		p.interrupt()
	}
}

// begin returns a context that interrupt ends, until done is called.
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

// interrupt ends the long request, as there are messages for it: the server that had it may
// be gone. Short ones follow.
func (p *idlePull) interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cancel != nil {
		p.cancel()
	}
}

// await asks for a few messages by one long request, and hands on the first that comes and
// what was sent with it. It returns then, or when the request is interrupted, ctx ends, or
// the request fails. The client's Fetch would not do: what the server sends to one that was
// given up waits for its AckWait. An iterator is drained.
func (f *fetcher) await(ctx context.Context) (got int, err error) {
	n, err := f.free.reserve(ctx, idleBatch)
	if err != nil {
		return 0, nil // the process stops
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
	_ = f.c.resync.pass(ctx) // the request was made again with the connection
	if ctx.Err() == nil {
		for _, m := range batch {
			f.begin(m)
		}
	} else {
		f.handBack(batch)
	}
	if errors.Is(err, jetstream.ErrNoHeartbeat) || waiting.Err() != nil {
		err = nil // the short requests that follow find out
	}
	return len(batch), ended(ctx, err)
}

// drain ends an iterator, and returns what the server has sent until it knew.
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
