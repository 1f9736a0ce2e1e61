package publisher

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/telemetry"
)

// Capacities for the headers of a message, including those of its trace and the broker headers that
// its writer adds.
const (
	eventHeaders = 24
	otherHeaders = 14 // of chunks and usage
)

// headers sets the headers of a message. An event has about twenty headers, so their values share
// one array and the map is large enough from the start.
type headers struct {
	of     nats.Header
	values []string
}

// newMessage returns a message without headers, and the setter of its headers, with room for
// capacity of them.
func newMessage(subject string, capacity int) (*nats.Msg, *headers) {
	h := &headers{of: make(nats.Header, capacity), values: make([]string, 0, capacity)}
	return &nats.Msg{Subject: subject, Header: h.of}, h
}

func (h *headers) set(key, value string) {
	n := len(h.values)
	h.values = append(h.values, value)
	h.of[key] = h.values[n : n+1 : n+1]
}

// trace sets the trace context like Trace.
func (h *headers) trace(ctx context.Context) {
	for k, v := range telemetry.Inject(ctx) {
		h.set(k, v)
		h.set("ce-"+k, v)
	}
}

// Trace sets the trace context of ctx twice, once as NATS clients expect it and once as the
// CloudEvents extension.
func Trace(ctx context.Context, to nats.Header) {
	h := headers{of: to}
	h.trace(ctx)
}
