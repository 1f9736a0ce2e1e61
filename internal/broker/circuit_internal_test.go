package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/objectwrite"
)

// stalledStore is a server that cannot work on one stream until it goes on.
type stalledStore struct {
	*circuits
	checks int
	goesOn chan struct{}
}

const stalledStream, otherStream = "STALLED", "OTHER"

func newStalledStore() *stalledStore {
	s := &stalledStore{circuits: newCircuits(), goesOn: make(chan struct{})}
	s.available = func(stream string) {
		s.checks++
		if stream == stalledStream {
			<-s.goesOn
		}
	}
	return s
}

// asks reports whether a request about a stream is sent within a second. It is answered at once.
func (s *stalledStore) asks(t *testing.T, stream string) (sent bool, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err = s.ask(ctx, stream, func() error {
		sent = true
		return nil
	})
	return sent, err
}

// TestAStreamThatOwesAnAnswerIsNotAsked, whether a write or a request has none.
func TestAStreamThatOwesAnAnswerIsNotAsked(t *testing.T) {
	t.Parallel()
	unanswered := map[string]func(*testing.T, *stalledStore){
		"write": func(_ *testing.T, s *stalledStore) { s.write(stalledStream) },
		"request": func(t *testing.T, s *stalledStore) {
			err := s.ask(t.Context(), stalledStream, func() error { return context.DeadlineExceeded })
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		},
	}
	for name, send := range unanswered {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStalledStore()
				send(t, s)
				time.Sleep(silentFor) //nolint:forbidigo // synctest
				for range 2 {
					sent, err := s.asks(t, stalledStream)
					if sent || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), stalledStream) {
						t.Errorf("sent: %t, and said %v", sent, err)
					}
				}
				if sent, err := s.asks(t, otherStream); !sent || err != nil {
					t.Errorf("another stream: sent %t, %v", sent, err)
				}
				close(s.goesOn)
				if sent, err := s.asks(t, stalledStream); !sent || err != nil {
					t.Errorf("after the stall: sent %t, %v", sent, err)
				}
				if s.checks != 1 {
					t.Errorf("the server was asked %d times whether it can work on the stream", s.checks)
				}
			})
		})
	}
}

// TestAStreamThatAnswersIsNotChecked: where the server refuses it answers, and a request waits
// for none that was sent just before it.
func TestAStreamThatAnswersIsNotChecked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStalledStore()
		s.write(stalledStream)(&jetstream.APIError{ErrorCode: 10071})
		time.Sleep(time.Hour) //nolint:forbidigo // synctest
		if sent, err := s.asks(t, stalledStream); !sent || err != nil {
			t.Errorf("after an hour: sent %t, %v", sent, err)
		}
		s.write(stalledStream)
		if sent, err := s.asks(t, stalledStream); !sent || err != nil {
			t.Errorf("with a write under way: sent %t, %v", sent, err)
		}
		if s.checks != 0 {
			t.Errorf("the server was asked %d times whether it can work on the stream", s.checks)
		}
	})
}

// TestCircuitsOfTenantsAreForgotten: each tenant has an object store, whose stream has a
// circuit from the first question on, also where there is no such store.
func TestCircuitsOfTenantsAreForgotten(t *testing.T) {
	t.Parallel()
	s := newCircuits()
	s.available = func(string) {}
	for i := range 10000 {
		_ = s.ask(t.Context(), objectwrite.Stream(fmt.Sprintf("bodies-t%05d", i)), func() error { return jetstream.ErrStreamNotFound })
	}
	if n := len(s.by); n > 100 {
		t.Errorf("%d circuits are kept of streams that do not exist, all answered", n)
	}
}

type noStream struct{ jetstream.JetStream }

func (noStream) Stream(context.Context, string) (jetstream.Stream, error) {
	return nil, jetstream.ErrStreamNotFound
}

// TestAGuardedRequestHasTheClientsTimeout: the client ends a request without a deadline after
// five seconds. The guard waits before that begins.
func TestAGuardedRequestHasTheClientsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStalledStore()
		s.write(stalledStream)
		time.Sleep(silentFor) //nolint:forbidigo // synctest
		begin := time.Now()
		_, err := guardedJetStream{noStream{}, s.circuits}.Stream(t.Context(), stalledStream)
		if waited := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || waited != ReadTimeout {
			t.Errorf("a request without a deadline has waited for %s: %v", waited, err)
		}
		close(s.goesOn)
	})
}
