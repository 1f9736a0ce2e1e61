package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/faulttest"
)

func TestMain(m *testing.M) {
	faulttest.MaybeServeNode()
	goleak.VerifyTestMain(m)
}
