// Package natsacl_test holds deploy/nats, the accounts and users of NATS, to what
// docs/nats-security.md says of them: it loads these files into real servers, runs
// the real service and the examples against them, and attacks. It has no code of
// its own.
package natsacl_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/broker/brokertest"
)

// The tenants of the tests. Without API keys the service's own tenant is default.
const (
	attacker = "acme"
	victim   = "globex"
	local    = "default"
)

func TestMain(m *testing.M) {
	for _, user := range users() {
		if err := os.Setenv(variable(user), password(user)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	// A server that is stopped while a stream with a source looks for it waits for the
	// answer all the same, for half a minute.
	asks := goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3")
	goleak.VerifyTestMain(brokertest.Tests{M: m, Parallel: 4}, append(brokertest.Leaks(), asks, goleak.Cleanup(func(code int) {
		if err := errors.Join(serviceProgram.remove(), examplePrograms.remove()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))...)
}

// users are all users of deploy/nats, for the tenants of the tests.
func users() []string {
	out := []string{"service", "administrator"}
	for _, tenant := range []string{attacker, victim, local} {
		for _, role := range []string{"publisher", "subscriber", "app", "administrator"} {
			out = append(out, tenant+"-"+role)
		}
	}
	return out
}

// variable is the environment variable of a user's password.
func variable(user string) string {
	return "NATS_" + strings.ToUpper(strings.ReplaceAll(user, "-", "_")) + "_PASSWORD"
}

func password(user string) string { return "secret-of-" + user }
