package client

import (
	"strconv"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// delivery is a message with a number, so that deliveries differ.
type delivery struct {
	jetstream.Msg
	n int
}

// TestAJobIsInOneHand checks that redelivering a held job replaces its message and starts no second
// handler.
func TestAJobIsInOneHand(t *testing.T) {
	t.Parallel()
	s := &subscription{held: map[string]*heldJob{}, dealt: map[string]struct{}{}}
	first, fresh := s.hold("e", delivery{n: 1})
	if !fresh {
		t.Fatal("the first delivery is none")
	}
	if again, fresh := s.hold("e", delivery{n: 2}); fresh || again != first {
		t.Error("the second delivery is handled, too")
	}
	if m, _ := first.newest().(delivery); m.n != 2 {
		t.Errorf("delivery %d would be acknowledged", m.n)
	}
	s.release("e")
	if _, fresh := s.hold("e", delivery{n: 3}); !fresh {
		t.Error("a job that was let go is still in hand")
	}
}

// TestOldJobsAreRemoved checks that dealt keeps at most maxDealt jobs, dropping the oldest.
func TestOldJobsAreRemoved(t *testing.T) {
	t.Parallel()
	s := &subscription{dealt: map[string]struct{}{}}
	for i := range maxDealt + 10 {
		s.deal(strconv.Itoa(i))
	}
	if s.wasDealt("9") || !s.wasDealt("10") || len(s.dealt) != maxDealt {
		t.Errorf("%d are remembered", len(s.dealt))
	}
}
