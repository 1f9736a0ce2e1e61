package consumer

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/parts"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

const (
	callerTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	callerSpan   = "00f067aa0ba902b7"
	callerParent = "00-" + callerTrace + "-" + callerSpan + "-01"
)

// traced gives a replica a separate exporter.
func traced(t testing.TB) (spans *tracetest.InMemoryExporter, change func(*parts.Options)) {
	t.Helper()
	spans = tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	t.Cleanup(func() { _ = provider.Shutdown(context.WithoutCancel(t.Context())) })
	return spans, func(o *parts.Options) { o.Tracing = telemetry.Tracing{Provider: provider} }
}

// publishTraced puts a request with its caller's trace into the inbox.
func publishTraced(t testing.TB, b *broker.Broker, kind subject.Kind, requestID string, m proto.Message) string {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	msg := nats.NewMsg(b.Names().Request(kind, "acme"))
	msg.Header["Traceparent"] = []string{callerParent}
	msg.Data = data
	if _, err := b.Publish(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
	return subject.JobID(kind, "acme", "request\x00"+requestID)
}

// parents returns the spans that the messages on a subject name, and checks that they belong to the
// caller's trace.
func parents(t testing.TB, b *broker.Broker, stream, subj string) []string {
	t.Helper()
	var out []string
	for seq := uint64(1); ; {
		m, err := b.Next(t.Context(), stream, subj, seq)
		if errors.Is(err, broker.ErrNoMessage) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		sc := trace.SpanContextFromContext(telemetry.ExtractHeader(t.Context(), m.Header))
		if sc.TraceID().String() != callerTrace {
			t.Errorf("%s, %d: trace %s", subj, m.Seq, sc.TraceID())
		}
		if m.Header.Get(subject.HeaderCETraceParent) != m.Header.Get(subject.HeaderTraceParent) {
			t.Errorf("%s, %d: the two headers differ: %v", subj, m.Seq, m.Header)
		}
		out = append(out, sc.SpanID().String())
		seq = m.Seq + 1
	}
}

// named returns the only span with a name.
func named(t testing.TB, spans *tracetest.InMemoryExporter, name string) tracetest.SpanStub {
	t.Helper()
	var found []tracetest.SpanStub
	for _, s := range spans.GetSpans() {
		if s.SpanContext.TraceID().String() != callerTrace {
			t.Errorf("%s is of trace %s", s.Name, s.SpanContext.TraceID())
		}
		if s.Name == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans %s, want 1", len(found), name)
	}
	return found[0]
}

func attributeOf(s tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// happened returns the span's events: transitions by phase and polls by outcome.
func happened(s tracetest.SpanStub) map[string]bool {
	out := map[string]bool{}
	for _, e := range s.Events {
		for _, a := range e.Attributes {
			if a.Value.String() != "" {
				out[e.Name+" "+a.Value.String()] = true
			}
		}
	}
	return out
}

// endOf waits until the feed has a job's end and its holder has dropped it.
func endOf(t testing.TB, b *broker.Broker, r *replica, id string) string {
	t.Helper()
	end := last(follow(t, r.log, id))
	doneOnce(t, b, end)
	r.stop(true)
	return end.Job.GetError().GetCode()
}

// TestOneTraceAcrossTwoReplicas proves that the spans of both holders are below the span that
// admitted the request, and that every event names a span of that trace.
func TestOneTraceAcrossTwoReplicas(t *testing.T) {
	t.Parallel()
	for name, graceful := range map[string]bool{"handed over": true, "taken over": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, up := brokertest.Single(t), newSlowUpstream(t)
			cfg := testConfig(t, up.url)
			spansOfFirst, tracedFirst := traced(t)
			first := newReplica(t, b, cfg, tracedFirst)
			id := publishTraced(t, b, subject.Video, "one", videoRequest("one", "sandbox-video", "a cat"))
			follow(t, first.log, id, genbusv1.JobPhase_JOB_PHASE_SUBMITTED)
			shortly(t, "the first replica's spans have ended", func() bool { return len(spansOfFirst.GetSpans()) == 2 }) // the events do not wait for them
			exported := spansOfFirst.GetSpans().Snapshots()
			first.stop(graceful)
			close(up.done)
			if !graceful { // a killed process exports nothing more
				spansOfFirst.Reset()
				if err := spansOfFirst.ExportSpans(t.Context(), exported); err != nil {
					t.Fatal(err)
				}
			}
			spansOfSecond, tracedSecond := traced(t)
			second := newReplica(t, b, cfg, tracedSecond)
			if code := endOf(t, b, second, id); code != "" {
				t.Fatalf("ended with %s", code)
			}

			inbox := named(t, spansOfFirst, "genbus.inbox video")
			if inbox.Parent.SpanID().String() != callerSpan || !inbox.Parent.IsRemote() {
				t.Errorf("the inbox's span is below %s", inbox.Parent.SpanID())
			}
			// The first event is written by admission, or by a faster holder.
			events := parents(t, b, b.Names().Tasks(), b.Names().Task(subject.Video, "acme", id))
			create := named(t, spansOfFirst, "genbus.video.create")
			admitted := inbox.SpanContext.SpanID().String()
			if events[0] != admitted && events[0] != events[1] || create.Parent.SpanID().String() != events[1] {
				t.Errorf("events name %v; the inbox is %s, the create is below %s", events, admitted, create.Parent.SpanID())
			}
			checkFirstHold(t, spansOfFirst, graceful, inbox, create)
			hold := named(t, spansOfSecond, "genbus.video")
			if hold.Parent.SpanID() != inbox.SpanContext.SpanID() || attributeOf(hold, "genbus.outcome") != "ended" || attributeOf(hold, "genbus.job_id") != id {
				t.Errorf("the second holder's span is below %s, with %v", hold.Parent.SpanID(), hold.Attributes)
			}
			if did := happened(hold); !did["poll changed"] || !did["transition completed"] {
				t.Errorf("the second holder's span tells of %v", did)
			}
			for _, end := range []string{
				events[len(events)-1],
				parents(t, b, b.Names().Tasks(), b.Names().Done(subject.Video, "acme", "completed", id))[0],
				parents(t, b, b.Names().UsageStream(), b.Names().Usage(subject.Video, "acme", id))[0],
			} {
				if end != hold.SpanContext.SpanID().String() {
					t.Errorf("the end names span %s, not the second holder's %s", end, hold.SpanContext.SpanID())
				}
			}
		})
	}
}

// checkFirstHold checks that the span of a stopped holder ends as returned, and a dead one's is
// missing.
func checkFirstHold(t *testing.T, spans *tracetest.InMemoryExporter, graceful bool, inbox, create tracetest.SpanStub) {
	t.Helper()
	if !graceful {
		for _, s := range spans.GetSpans() {
			if s.Name == "genbus.video" {
				t.Errorf("a dead process exported %s", s.Name)
			}
		}
		return
	}
	hold := named(t, spans, "genbus.video")
	if hold.Parent.SpanID() != inbox.SpanContext.SpanID() || create.Parent.SpanID() != hold.SpanContext.SpanID() || attributeOf(hold, "genbus.outcome") != "given_back" {
		t.Errorf("the first holder's span is below %s with %v; the create is below %s", hold.Parent.SpanID(), hold.Attributes, create.Parent.SpanID())
	}
}

// TestPollsAreEventsOfOneSpan proves that polls add no spans, and unchanged polls no events.
func TestPollsAreEventsOfOneSpan(t *testing.T) {
	t.Parallel()
	b, up := brokertest.Single(t), newSandbox(t)
	spans, change := traced(t)
	r := newReplica(t, b, testConfig(t, up.URL()), change)
	id := publishTraced(t, b, subject.Video, "one", videoRequest("one", "sandbox-video:duration_ms=2500,poll_status=503,poll_fail_times=2", "a cat"))
	if code := endOf(t, b, r, id); code != "" {
		t.Fatalf("ended with %s", code)
	}
	if n := len(spans.GetSpans()); n != 3 {
		t.Errorf("%d spans, want 3: inbox, hold and create", n)
	}
	hold := named(t, spans, "genbus.video")
	if did := happened(hold); len(hold.Events) > 20 || !did["transition submitting"] || !did["transition completed"] {
		t.Errorf("%d events: %v", len(hold.Events), did)
	}
}

// TestAFailedJobsSpanIsAnError proves that a failed job's span has the code and not the message,
// which may quote the upstream.
func TestAFailedJobsSpanIsAnError(t *testing.T) {
	t.Parallel()
	b, up := brokertest.Single(t), newSandbox(t)
	spans, change := traced(t)
	r := newReplica(t, b, testConfig(t, up.URL()), change)
	id := publishTraced(t, b, subject.Video, "one", videoRequest("one", "sandbox-video:fail=boom", "a cat"))
	code := endOf(t, b, r, id)
	if hold := named(t, spans, "genbus.video"); code == "" || hold.Status.Description != code {
		t.Errorf("code %q, the span's %q", code, hold.Status.Description)
	}
}

func TestDeadLettersNameTheTrace(t *testing.T) {
	t.Parallel()
	b, up := brokertest.Single(t), newSandbox(t)
	spans, change := traced(t)
	r := newReplica(t, b, testConfig(t, up.URL()), change)
	id := publishTraced(t, b, subject.Video, "refused", videoRequest("refused", "no-such-model", "a cat"))
	if code := last(follow(t, r.log, id)).Job.GetError().GetCode(); code == "" {
		t.Fatal("the request was accepted")
	}
	r.stop(true)
	inbox := named(t, spans, "genbus.inbox video")
	letters := parents(t, b, b.Names().Rejected(), b.Names().RejectedDeadLetters(subject.Video, "acme"))
	if len(letters) != 1 || letters[0] != inbox.SpanContext.SpanID().String() || inbox.Status.Description == "" {
		t.Errorf("dead letters name %v; the inbox is %s, %v", letters, inbox.SpanContext.SpanID(), inbox.Status)
	}
}
