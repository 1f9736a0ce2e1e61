package broker

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestTroubleDuringAnElection proves that callers may wait for PublishTimeout during an election,
// and not again once they were refused.
func TestTroubleDuringAnElection(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	electing := error(&jetstream.APIError{Code: 503, ErrorCode: 10008})
	for name, row := range map[string]struct {
		looks  []error // one per second
		refuse time.Duration
	}{
		"no answer":                      {[]error{context.DeadlineExceeded}, 0},
		"an election":                    {[]error{electing}, PublishTimeout},
		"an election that goes on":       {[]error{electing, errNoLeader, electing}, PublishTimeout},
		"an election, then no answer":    {[]error{electing, context.DeadlineExceeded}, time.Second},
		"no answer, then an election":    {[]error{context.DeadlineExceeded, electing}, 0},
		"a longer one than callers wait": {[]error{electing, electing, electing, electing, electing, electing, electing}, PublishTimeout},
	} {
		var x *trouble
		for i, err := range row.looks {
			x = x.after(err, begin.Add(time.Duration(i)*time.Second))
		}
		if got := x.refuse.Sub(begin); got != row.refuse {
			t.Errorf("%s: callers are refused after %s, want %s", name, got, row.refuse)
		}
	}
}
