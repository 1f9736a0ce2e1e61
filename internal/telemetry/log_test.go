package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"github.com/genbus/genbus/internal/telemetry"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID  = "00f067aa0ba902b7"
)

// inTrace returns ctx with the remote span of traceID and spanID.
func inTrace(t *testing.T, ctx context.Context) context.Context {
	t.Helper()
	tid, err := trace.TraceIDFromHex(traceID)
	if err != nil {
		t.Fatal(err)
	}
	sid, err := trace.SpanIDFromHex(spanID)
	if err != nil {
		t.Fatal(err)
	}
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: tid, SpanID: sid, TraceFlags: trace.FlagsSampled, Remote: true,
	}))
}

func newLogger(t *testing.T, w *bytes.Buffer, level, format string) *slog.Logger {
	t.Helper()
	log, err := telemetry.NewLogger(w, level, format)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// record decodes the single JSON record in w, without its time.
func record(t *testing.T, w *bytes.Buffer) map[string]any {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal(w.Bytes(), &got); err != nil {
		t.Fatalf("log is not one JSON object: %v\n%s", err, w)
	}
	if got["time"] == nil {
		t.Errorf("record has no time: %s", w)
	}
	delete(got, "time")
	w.Reset()
	return got
}

func TestLogLevels(t *testing.T) {
	t.Parallel()
	all := []string{"DEBUG", "INFO", "WARN", "ERROR"}
	for level, want := range map[string][]string{
		"debug": all, "": all[1:], "info": all[1:], "INFO": all[1:], "warn": all[2:], "error": all[3:],
	} {
		var w bytes.Buffer
		log := newLogger(t, &w, level, "json")
		log.Debug("m")
		log.Info("m")
		log.Warn("m")
		log.Error("m")
		var got []string
		for line := range strings.Lines(w.String()) {
			buf := bytes.NewBufferString(line)
			got = append(got, record(t, buf)["level"].(string))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("level %q (-want +got):\n%s", level, diff)
		}
	}
}

func TestLogFormats(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		format string
		json   bool
	}{
		{"json", true}, {"JSON", true}, {"text", false}, {"auto", true}, {"", true},
	} {
		var w bytes.Buffer
		newLogger(t, &w, "", tt.format).Info("hello", telemetry.KeyJobID, "video_1")
		if got := json.Valid(w.Bytes()); got != tt.json {
			t.Errorf("format %q: JSON %v, want %v: %s", tt.format, got, tt.json, &w)
		}
		if !strings.Contains(w.String(), "video_1") {
			t.Errorf("format %q: no job id: %s", tt.format, &w)
		}
	}
}

// TestLogFormatAutoLooksAtTheFile checks that IsTerminal tells character devices from files. It
// uses the null device, because pseudo-terminals are not available everywhere.
func TestLogFormatAutoLooksAtTheFile(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = null.Close() })
	if !telemetry.IsTerminal(null) {
		t.Error("a character device is not taken for a terminal")
	}
	if telemetry.IsTerminal(file) {
		t.Error("a file is taken for a terminal")
	}
	if telemetry.IsTerminal(&bytes.Buffer{}) {
		t.Error("a buffer is taken for a terminal")
	}
}

func TestLogRefusesUnknownWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ level, format, want string }{
		{"loud", "", `log level "loud": must be debug, info, warn or error`},
		{"info+1", "", `log level "info+1": must be debug, info, warn or error`},
		{"", "xml", `log format "xml": must be auto, text or json`},
	} {
		_, err := telemetry.NewLogger(&bytes.Buffer{}, tt.level, tt.format)
		if err == nil || err.Error() != tt.want {
			t.Errorf("level %q, format %q: error %v, want %s", tt.level, tt.format, err, tt.want)
		}
	}
}

func TestLogCarriesTheTrace(t *testing.T) {
	t.Parallel()
	var w bytes.Buffer
	base := newLogger(t, &w, "", "json")
	ctx := inTrace(t, t.Context())
	ids := map[string]any{"trace_id": traceID, "span_id": spanID}
	for _, tt := range []struct {
		name string
		log  *slog.Logger
		ctx  context.Context
		want map[string]any
	}{
		{"no span", base, t.Context(), map[string]any{"n": 1.0}},
		{"span", base, ctx, with(ids, "n", 1.0)},
		{"attributes", base.With("a", "b"), ctx, with(with(ids, "n", 1.0), "a", "b")},
		{
			"the ids stay outside of groups",
			base.With("a", "b").WithGroup("g").With("c", "d").WithGroup("h"), ctx,
			with(with(ids, "a", "b"), "g", map[string]any{"c": "d", "h": map[string]any{"n": 1.0}}),
		},
		{
			"group without a span",
			base.WithGroup("g").With("c", "d"), t.Context(),
			map[string]any{"g": map[string]any{"c": "d", "n": 1.0}},
		},
		{"a group without a name is none", base.WithGroup(""), ctx, with(ids, "n", 1.0)},
	} {
		tt.log.InfoContext(tt.ctx, "m", "n", 1)
		want := with(with(tt.want, "msg", "m"), "level", "INFO")
		if diff := cmp.Diff(want, record(t, &w)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// waits is a value that resolves to a duration when logged.
type waits struct{ d time.Duration }

func (w waits) LogValue() slog.Value { return slog.GroupValue(slog.Duration("d", w.d)) }

// TestLogDurations checks that durations are written as 5m0s in both formats and at every depth.
func TestLogDurations(t *testing.T) {
	t.Parallel()
	const d = 5 * time.Minute
	say := func(log *slog.Logger) {
		log.With("a", d).WithGroup("g").With("b", d).InfoContext(inTrace(t, t.Context()), "m",
			"c", d, slog.Group("h", "d", d, slog.Group("i", "d", d)), "v", waits{d}, "any", slog.AnyValue(d))
	}
	var w bytes.Buffer
	say(newLogger(t, &w, "", "json"))
	const read = "5m0s"
	want := map[string]any{
		"level": "INFO", "msg": "m", "trace_id": traceID, "span_id": spanID, "a": read,
		"g": map[string]any{
			"b": read, "c": read, "h": map[string]any{"d": read, "i": map[string]any{"d": read}}, "v": map[string]any{"d": read}, "any": read,
		},
	}
	if diff := cmp.Diff(want, record(t, &w)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	say(newLogger(t, &w, "", "text"))
	if got := w.String(); strings.Count(got, "="+read) != 7 {
		t.Errorf("text: %s", got)
	}
}

// TestLogSiblingsInAGroup checks that two loggers derived from one group do not overwrite each
// other's attributes.
func TestLogSiblingsInAGroup(t *testing.T) {
	t.Parallel()
	var w bytes.Buffer
	parent := newLogger(t, &w, "", "json").WithGroup("g").With("a", 1).With("b", 2)
	left, right := parent.With("side", "left"), parent.With("side", "right")
	for side, log := range map[string]*slog.Logger{"left": left, "right": right} {
		log.InfoContext(inTrace(t, t.Context()), "m")
		got := record(t, &w)["g"].(map[string]any)["side"]
		if got != side {
			t.Errorf("side %v, want %s", got, side)
		}
	}
}

// with returns a copy of m with another entry.
func with(m map[string]any, key string, value any) map[string]any {
	out := map[string]any{key: value}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// TestSetLevel checks that SetLevel affects existing derived loggers.
func TestSetLevel(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := telemetry.NewLogger(&out, "info", "text")
	if err != nil {
		t.Fatal(err)
	}
	made := log.With("a", 1).WithGroup("g")
	for _, level := range []string{"debug", "info"} {
		if err := telemetry.SetLevel(log, level); err != nil {
			t.Fatal(err)
		}
		made.Debug("a record", "set_to", level)
	}
	if text := out.String(); !strings.Contains(text, "set_to=debug") || strings.Contains(text, "set_to=info") {
		t.Errorf("written:\n%s", text)
	}
	if err := telemetry.SetLevel(log, "loud"); err == nil {
		t.Error("an unknown level was taken")
	}
}
