package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/test/faultinject"
)

// runAsService is the variable that makes the test binary run the service. Tests that kill
// processes start it this way.
const runAsService = "RUN_AS_GENBUS_SERVICE"

func TestMain(m *testing.M) {
	faultinject.MaybeServeNode()
	if os.Getenv(runAsService) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(brokertest.Tests{M: m, Parallel: 12}, brokertest.Leaks()...)
}
