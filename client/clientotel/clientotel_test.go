package clientotel_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/genbus/genbus/client/clientotel"
)

func TestPropagate(t *testing.T) {
	otel.SetTextMapPropagator(propagation.TraceContext{})
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{15: 1}, SpanID: trace.SpanID{7: 2}, TraceFlags: trace.FlagsSampled,
	}))
	h := nats.Header{}
	clientotel.Propagate(ctx, h)
	want := nats.Header{"traceparent": {"00-00000000000000000000000000000001-0000000000000002-01"}}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Error(diff)
	}
}
