package publisher

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/telemetry"
)

// mostHeaders is how many an event has, with those of the broker that its writer adds.
const mostHeaders = 24

// headers sets the headers of a message. There are some twenty, so their values are in one
// array, and the map does not grow.
type headers struct {
	of     nats.Header
	values []string
}

// newMessage is a message without headers, and what sets them.
func newMessage(subject string) (*nats.Msg, *headers) {
	h := &headers{of: make(nats.Header, mostHeaders), values: make([]string, 0, mostHeaders)}
	return &nats.Msg{Subject: subject, Header: h.of}, h
}

func (h *headers) set(key, value string) {
	n := len(h.values)
	h.values = append(h.values, value)
	h.of[key] = h.values[n : n+1 : n+1]
}

// trace carries the trace context, as Trace does.
func (h *headers) trace(ctx context.Context) {
	for k, v := range telemetry.Inject(ctx) {
		h.set(k, v)
		h.set("ce-"+k, v)
	}
}

// Trace carries the trace context twice: where NATS clients look for it, and as
// the CloudEvents extension.
func Trace(ctx context.Context, to nats.Header) {
	h := headers{of: to}
	h.trace(ctx)
}
