// Package clientotel sends the trace of a request with it, so that the spans of genbus belong to the
// caller's trace.
package clientotel

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel"
)

// Propagate writes the trace context and baggage of ctx into the headers of a request, by OpenTelemetry's
// global propagator (otel.SetTextMapPropagator). Use it as client.Options.Header.
func Propagate(ctx context.Context, h nats.Header) {
	otel.GetTextMapPropagator().Inject(ctx, carrier(h))
}

// carrier writes lower-case header names. NATS header names are case-sensitive, and genbus reads
// lower-case ones. propagation.HeaderCarrier would capitalize them.
type carrier nats.Header

func (c carrier) Get(key string) string { return nats.Header(c).Get(strings.ToLower(key)) }
func (c carrier) Set(key, value string) { c[strings.ToLower(key)] = []string{value} }

func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	return keys
}
