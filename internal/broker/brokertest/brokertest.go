// Package brokertest runs real JetStream servers inside a test: a single node or a cluster of
// three.
package brokertest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

// Logger returns a logger that writes to the test's log.
func Logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// Single opens a broker with its own embedded server and creates its streams.
func Single(t testing.TB) *broker.Broker {
	t.Helper()
	return SingleLimited(t, broker.Limits{})
}

// SingleLimited is like Single with the given stream limits.
func SingleLimited(t testing.TB, limits broker.Limits) *broker.Broker {
	t.Helper()
	return Open(t, broker.Options{
		Names: subject.Default(), Logger: Logger(t), Limits: limits,
		Embedded: broker.Embedded{DataDir: t.TempDir(), NoSync: true},
	})
}

// Open opens a broker and creates its streams. The broker closes when the test ends.
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

// Each runs a test on a single node and, in the full suite, also on three nodes, where JetStream
// answers a compare-and-set differently. Each call of open returns a broker for the same streams.
// The tests of a package share the three nodes, but each test has its own account. TestMain of the
// package must use Tests.
func Each(t *testing.T, test func(t *testing.T, open func(t testing.TB) *broker.Broker)) {
	EachLimited(t, broker.Limits{}, test)
}

// EachLimited is like Each with the given stream limits.
func EachLimited(t *testing.T, limits broker.Limits, test func(t *testing.T, open func(t testing.TB) *broker.Broker)) {
	each(t, limits, func(t testing.TB) { Full(t, "runs on three nodes") }, test)
}

// EachCAS is like Each but runs on three nodes even in the default suite. Use it for one test per
// compare-and-set path.
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

// await calls ask until it succeeds. It polls, because the server sends no event.
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
