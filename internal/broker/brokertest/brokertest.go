// Package brokertest runs real JetStream servers inside a test: one node, or
// three that replicate. It is for tests only.
package brokertest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

// Logger writes into the test's own log.
func Logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// Single opens a broker with an embedded server of its own, and its streams.
func Single(t testing.TB) *broker.Broker {
	t.Helper()
	return SingleLimited(t, broker.Limits{})
}

// SingleLimited is Single with other limits of the streams.
func SingleLimited(t testing.TB, limits broker.Limits) *broker.Broker {
	t.Helper()
	return Open(t, broker.Options{
		Names: subject.Default(), Logger: Logger(t), Limits: limits,
		Embedded: broker.Embedded{DataDir: t.TempDir(), NoSync: true},
	})
}

// Open opens a broker as the options say, with its streams, until the test ends.
func Open(t testing.TB, o broker.Options) *broker.Broker {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := broker.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	await(t, "the streams", func() error {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return b.Streams().Ensure(try)
	})
	return b
}

// Each runs a test on one node and, in the full suite, on three, because JetStream answers a
// compare-and-set differently there. open returns a further connection to the same streams.
// Tests of a package share the three nodes, each with its own account; the package's TestMain
// must run them as Tests.
func Each(t *testing.T, test func(t *testing.T, open func(t testing.TB) *broker.Broker)) {
	EachLimited(t, broker.Limits{}, test)
}

// EachLimited is Each with other limits of the streams.
func EachLimited(t *testing.T, limits broker.Limits, test func(t *testing.T, open func(t testing.TB) *broker.Broker)) {
	each(t, limits, func(t testing.TB) { Full(t, "runs on three nodes") }, test)
}

// EachCAS is Each for the one test of a compare-and-set path that runs on three nodes in the
// default suite too.
func EachCAS(t *testing.T, test func(t *testing.T, open func(t testing.TB) *broker.Broker)) {
	each(t, broker.Limits{}, func(testing.TB) {}, test)
}

func each(t *testing.T, limits broker.Limits, onThree func(testing.TB), test func(t *testing.T, open func(t testing.TB) *broker.Broker)) {
	t.Run("R1", func(t *testing.T) {
		t.Parallel()
		b := SingleLimited(t, limits)
		test(t, func(testing.TB) *broker.Broker { return b })
	})
	t.Run("R3", func(t *testing.T) {
		onThree(t)
		t.Parallel()
		test(t, three(t, limits))
	})
}

// await asks again until it is so: a server has no event for it.
func await(t testing.TB, what string, ask func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := ask()
		if err == nil {
			return
		}
		if broker.Wait(ctx, 20*time.Millisecond) != nil {
			t.Fatalf("%s: not within a minute: %v", what, err)
		}
	}
}
