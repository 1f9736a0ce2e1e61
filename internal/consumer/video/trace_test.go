package video

import (
	"testing"

	"go.opentelemetry.io/otel/trace"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestTracingOffCostsPollsNothing proves that polls allocate nothing without a collector. It is not
// parallel, because AllocsPerRun counts the whole process.
func TestTracingOffCostsPollsNothing(t *testing.T) {
	const callerSpan, callerParent = "00f067aa0ba902b7", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	metrics := telemetry.NewMetrics("test").Route(subject.Video, "r")
	h := hold.New(t.Context(), t.Context(), hold.Options{})
	item := &genbusv1.WorkItem{Kind: "video", Trace: map[string]string{"traceparent": callerParent}}
	j := (&Runner{metrics: metrics}).newJob(h.NewJob(item, hold.Delivery{}, metrics), nil)
	poll := func() {
		j.polling.count(telemetry.PollUnchanged)
		j.polling.count(telemetry.PollFailed)
	}
	if n := testing.AllocsPerRun(100, poll); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	if sc := trace.SpanContextFromContext(j.held.Message.Context()); sc.SpanID().String() != callerSpan {
		t.Errorf("without a collector events name %s, not the caller's span", sc.SpanID())
	}
}
