package intake

import (
	"context"
	"errors"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestAWaitingRequestHasNoSpanForEachLook proves that retries of a request that has to wait create
// no spans.
func TestAWaitingRequestHasNoSpanForEachLook(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	t.Cleanup(func() { _ = provider.Shutdown(context.WithoutCancel(t.Context())) })
	in := New(subject.Video, Options{Tracing: telemetry.Tracing{Provider: provider}})
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, 1}, {errcode.New(errcode.QueueFull, "full"), 0}, {errors.New("no answer"), 0},
		{errcode.New(errcode.AcceptanceUnknown, "who knows"), 1}, {errcode.New(errcode.ModelNotFound, "no such model"), 1},
	} {
		spans.Reset()
		_, span := in.startSpan(t.Context(), 7)
		endSpan(span, tt.err)
		if got := len(spans.GetSpans()); got != tt.want {
			t.Errorf("%v: %d spans, want %d", tt.err, got, tt.want)
		}
	}
}
