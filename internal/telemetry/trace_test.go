package telemetry_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"

	"github.com/genbus/genbus/internal/telemetry"
)

// fakeCollector is an OTLP collector on loopback that hands on what it gets.
type fakeCollector struct {
	collector.UnimplementedTraceServiceServer
	got chan *collector.ExportTraceServiceRequest
}

func (c *fakeCollector) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.got <- r
	return &collector.ExportTraceServiceResponse{}, nil
}

func startCollector(t *testing.T) (address string, got <-chan *collector.ExportTraceServiceRequest) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &fakeCollector{got: make(chan *collector.ExportTraceServiceRequest, 8)}
	srv := grpc.NewServer()
	collector.RegisterTraceServiceServer(srv, c)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-served; err != nil {
			t.Errorf("collector: %v", err)
		}
	})
	return lis.Addr().String(), c.got
}

func env(pairs map[string]string) func(string) string {
	return func(name string) string { return pairs[name] }
}

func TestTracingExportsWhenThereIsACollector(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, exported := startCollector(t)
			tracing, err := telemetry.NewTracing(t.Context(), slog.New(slog.DiscardHandler), "v1.2.3",
				env(map[string]string{name: "http://" + address}))
			if err != nil {
				t.Fatal(err)
			}
			if want := "http://" + address; tracing.Endpoint != want {
				t.Errorf("endpoint %q, want %q", tracing.Endpoint, want)
			}
			_, span := tracing.Provider.Tracer("test").Start(inTrace(t, t.Context()), "video.submit")
			span.End()
			if err := tracing.Shutdown(t.Context()); err != nil {
				t.Fatalf("shutdown: %v", err)
			}
			if err := tracing.Shutdown(t.Context()); err != nil {
				t.Errorf("second shutdown: %v", err)
			}
			rs := (<-exported).GetResourceSpans()[0]
			got := rs.GetScopeSpans()[0].GetSpans()[0]
			if got.GetName() != "video.submit" || trace.TraceID(got.GetTraceId()).String() != traceID {
				t.Errorf("span %q of trace %x", got.GetName(), got.GetTraceId())
			}
			want := map[string]string{"service.name": "genbus", "service.version": "v1.2.3"}
			if diff := cmp.Diff(want, serviceAttributes(rs.GetResource().GetAttributes())); diff != "" {
				t.Errorf("resource (-want +got):\n%s", diff)
			}
		})
	}
}

func serviceAttributes(all []*common.KeyValue) map[string]string {
	m := map[string]string{}
	for _, kv := range all {
		if strings.HasPrefix(kv.GetKey(), "service.") {
			m[kv.GetKey()] = kv.GetValue().GetStringValue()
		}
	}
	return m
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

// A collector that nobody runs costs one warning and no error.
func TestTracingWithoutTheCollectorWarnsOnce(t *testing.T) {
	t.Parallel()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := lis.Close(); err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	tracing, err := telemetry.NewTracing(t.Context(), newLogger(t, &logged, "", "json"), "v1",
		env(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + lis.Addr().String()}))
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
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := tracing.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if got := strings.Count(logged.String(), "spans are lost"); got != 1 {
		t.Errorf("%d warnings, want 1:\n%s", got, &logged)
	}
}
