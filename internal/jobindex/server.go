package jobindex

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/jobtable"
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
	keeper *keeper
	b      *broker.Broker
	self   string
	waits  chan struct{} // has a token for each question that waits

	mu      sync.Mutex
	closed  bool // no question waits any more
	answers sync.WaitGroup
}

func newServer(o Options, k *keeper) *server {
	return &server{keeper: k, b: o.Broker, self: o.Log.Writer(), waits: make(chan struct{}, mostWaits)}
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
	own := s.keeper.ready()
	err := json.Unmarshal(m.Data, &q)
	if q.Gone != nil { // one that is not ready may have read it too
		own = s.keeper.current.Load()
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
		s.respond(m, answerFrom(own, q))
		return
	}
	select {
	case s.waits <- struct{}{}:
	default:
		s.respond(m, answerFrom(own, q))
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
		s.respond(m, answerFrom(own, q))
	})
}

// search answers a search without keeping the other questions waiting.
func (s *server) search(ctx context.Context, m *nats.Msg, own *reading, q jobtable.Search) {
	if !q.Legal() {
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
		found, err := s.keeper.search(ctx, own, q)
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

// answerFrom answers a question from a reading.
func answerFrom(r *reading, q question) answer {
	r.mu.Lock()
	a := answer{AsOf: r.asOf} // before the table is looked at, which has at least that
	r.mu.Unlock()
	switch {
	case q.List != nil && q.List.Legal():
		rows, found := r.table.Page(*q.List)
		a.Rows, a.NoRow = rows, !found
	case q.Tenant != "":
		a.Jobs = r.table.Unfinished(q.Tenant)
	case q.Gone != nil:
		q.Gone.from(r.table)
	case q.Rates:
		rates := r.rated()
		a.Rates = &rates
	case q.Largest > 0:
		a.ByName, a.InAll = r.table.UnfinishedByTenant(min(q.Largest, jobtable.MaxPage), q.Tenants)
	default:
		a.Error = badlyPut
	}
	return a
}
