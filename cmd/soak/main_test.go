package main

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/test/faultinject"
)

func TestMain(m *testing.M) {
	faultinject.MaybeServeNode()
	flag.Parse()
	brokertest.StoreInMemory()
	goleak.VerifyTestMain(m)
}
