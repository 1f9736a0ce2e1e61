// Package collectortest runs an OpenTelemetry collector in a test. The collector receives spans by
// OTLP over gRPC and keeps them.
package collectortest

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// Span is an exported span. IDs are hexadecimal. Parent is empty for the first span of a trace.
type Span struct {
	TraceID, ID, Parent string
	Name                string
	Kind                string // SERVER, CLIENT, CONSUMER, PRODUCER or INTERNAL
	Error               string // status message; empty without an error
	Attributes          map[string]string
	Events              []Event
	Start, End          time.Time
}

// Event is an event of a span.
type Event struct {
	Name       string
	Attributes map[string]string
}

// Collector is a collector on loopback. It is safe for concurrent use.
type Collector struct {
	collector.UnimplementedTraceServiceServer
	address string

	mu       sync.Mutex
	spans    []Span
	resource map[string]string
	arrived  chan struct{} // closed and replaced on each export
}

// Start starts a collector that stops at the end of the test.
func Start(t testing.TB) *Collector {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{address: l.Addr().String(), arrived: make(chan struct{})}
	srv := grpc.NewServer()
	collector.RegisterTraceServiceServer(srv, c)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-served; err != nil {
			t.Errorf("collector: %v", err)
		}
	})
	return c
}

// URL returns the value for OTEL_EXPORTER_OTLP_ENDPOINT.
func (c *Collector) URL() string { return "http://" + c.address }

// Resource returns the resource attributes of the last export, or nil before the first export.
func (c *Collector) Resource() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resource
}

// Trace returns the spans received for a trace, ordered by start time.
func (c *Collector) Trace(id string) []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trace(id)
}

func (c *Collector) trace(id string) []Span {
	var out []Span
	for _, s := range c.spans {
		if s.TraceID == id {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b Span) int { return a.Start.Compare(b.Start) })
	return out
}

// Await waits until enough accepts the spans of a trace, and returns them. The test fails if ctx
// ends first.
func (c *Collector) Await(ctx context.Context, t testing.TB, id string, enough func([]Span) bool) []Span {
	t.Helper()
	for {
		c.mu.Lock()
		spans, arrived := c.trace(id), c.arrived
		c.mu.Unlock()
		if enough(spans) {
			return spans
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			t.Fatalf("trace %s is not complete: %v\n%s", id, context.Cause(ctx), Format(spans))
		}
	}
}

// Format returns one line per span, with its parent, followed by its events.
func Format(spans []Span) string {
	out := ""
	for _, s := range spans {
		out += fmt.Sprintf("%s %s, parent %q, %s %s %v\n", s.ID, s.Name, s.Parent, s.Kind, s.Error, s.Attributes)
		for _, e := range s.Events {
			out += fmt.Sprintf("    %s %v\n", e.Name, e.Attributes)
		}
	}
	return out
}

// Named returns the spans with this name.
func Named(spans []Span, name string) []Span {
	return slices.DeleteFunc(slices.Clone(spans), func(s Span) bool { return s.Name != name })
}

// Export receives spans from an exporter.
func (c *Collector) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range r.GetResourceSpans() {
		c.resource = attributes(resource.GetResource().GetAttributes())
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, span(s))
			}
		}
	}
	close(c.arrived)
	c.arrived = make(chan struct{})
	return &collector.ExportTraceServiceResponse{}, nil
}

func span(s *traces.Span) Span {
	out := Span{
		TraceID: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
		Name: s.GetName(), Kind: s.GetKind().String()[len("SPAN_KIND_"):], Attributes: attributes(s.GetAttributes()),
		Start: at(s.GetStartTimeUnixNano()), End: at(s.GetEndTimeUnixNano()),
	}
	if s.GetStatus().GetCode() == traces.Status_STATUS_CODE_ERROR {
		out.Error = s.GetStatus().GetMessage()
	}
	for _, e := range s.GetEvents() {
		out.Events = append(out.Events, Event{Name: e.GetName(), Attributes: attributes(e.GetAttributes())})
	}
	return out
}

func at(nanoseconds uint64) time.Time { return time.Unix(0, int64(nanoseconds)) }

func attributes(all []*common.KeyValue) map[string]string {
	out := make(map[string]string, len(all))
	for _, kv := range all {
		switch v := kv.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			out[kv.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			out[kv.GetKey()] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_BoolValue:
			out[kv.GetKey()] = fmt.Sprint(v.BoolValue)
		}
	}
	return out
}
