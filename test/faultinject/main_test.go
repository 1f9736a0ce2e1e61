package faultinject

import (
	"context"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/broker/brokertest"
)

func TestMain(m *testing.M) {
	MaybeServeNode()
	if act := os.Getenv(childEnv); act != "" {
		os.Exit(beChild(act))
	}
	goleak.VerifyTestMain(brokertest.Tests{M: m})
}

// patience bounds the waits of tests.
const patience = time.Minute

func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !so() {
		if !Pause(ctx, 5*time.Millisecond) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}
