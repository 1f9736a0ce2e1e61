package publisher

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/telemetry"
)

// maxHeaders is the capacity for an event's headers and the broker headers that its writer adds.
const maxHeaders = 24

// headers sets the headers of a message. A message has about twenty headers, so their values share
// one array and the map is large enough from the start.
type headers struct {
	of     nats.Header
	values []string
}

// newMessage returns a message without headers and the setter for its headers.
func newMessage(subject string) (*nats.Msg, *headers) {
	h := &headers{of: make(nats.Header, maxHeaders), values: make([]string, 0, maxHeaders)}
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
