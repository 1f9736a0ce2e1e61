package telemetry_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

const traceParent = "00-" + traceID + "-" + spanID + "-01"

func TestHeaderCarrierRoundTrip(t *testing.T) {
	t.Parallel()
	ctx := inTrace(t, t.Context())
	header := nats.Header{}
	propagation.TraceContext{}.Inject(ctx, telemetry.HeaderCarrier(header))
	want := nats.Header{subject.HeaderTraceParent: {traceParent}}
	if diff := cmp.Diff(want, header); diff != "" {
		t.Fatalf("headers (-want +got):\n%s", diff)
	}
	got := propagation.TraceContext{}.Extract(t.Context(), telemetry.HeaderCarrier(header))
	if !trace.SpanContextFromContext(got).Equal(trace.SpanContextFromContext(ctx)) {
		t.Errorf("span %v, want %v", trace.SpanContextFromContext(got), trace.SpanContextFromContext(ctx))
	}
}

func TestHeaderCarrierReadsAnyCase(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		header nats.Header
		want   string
	}{
		{"lower", nats.Header{"traceparent": {"a"}}, "a"},
		{"as net/http writes it", nats.Header{"Traceparent": {"a"}}, "a"},
		{"lower wins", nats.Header{"Traceparent": {"b"}, "traceparent": {"a"}}, "a"},
		{"the first of two", nats.Header{"traceparent": {"a", "b"}}, "a"},
		{"no value", nats.Header{"traceparent": {}}, ""},
		{"absent", nats.Header{"tracestate": {"a"}}, ""},
		{"nil", nil, ""},
	} {
		if got := telemetry.HeaderCarrier(tt.header).Get("traceparent"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestHeaderCarrierReplaces(t *testing.T) {
	t.Parallel()
	header := nats.Header{"Traceparent": {"old"}, "other": {"kept"}}
	telemetry.HeaderCarrier(header).Set("TraceParent", "new")
	want := nats.Header{"traceparent": {"new"}, "other": {"kept"}}
	if diff := cmp.Diff(want, header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	keys := slices.Sorted(slices.Values(telemetry.HeaderCarrier(header).Keys()))
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestInjectExtract(t *testing.T) {
	t.Parallel()
	ctx := inTrace(t, t.Context())
	stored := telemetry.Inject(ctx)
	if diff := cmp.Diff(map[string]string{"traceparent": traceParent}, stored); diff != "" {
		t.Fatalf("stored (-want +got):\n%s", diff)
	}
	got := trace.SpanContextFromContext(telemetry.Extract(t.Context(), stored))
	if !got.Equal(trace.SpanContextFromContext(ctx)) {
		t.Errorf("span %v, want %v", got, trace.SpanContextFromContext(ctx))
	}
	if m := telemetry.Inject(t.Context()); m != nil {
		t.Errorf("without a span: %v, want nil", m)
	}
}

func TestExtractIgnoresWhatItCannotRead(t *testing.T) {
	t.Parallel()
	for _, stored := range []map[string]string{
		nil, {}, {"traceparent": ""}, {"traceparent": "00-zz-zz-01"}, {"tracestate": "a=b"},
	} {
		if got := telemetry.Extract(t.Context(), stored); trace.SpanContextFromContext(got).IsValid() {
			t.Errorf("%v: a span from nowhere", stored)
		}
	}
}

func TestInjectLeavesOutALongState(t *testing.T) {
	t.Parallel()
	for length, kept := range map[int]bool{200: true, 256: false} {
		state := "a=" + strings.Repeat("x", length) + ",b=" + strings.Repeat("y", length)
		stored := telemetry.Inject(telemetry.Extract(t.Context(), map[string]string{"traceparent": traceParent, "tracestate": state}))
		if stored["traceparent"] != traceParent || (stored["tracestate"] != "") != kept {
			t.Errorf("2 values of %d bytes: stored %v", length, stored)
		}
	}
}

func TestWithin(t *testing.T) {
	t.Parallel()
	const other = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	sameTrace := "00-" + traceID + "-b7ad6b7169203331-01"
	for _, tt := range []struct {
		name, parent string
		traced       bool   // whether the context has a span
		want         string // traceparent afterwards; "" for no span
	}{
		{"its own trace", sameTrace, true, traceParent},
		{"somebody else's span", other, true, other},
		{"no span", other, false, other},
		{"nothing stored", "", true, traceParent},
		{"unreadable", "00-zz-zz-01", true, traceParent},
		{"neither", "", false, ""},
		{"unreadable, and no span", "x", false, ""},
	} {
		ctx := t.Context()
		if tt.traced {
			ctx = inTrace(t, ctx)
		}
		if got := telemetry.Inject(telemetry.Within(ctx, tt.parent, ""))["traceparent"]; got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	ctx := telemetry.Within(t.Context(), other, "a=b")
	if got := telemetry.Inject(ctx)["tracestate"]; got != "a=b" {
		t.Errorf("tracestate %q, want a=b", got)
	}
}

// FuzzExtract checks that no stored text breaks Extract, and that Inject writes what Extract read.
func FuzzExtract(f *testing.F) {
	f.Add(traceParent, "a=b,c=d")
	f.Add("00-00000000000000000000000000000000-0000000000000000-00", "")
	f.Add("", "=,=")
	f.Fuzz(func(t *testing.T, parent, state string) {
		header := nats.Header{"Traceparent": {parent}, "TraceState": {state}}
		ctx := propagation.TraceContext{}.Extract(t.Context(), telemetry.HeaderCarrier(header))
		stored := telemetry.Inject(ctx)
		want := trace.SpanContextFromContext(ctx)
		if len(want.TraceState().String()) > 512 {
			want = want.WithTraceState(trace.TraceState{})
		}
		again := trace.SpanContextFromContext(telemetry.Extract(t.Context(), stored))
		if !again.Equal(want) {
			t.Errorf("%v became %v", want, again)
		}
	})
}
