package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/objectwrite"
)

// circuits keep requests back from streams that cannot answer (docs/adr/0024). The embedded
// server answers direct gets on the goroutine that reads the connection, and requests of its API
// on a few goroutines for all streams: a request about a stream whose sync to disk stalls keeps
// the one that answers it until the sync ends, and others wait behind it. Writes are not kept
// back: they wait in a queue of the stream.
type circuits struct {
	// available returns when the server can work on a stream. It needs neither the connection
	// nor the API. Nil: another server, and no request is kept back.
	available func(stream string)

	mu sync.Mutex
	by map[string]*circuit
	// most is how many there are until those are dropped that wait for nothing: each tenant's
	// object store has one.
	most int
}

// silentFor is how long a stream to which something was sent may say nothing until a request to
// it waits. What is sent in that time is not kept back.
const silentFor = 10 * time.Millisecond

// circuit is that of one stream.
type circuit struct {
	stream    string
	available func(stream string)

	mu    sync.Mutex
	sent  *sent
	check *check // nil: none is under way
}

// sent counts the writes and requests without an answer that were sent after the last check. It
// has the circuit's lock.
type sent struct {
	unanswered int       // with those that their callers have given up
	since      time.Time // of the last answer, or of the first of them
}

// check is one call of available, which the requests share that are made meanwhile.
type check struct {
	since time.Time     // when the stream was heard last
	done  chan struct{} // is closed when available has returned
}

func newCircuits() *circuits { return &circuits{by: map[string]*circuit{}} }

// ask has f send a request about a stream and wait for the answer. The request waits, within
// ctx, while the stream does not answer what was sent before.
func (s *circuits) ask(ctx context.Context, stream string, f func() error) error {
	c := s.of(stream)
	if c == nil {
		return f()
	}
	if k := c.checked(); k != nil {
		select {
		case <-k.done:
		case <-ctx.Done():
			return fmt.Errorf("stream %s has not answered since %s, and is not asked: %w", stream, k.since.UTC().Format(time.RFC3339), ctx.Err())
		}
	}
	answered := c.send()
	err := f()
	answered(err)
	return err
}

// write is told of a write before it is sent, and returns what is to be told of its answer.
func (s *circuits) write(stream string) (answered func(error)) {
	if c := s.of(stream); c != nil {
		return c.send()
	}
	return func(error) {}
}

// of returns the circuit of a stream; nil where no request is kept back.
func (s *circuits) of(stream string) *circuit {
	if s.available == nil || stream == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.by[stream]
	if c == nil {
		s.makeRoom()
		c = &circuit{stream: stream, available: s.available, sent: &sent{}}
		s.by[stream] = c
	}
	return c
}

// makeRoom needs the lock. A circuit that is dropped while a request begins misses that one.
func (s *circuits) makeRoom() {
	if len(s.by) < s.most {
		return
	}
	maps.DeleteFunc(s.by, func(_ string, c *circuit) bool { return c.isIdle() })
	s.most = max(leastCircuits, 2*len(s.by))
}

// leastCircuits is how many circuits are kept in any case.
const leastCircuits = 64

func (c *circuit) isIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.check == nil && c.sent.unanswered == 0
}

// checked returns the check that a request waits for; nil: the stream answers.
func (c *circuit) checked() *check {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.check != nil || c.sent.unanswered == 0 || time.Since(c.sent.since) < silentFor {
		return c.check
	}
	k := &check{since: c.sent.since, done: make(chan struct{})}
	c.check = k
	go func() {
		c.available(c.stream)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sent, c.check = &sent{}, nil
		close(k.done)
	}()
	return k
}

// send counts what is about to be sent. An error that is not the server's is no answer: then the
// next check forgets it.
func (c *circuit) send() (answered func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.sent
	if of.unanswered == 0 {
		of.since = time.Now()
	}
	of.unanswered++
	return func(err error) {
		if err != nil && !isRefusal(err) {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		of.unanswered--
		of.since = time.Now()
	}
}

// isRefusal reports whether an error is the answer of the server.
func isRefusal(err error) bool {
	_, is := errors.AsType[*jetstream.APIError](err)
	return is
}

// streamOf is the stream that takes a subject; empty where genbus does not write to it.
func (c *connection) streamOf(subject string) string {
	if rest, is := strings.CutPrefix(subject, "$O."); is {
		bucket, _, _ := strings.Cut(rest, ".")
		return objectwrite.Stream(bucket)
	}
	return c.names.StreamOf(subject)
}
