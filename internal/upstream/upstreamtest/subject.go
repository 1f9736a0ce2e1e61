// Package upstreamtest holds the tests that all video protocols share. They serve recorded answers
// to a protocol's client over HTTP, compare the results, and check the conditions that every state
// read from an answer must meet.
package upstreamtest

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/genbus/genbus/internal/upstream"
)

// Key is the key of every endpoint.
const Key = "sk-test-0123456789"

// Subject gives tests access to a protocol's client.
type Subject struct {
	New func(ep *upstream.Endpoint) upstream.VideoClient
	// Create is a valid submission and Ref a valid task of the protocol.
	Create upstream.VideoCreate
	Ref    upstream.TaskRef
}

func (s Subject) serve(t testing.TB, handler http.HandlerFunc) upstream.VideoClient {
	t.Helper()
	return s.New(Endpoint(t, handler))
}

// Endpoint starts a server and returns an endpoint for it. Both are closed when the test ends.
func Endpoint(t testing.TB, handler http.HandlerFunc) *upstream.Endpoint {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	transport := upstream.NewTransport(upstream.TransportOptions{})
	t.Cleanup(transport.CloseIdleConnections)
	return &upstream.Endpoint{Name: "test", BaseURL: server.URL, Key: Key, Transport: transport}
}
