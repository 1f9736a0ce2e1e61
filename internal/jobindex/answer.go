package jobindex

import (
	"bytes"
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
	var subs []*nats.Subscription
	unsubscribe := func() {
		for _, sub := range subs {
			_ = sub.Unsubscribe() // a closed connection has none
		}
		cancel()
	}
	for _, to := range []string{s.self, subject.AnyWriter} {
		sub, err := s.b.Conn().Subscribe(s.b.Names().Index(to), func(m *nats.Msg) { s.asked(ctx, m) })
		if err != nil {
			unsubscribe()
			return nil, fmt.Errorf("subscribe to questions for the index: %w", errors.Join(broker.ErrUnavailable, err))
		}
		subs = append(subs, sub)
	}
	return func() {
		unsubscribe()
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
	err := json.Unmarshal(m.Data, &q)
	if q.Gone != nil { // one that is not ready may have read it too
		own = s.x.current.Load()
	}
	switch {
	case err != nil:
		s.respond(m, answer{Error: badlyPut})
		return
	case own == nil:
		s.respond(m, answer{Error: notReady})
		return
	case q.Search != nil:
		s.search(ctx, m, own, *q.Search)
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

// search answers a search without keeping the other questions waiting.
func (s *server) search(ctx context.Context, m *nats.Msg, own *reading, q Search) {
	if !q.legal() {
		s.respond(m, answer{Error: badlyPut})
		return
	}
	select {
	case s.waits <- struct{}{}:
	default:
		s.respond(m, answer{Error: tooMany})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.answers.Go(func() {
		defer func() { <-s.waits }()
		ctx, cancel := context.WithTimeout(ctx, searchPatience)
		defer cancel()
		found, err := own.search(ctx, q)
		if err != nil {
			s.respond(m, answer{Error: tooMany})
			return
		}
		s.respond(m, answer{Found: &found})
	})
}

// respond answers, where an answer is wanted.
func (s *server) respond(m *nats.Msg, a answer) {
	if !broker.IsInbox(m.Reply) {
		return
	}
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	enc.SetEscapeHTML(false) // what callers have written would grow sixfold
	if enc.Encode(a) == nil {
		_ = m.Respond(data.Bytes()) // who asks gives up, and asks another one
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
		r.table.gone(*q.Gone)
	case q.Rates:
		rates := r.rated()
		a.Rates = &rates
	case q.Largest > 0:
		a.ByName, a.InAll = r.table.unfinishedByTenant(min(q.Largest, MaxPage), q.Tenants)
	default:
		a.Error = badlyPut
	}
	return a
}

// legal reports whether a search is one that Search asks for.
func (s Search) legal() bool { return s.Size > 0 && s.Size <= MaxPage }

// legal reports whether a window is one that List asks for.
func (w window) legal() bool {
	return slices.Contains(subject.Kinds, w.Kind) && w.N > 0 && w.N <= MaxPage+1 && w.Skip >= 0
}
