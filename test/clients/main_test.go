// Package clients_test tests genbus with unmodified public clients. It is a module of its own, so
// that programs that import genbus are not bound to the releases of these clients.
package clients_test

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/cli"
)

// runAsService is the variable that makes the test binary run the service.
const runAsService = "RUN_AS_GENBUS_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(runAsService) != "" {
		os.Exit(cli.Run(context.Background(), os.Args[1:]))
	}
	goleak.VerifyTestMain(brokertest.Tests{M: m, Parallel: 12}, brokertest.Leaks()...)
}
