package jobindex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

const (
	// mostWaits bounds the questions that wait for an event, and waitFor how long one does:
	// less than who asks waits for the answer.
	mostWaits = 256
	waitFor   = 200 * time.Millisecond
)

// server answers the questions of the other replicas, while this one has the index ready.
type server struct {
	x     *Index
	b     *broker.Broker
	self  string
	waits chan struct{} // has a token for each question that waits

	mu      sync.Mutex
	closed  bool // no question waits any more
	answers sync.WaitGroup
}

// listen answers the questions of the others until it is stopped.
func (s *server) listen(ctx context.Context) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	sub, err := s.b.Conn().Subscribe(s.b.Names().Index(s.self), func(m *nats.Msg) { s.asked(ctx, m) })
	if err != nil {
		cancel()
		return nil, fmt.Errorf("subscribe to questions for the index: %w", errors.Join(broker.ErrUnavailable, err))
	}
	return func() {
		_ = sub.Unsubscribe() // a closed connection has none
		cancel()
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.answers.Wait()
	}, nil
}

// asked answers a question. One that waits for an event does so without keeping the others
// waiting.
func (s *server) asked(ctx context.Context, m *nats.Msg) {
	var q question
	own := s.x.ready()
	switch err := json.Unmarshal(m.Data, &q); {
	case err != nil:
		s.respond(m, answer{Error: badlyPut})
		return
	case own == nil:
		s.respond(m, answer{Error: notReady})
		return
	case q.Upto <= own.heardUpto():
		s.respond(m, own.answer(q))
		return
	}
	select {
	case s.waits <- struct{}{}:
	default:
		s.respond(m, own.answer(q))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.answers.Go(func() {
		defer func() { <-s.waits }()
		own.await(ctx, q.Upto, waitFor)
		s.respond(m, own.answer(q))
	})
}

// respond answers, where an answer is wanted.
func (s *server) respond(m *nats.Msg, a answer) {
	if m.Reply == "" {
		return
	}
	if data, err := json.Marshal(a); err == nil {
		_ = m.Respond(data) // who asks gives up, and asks another one
	}
}

// answer answers a question of another replica.
func (r *reading) answer(q question) answer {
	r.mu.Lock()
	a := answer{AsOf: r.asOf} // before the table is looked at, which has at least that
	r.mu.Unlock()
	switch {
	case q.List != nil && q.List.legal():
		rows, found := r.table.page(*q.List)
		a.NoRow = !found
		for _, r := range rows {
			a.Rows = append(a.Rows, wireRow{r.created, r.id, r.status, r.seq})
		}
	case q.Tenant != "":
		a.Jobs = r.table.unfinishedOf(q.Tenant)
	case q.Gone != nil:
		r.table.forget(q.Gone.row())
	case q.Totals:
		a.Totals = r.table.unfinishedByKind()
	default:
		a.Error = badlyPut
	}
	return a
}

// legal reports whether a window is one that List asks for.
func (w window) legal() bool {
	return slices.Contains(subject.Kinds, w.Kind) && w.N > 0 && w.N <= MaxPage+1 && w.Skip >= 0
}
