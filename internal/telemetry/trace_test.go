package telemetry_test

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/telemetry/collectortest"
	"github.com/genbus/genbus/test/freeport"
)

func env(pairs map[string]string) func(string) string {
	return func(name string) string { return pairs[name] }
}

func TestTracingExportsWhenThereIsACollector(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			collector := collectortest.Start(t)
			tracing, err := telemetry.NewTracing(t.Context(), slog.New(slog.DiscardHandler), "v1.2.3",
				env(map[string]string{name: collector.URL()}))
			if err != nil {
				t.Fatal(err)
			}
			if tracing.Endpoint != collector.URL() {
				t.Errorf("endpoint %q, want %q", tracing.Endpoint, collector.URL())
			}
			_, span := tracing.Provider.Tracer("test").Start(inTrace(t, t.Context()), "video.submit")
			span.End()
			if err := tracing.Shutdown(t.Context()); err != nil {
				t.Fatalf("shutdown: %v", err)
			}
			if err := tracing.Shutdown(t.Context()); err != nil {
				t.Errorf("second shutdown: %v", err)
			}
			spans := collector.Trace(traceID)
			if len(spans) != 1 || spans[0].Name != "video.submit" || spans[0].Parent != spanID {
				t.Errorf("spans:\n%s", collectortest.Format(spans))
			}
			got := maps.Clone(collector.Resource())
			maps.DeleteFunc(got, func(key, _ string) bool { return !strings.HasPrefix(key, "service.") })
			want := map[string]string{"service.name": "genbus", "service.version": "v1.2.3"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("resource (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTracingOffStillPassesTheTraceOn(t *testing.T) {
	t.Parallel()
	for _, vars := range []map[string]string{
		{},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "  "},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "TRUE"},
	} {
		tracing, err := telemetry.NewTracing(t.Context(), slog.New(slog.DiscardHandler), "v1", env(vars))
		if err != nil {
			t.Fatal(err)
		}
		if tracing.Endpoint != "" {
			t.Errorf("%v: endpoint %q", vars, tracing.Endpoint)
		}
		in := telemetry.Extract(t.Context(), map[string]string{"traceparent": traceParent})
		ctx, span := tracing.Provider.Tracer("test").Start(in, "video.submit")
		if span.IsRecording() {
			t.Errorf("%v: the span records", vars)
		}
		span.End()
		out := map[string]string{}
		tracing.Propagator.Inject(ctx, propagation.MapCarrier(out))
		if diff := cmp.Diff(map[string]string{"traceparent": traceParent}, out); diff != "" {
			t.Errorf("%v: passed on (-want +got):\n%s", vars, diff)
		}
		if err := tracing.Shutdown(t.Context()); err != nil {
			t.Errorf("%v: shutdown: %v", vars, err)
		}
	}
}

func TestTracingRefusesABadEndpoint(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ value, want string }{
		{"localhost:4317", `OTEL_EXPORTER_OTLP_ENDPOINT is "localhost:4317": must be like http://localhost:4317 or https://collector:4317`},
		{"http://", `OTEL_EXPORTER_OTLP_ENDPOINT is "http://": must be like http://localhost:4317 or https://collector:4317`},
		{"http://a b", "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL: must be like http://localhost:4317"},
		{"http://u:secret@host:4317", "OTEL_EXPORTER_OTLP_ENDPOINT has a user in the URL: use OTEL_EXPORTER_OTLP_HEADERS"},
		{"http://u:secret@ho st", "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL: must be like http://localhost:4317"},
	} {
		_, err := telemetry.NewTracing(t.Context(), slog.New(slog.DiscardHandler), "v1",
			env(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": tt.value}))
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: error %v, want %s", tt.value, err, tt.want)
		}
	}
}

// TestTracingWithoutTheCollectorWarnsOnce checks that an unreachable collector costs one warning
// and no error.
func TestTracingWithoutTheCollectorWarnsOnce(t *testing.T) {
	t.Parallel()
	addrs, err := freeport.Addrs(1)
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	tracing, err := telemetry.NewTracing(t.Context(), newLogger(t, &logged, "", "json"), "v1",
		env(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + addrs[0]}))
	if err != nil {
		t.Fatal(err)
	}
	provider := tracing.Provider.(*sdktrace.TracerProvider)
	for range 2 {
		_, span := provider.Tracer("test").Start(t.Context(), "lost")
		span.End()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_ = provider.ForceFlush(ctx)
		cancel()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := tracing.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if got := strings.Count(logged.String(), "lost spans"); got != 1 {
		t.Errorf("%d warnings, want 1:\n%s", got, &logged)
	}
}
