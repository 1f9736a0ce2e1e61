// Package upstreamtest has what the tests of all video protocols do alike: it
// reads a protocol's recorded answers, sends each to the protocol's client over
// HTTP, and compares what the client made of it; and it checks what must hold of
// every state that is read from one. It knows no protocol.
package upstreamtest

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/genbus/genbus/internal/upstream"
)

// Key is the key of every endpoint.
const Key = "sk-test-0123456789"

// Subject is how tests reach the client of one protocol.
type Subject struct {
	// New makes the client.
	New func(ep *upstream.Endpoint) upstream.VideoClient
	// Create is a submission, and Ref a task, that the protocol can ask for.
	Create upstream.VideoCreate
	Ref    upstream.TaskRef
}

// serve starts a real server and gives a client of it.
func (s Subject) serve(t testing.TB, handler http.HandlerFunc) upstream.VideoClient {
	t.Helper()
	return s.New(Endpoint(t, handler))
}

// Endpoint starts a real server and gives an endpoint of it. Both end with the
// test.
func Endpoint(t testing.TB, handler http.HandlerFunc) *upstream.Endpoint {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	ep := &upstream.Endpoint{Name: "test", BaseURL: server.URL, Key: Key, Client: upstream.NewHTTPClient(upstream.TransportOptions{})}
	t.Cleanup(ep.Client.CloseIdleConnections)
	return ep
}
