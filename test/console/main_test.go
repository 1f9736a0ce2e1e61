// Package console_test uses the operators' console as a person does, in a real browser. What
// the console answers to each request is tested in internal/api/console.
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
