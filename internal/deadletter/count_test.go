package deadletter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestDeadLettersAreCounted proves that the oldest dead letters are counted by code.
func TestDeadLettersAreCounted(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	store := deadletter.Store{Broker: b, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(t)}
	put := func(id, code string) {
		t.Helper()
		if err := store.Put(t.Context(), deadLetter(code, time.Now()), id, "1"); err != nil {
			t.Fatal(err)
		}
	}
	c := deadletter.Counter{Streams: deadletter.Streams{Broker: b}}
	await := func(want deadletter.Counts) {
		t.Helper()
		got := deadletter.Counts{}
		for end := time.Now().Add(time.Minute); got != want; {
			var err error
			if got, err = c.Count(t.Context()); err != nil {
				t.Fatal(err)
			}
			if time.Now().After(end) {
				t.Fatalf("counted %+v, want %+v", got, want)
			}
		}
	}
	await(deadletter.Counts{})
	put("a", "submission_outcome_unknown")
	put("b", "poisoned")
	await(deadletter.Counts{OutcomeUnknown: 1, Other: 1})
	for i := range 500 {
		put(fmt.Sprint("n", i), "submission_outcome_unknown")
	}
	// More than a look reads; the rest is counted without codes.
	await(deadletter.Counts{OutcomeUnknown: 499, Other: 1, Uncounted: 2})
	if err := c.Streams.Delete(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	await(deadletter.Counts{OutcomeUnknown: 499, Other: 1, Uncounted: 1})
}
