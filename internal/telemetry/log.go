package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/genbus/genbus/internal/subject"
)

// Keys of log attributes. One thing has one name in every record, so that a job
// can be followed with one search. There is no key for a request body or an
// upstream key: these are never logged.
const (
	KeyJobID        = "job_id"
	KeyRequestID    = "request_id" // the X-Request-Id of one HTTP or gRPC call
	KeyTenant       = "tenant"
	KeyKind         = "kind"
	KeyRoute        = "route"
	KeyUpstream     = "upstream"
	KeyUpstreamID   = "upstream_task_id"
	KeyOp           = "op"
	KeyCode         = "code"          // of docs/errors.md
	KeyUpstreamCode = "upstream_code" // the upstream's own
	KeyHTTPStatus   = "http_status"
	KeySubject      = "subject"
	KeySequence     = "sequence"
	KeyCount        = "count"
	KeyDuration     = "duration"
	KeyAddress      = "address"
	KeyError        = "error"
	KeyTraceID      = "trace_id" // added from the context
	KeySpanID       = "span_id"  // added from the context
)

// The formats of a log.
const (
	// FormatAuto is text on a terminal and JSON elsewhere. It is the default.
	FormatAuto = "auto"
	// FormatText is one key=value line for each record.
	FormatText = "text"
	// FormatJSON is one JSON object in a line for each record.
	FormatJSON = "json"
)

// JobAttrs are what a log record says of a job, and more.
func JobAttrs(name subject.JobName, route string, more ...any) []any {
	return append([]any{slog.String(KeyJobID, name.ID), slog.String(KeyTenant, name.Tenant), slog.String(KeyRoute, route)}, more...)
}

// NewLogger builds the logger of a process, which writes to w. The level is
// debug, info (also when empty), warn or error; the format is one of the Format
// constants, auto when empty. Anything else is an error that names the value
// and the legal ones.
//
// A record that is logged with a context (InfoContext and so on) carries the
// trace_id and span_id of that context at its top level, when there are any.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	floor, err := parseLevel(level)
	if err != nil {
		return nil, err
	}
	floorNow := new(slog.LevelVar)
	floorNow.Set(floor)
	h, err := newHandler(w, floorNow, format)
	if err != nil {
		return nil, err
	}
	return slog.New(&traceHandler{inner: h, root: h, floor: floorNow}), nil
}

// SetLevel changes the level of a logger that NewLogger built, and of all that were made
// of it. Other loggers keep theirs.
func SetLevel(log *slog.Logger, level string) error {
	floor, err := parseLevel(level)
	if h, ok := log.Handler().(*traceHandler); ok && err == nil {
		h.floor.Set(floor)
	}
	return err
}

func parseLevel(level string) (slog.Level, error) {
	switch strings.ToLower(level) {
	case "debug":
		return slog.LevelDebug, nil
	case "info", "":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	default:
		return 0, fmt.Errorf("log level %q: must be debug, info, warn or error", level)
	}
}

func newHandler(w io.Writer, level slog.Leveler, format string) (slog.Handler, error) {
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	switch strings.ToLower(format) {
	case FormatText:
		return slog.NewTextHandler(w, opts), nil
	case FormatJSON:
		return slog.NewJSONHandler(w, opts), nil
	case FormatAuto, "":
		if IsTerminal(w) {
			return slog.NewTextHandler(w, opts), nil
		}
		return slog.NewJSONHandler(w, opts), nil
	default:
		return nil, fmt.Errorf("log format %q: must be auto, text or json", format)
	}
}

// readable writes a duration as 5m0s in both formats: slog's JSON has a number of
// nanoseconds, which no reader takes for five minutes. It is called for attributes in
// groups too, but not for the fields of a struct: log those one by one.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// IsJSON reports whether a logger of this format writes JSON to w.
func IsJSON(w io.Writer, format string) bool {
	h, err := newHandler(w, slog.LevelError, format)
	_, is := h.(*slog.JSONHandler)
	return err == nil && is
}

// IsTerminal takes every character device for a terminal. That includes
// /dev/null, where the format does not matter.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// traceHandler adds the ids of the context's span to each record. They are at
// the top level even inside a group, where tools that join logs and traces look
// for them.
type traceHandler struct {
	inner slog.Handler // with all that was added
	root  slog.Handler // with what was added before the first group
	floor *slog.LevelVar
	// inGroup is what was added from the first group on, to be added again
	// behind the ids. It is empty for a logger without groups.
	inGroup []func(slog.Handler) slog.Handler
}

// Enabled asks the handler below.
func (h *traceHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.inner.Enabled(ctx, level)
}

// Handle writes r, with the ids of the span in ctx.
func (h *traceHandler) Handle(ctx context.Context, r slog.Record) error {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return h.inner.Handle(ctx, r)
	}
	ids := []slog.Attr{
		slog.String(KeyTraceID, span.TraceID().String()),
		slog.String(KeySpanID, span.SpanID().String()),
	}
	if len(h.inGroup) == 0 {
		r = r.Clone()
		r.AddAttrs(ids...)
		return h.inner.Handle(ctx, r)
	}
	out := h.root.WithAttrs(ids)
	for _, add := range h.inGroup {
		out = add(out)
	}
	return out.Handle(ctx, r)
}

// WithAttrs gives a handler that adds attrs to each record.
func (h *traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(h.inGroup) == 0 {
		inner := h.inner.WithAttrs(attrs)
		return &traceHandler{inner: inner, root: inner, floor: h.floor}
	}
	return h.inside(func(next slog.Handler) slog.Handler { return next.WithAttrs(attrs) })
}

// WithGroup gives a handler that puts what follows into a group.
func (h *traceHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.inside(func(next slog.Handler) slog.Handler { return next.WithGroup(name) })
}

func (h *traceHandler) inside(add func(slog.Handler) slog.Handler) *traceHandler {
	// Copied, since two loggers made from one must not share a tail.
	steps := slices.Concat(h.inGroup, []func(slog.Handler) slog.Handler{add})
	return &traceHandler{inner: add(h.inner), root: h.root, floor: h.floor, inGroup: steps}
}
