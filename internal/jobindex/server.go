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
	// maxWaits bounds the questions that are waiting for an event or searching. waitFor bounds the
	// wait for an event. It must be shorter than the asking replica's patience.
	maxWaits = 256
	waitFor  = 200 * time.Millisecond
)

// server answers questions from other replicas while this replica's index is ready.
type server struct {
	keeper *keeper
	b      *broker.Broker
	self   string
	waits  chan struct{} // holds a token for each question that is waiting or searching

	mu      sync.Mutex
	closed  bool // no new question may wait or search
	answers sync.WaitGroup
}

func newServer(o Options, k *keeper) *server {
	return &server{keeper: k, b: o.Broker, self: o.Log.Writer(), waits: make(chan struct{}, maxWaits)}
}

// listen answers questions from other replicas until stop is called.
func (s *server) listen(ctx context.Context) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var subs []*nats.Subscription
	unsubscribe := func() {
		for _, sub := range subs {
			_ = sub.Unsubscribe() // fails only on a closed connection
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

// asked answers a question. A question that waits for an event does not block the others.
func (s *server) asked(ctx context.Context, m *nats.Msg) {
	var q question
	own := s.keeper.ready()
	err := json.Unmarshal(m.Data, &q)
	if q.Remove != nil { // even a reading that is not ready may have the job
		own = s.keeper.current.Load()
	}
	switch {
	case err != nil:
		s.respond(m, answer{Error: badQuestion})
		return
	case own == nil:
		s.respond(m, answer{Error: notReady})
		return
	case q.Search != nil:
		s.search(ctx, m, own, *q.Search)
		return
	case q.Upto <= own.appliedUpto():
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

// search answers a search without blocking other questions.
func (s *server) search(ctx context.Context, m *nats.Msg, own *reading, q jobtable.Search) {
	if !q.Legal() {
		s.respond(m, answer{Error: badQuestion})
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

// respond sends an answer if the question has a reply inbox.
func (s *server) respond(m *nats.Msg, a answer) {
	if !broker.IsInbox(m.Reply) {
		return
	}
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	enc.SetEscapeHTML(false) // escaping would inflate callers' text up to sixfold
	if enc.Encode(a) == nil {
		_ = m.Respond(data.Bytes()) // if this fails, the asking replica asks another one
	}
}

func answerFrom(r *reading, q question) answer {
	r.mu.Lock()
	a := answer{AsOf: r.asOf} // read before the table, so the table includes at least this event
	r.mu.Unlock()
	switch {
	case q.List != nil && q.List.Legal():
		rows, found := r.table.Page(*q.List)
		a.Rows, a.NoRow = rows, !found
	case q.Tenant != "":
		a.Jobs = r.table.Unfinished(q.Tenant)
	case q.Remove != nil:
		q.Remove.applyTo(r.table)
	case q.Replaced != nil:
		a.IDs = r.table.ReplacedBy(*q.Replaced)
	case q.Rates:
		rates := r.rated()
		a.Rates = &rates
	case q.Largest > 0:
		a.ByName, a.InAll = r.table.UnfinishedByTenant(min(q.Largest, jobtable.MaxPage), q.Tenants)
	default:
		a.Error = badQuestion
	}
	return a
}
