package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Environment variables that enable or disable tracing. The traces endpoint takes precedence.
const (
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envDisabled       = "OTEL_SDK_DISABLED"
)

// Tracing is passed to instrumented code. It does not set OpenTelemetry's process-wide provider and
// propagator.
type Tracing struct {
	// Provider creates tracers. Without a collector, spans record nothing and pass on the remote
	// span of their context.
	Provider trace.TracerProvider
	// Propagator reads and writes W3C traceparent and tracestate.
	Propagator propagation.TextMapPropagator
	// Shutdown sends buffered spans and stops the exporter before ctx ends. It is never nil and may
	// be called twice.
	Shutdown func(ctx context.Context) error
	// Endpoint is the collector's URL for the startup log. It is empty if spans are not exported.
	Endpoint string
}

// NewTracing exports spans by OTLP over gRPC to the URL in OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or
// OTEL_EXPORTER_OTLP_ENDPOINT (http:// without TLS, https:// with TLS). If neither is set or
// OTEL_SDK_DISABLED is true, no span is recorded, but trace contexts are still passed on.
//
// An unreachable collector never causes an error. Instead, log gets one warning when exports start
// to fail and one record when they work again. Other OTEL_ variables set samplers, headers,
// certificates, timeouts and resource attributes, as the OpenTelemetry SDK documents.
//
// NewTracing returns an error if the endpoint is not an http or https URL.
func NewTracing(ctx context.Context, log *slog.Logger, serviceVersion string, getenv func(string) string) (Tracing, error) {
	endpoint, err := tracesEndpoint(getenv)
	if err != nil {
		return Tracing{}, err
	}
	if endpoint == "" {
		return Tracing{
			Provider:   noop.NewTracerProvider(),
			Propagator: w3c{},
			Shutdown:   func(context.Context) error { return nil },
		}, nil
	}
	provider, err := newProvider(ctx, log, serviceVersion, endpoint)
	if err != nil {
		return Tracing{}, fmt.Errorf("traces to %s: %w", endpoint, err)
	}
	return Tracing{Provider: provider, Propagator: w3c{}, Shutdown: provider.Shutdown, Endpoint: endpoint}, nil
}

// tracesEndpoint returns the collector's URL, or "" if tracing is off.
func tracesEndpoint(getenv func(string) string) (string, error) {
	if strings.EqualFold(getenv(envDisabled), "true") {
		return "", nil
	}
	for _, name := range []string{envTracesEndpoint, envEndpoint} {
		value := strings.TrimSpace(getenv(name))
		if value == "" {
			continue
		}
		return value, checkEndpoint(name, value)
	}
	return "", nil
}

// checkEndpoint validates the URL. Without this check, the exporter would silently fall back to its
// default endpoint for a URL that it cannot parse.
func checkEndpoint(name, value string) error {
	u, err := url.Parse(value)
	if err != nil {
		// The parser's error repeats the value, which may contain a password.
		return fmt.Errorf("%s is not a URL: must be like http://localhost:4317", name)
	}
	if u.User != nil {
		return fmt.Errorf("%s has a user in the URL: use OTEL_EXPORTER_OTLP_HEADERS", name)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("%s is %q: must be like http://localhost:4317 or https://collector:4317", name, value)
	}
	return nil
}

func newProvider(ctx context.Context, log *slog.Logger, version, endpoint string) (*sdktrace.TracerProvider, error) {
	// Read the environment last, so that OTEL_SERVICE_NAME takes precedence.
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(
			attribute.String("service.name", "genbus"),
			attribute.String("service.version", version),
		),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("resource attributes: %w", err)
	}
	// New does not wait for a connection.
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint))
	if err != nil {
		return nil, fmt.Errorf("exporter: %w", err)
	}
	return sdktrace.NewTracerProvider(
		sdktrace.WithResource(res),
		sdktrace.WithBatcher(&loggedExporter{SpanExporter: exporter, log: log, endpoint: endpoint}),
	), nil
}

// loggedExporter reports failed exports to log. Otherwise the SDK would pass them to a process-wide
// handler that writes to stderr.
type loggedExporter struct {
	sdktrace.SpanExporter
	log      *slog.Logger
	endpoint string
	// failing needs no lock: ExportSpans is never called concurrently.
	failing bool
}

// ExportSpans sends spans. Spans are lost if that fails. It does not return the error but logs the
// first failure after a success.
func (e *loggedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if errors.Is(err, context.Canceled) {
		return nil // the process is ending
	}
	if err != nil && !e.failing {
		e.log.WarnContext(ctx, "lost spans, trace collector unavailable",
			KeyAddress, e.endpoint, KeyCount, len(spans), KeyError, err)
	}
	if err == nil && e.failing {
		e.log.InfoContext(ctx, "resumed sending spans to the trace collector", KeyAddress, e.endpoint)
	}
	e.failing = err != nil
	return nil
}
