package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/test/faultinject"
)

func TestMain(m *testing.M) {
	faultinject.MaybeServeNode()
	goleak.VerifyTestMain(m)
}
