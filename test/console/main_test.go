// Package console_test uses the operators' console in a real browser. Package internal/api/console
// tests the answers to single requests.
package console_test

import (
	"flag"
	"os"
	"testing"

	"github.com/genbus/genbus/internal/broker/brokertest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	brokertest.StoreInMemory()
	code := m.Run()
	if running.stop != nil {
		running.stop()
	}
	os.Exit(code)
}
