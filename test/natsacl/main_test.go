// Package natsacl_test checks that deploy/nats, the accounts and users of NATS, enforces the
// permissions described in docs/nats-security.md. It loads these files into real servers, runs the
// service and the examples against them, and attacks them.
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

// internalNames are legal names of tenants that are also tokens of internal subjects.
var internalNames = []string{"any", "keepers"}

// Tenants of the tests. Without API keys the service uses the tenant default.
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
	// A server stopped while a stream sets up its source still waits up to half a minute for the
	// answer.
	asks := goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3")
	goleak.VerifyTestMain(brokertest.Tests{M: m, Parallel: 4}, append(brokertest.Leaks(), asks, goleak.Cleanup(func(code int) {
		if err := errors.Join(serviceProgram.remove(), examplePrograms.remove()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))...)
}

// users returns all users of deploy/nats for the tenants of the tests.
func users() []string {
	out := []string{"service", "administrator"}
	for _, tenant := range append([]string{attacker, victim, local}, internalNames...) {
		for _, role := range []string{"publisher", "subscriber", "app", "administrator"} {
			out = append(out, tenant+"-"+role)
		}
	}
	return out
}

// variable returns the name of the environment variable that holds a user's password.
func variable(user string) string {
	return "NATS_" + strings.ToUpper(strings.ReplaceAll(user, "-", "_")) + "_PASSWORD"
}

func password(user string) string { return "secret-of-" + user }
