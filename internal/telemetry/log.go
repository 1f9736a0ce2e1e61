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

// Keys of log attributes. Every record uses the same key for the same thing, so one search finds
// all records of a job. Request bodies and upstream keys have no log key, because genbus never logs
// them.
const (
	KeyJobID        = "job_id"
	KeyRequestID    = "request_id" // the X-Request-Id of an HTTP or gRPC call
	KeyTenant       = "tenant"
	KeyKind         = "kind"
	KeyRoute        = "route"
	KeyUpstream     = "upstream"
	KeyUpstreamID   = "upstream_task_id"
	KeyOp           = "op"
	KeyCode         = "code"          // see docs/errors.md
	KeyUpstreamCode = "upstream_code" // the upstream's code
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

// Log formats.
const (
	// FormatAuto is text on a terminal and JSON elsewhere. It is the default.
	FormatAuto = "auto"
	// FormatText writes one line of key=value pairs per record.
	FormatText = "text"
	// FormatJSON writes one JSON object per record, each on its own line.
	FormatJSON = "json"
)

// JobAttrs returns the log attributes of a job, followed by more.
func JobAttrs(name subject.JobName, route string, more ...any) []any {
	return append([]any{slog.String(KeyJobID, name.ID), slog.String(KeyTenant, name.Tenant), slog.String(KeyRoute, route)}, more...)
}

// NewLogger returns a logger that writes to w. The level is debug, info, warn or error; empty means
// info. The format is one of the Format constants; empty means auto. Any other value causes an
// error that lists the valid ones.
//
// Records logged with a context (InfoContext and so on) contain the trace_id and span_id of the
// context's span at the top level.
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

// SetLevel changes the level of a logger from NewLogger and of all loggers derived from it. It
// ignores other loggers. An unknown level is an error.
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

// readable writes durations as 5m0s in both formats, because slog's JSON handler would write
// nanoseconds. slog also calls it for attributes in groups, but not for the fields of structs,
// which must be logged individually.
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

// IsTerminal reports whether w is a character device. That includes /dev/null, where the format
// does not matter.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// traceHandler adds the IDs of the context's span to each record. The IDs stay at the top level
// even for loggers with groups, because tools that join logs and traces expect them there.
type traceHandler struct {
	inner slog.Handler // with all attributes and groups
	root  slog.Handler // with the attributes added before the first group
	floor *slog.LevelVar
	// inGroup applies the first group and everything after it again, once the IDs have been added.
	// It is empty for a logger without groups.
	inGroup []func(slog.Handler) slog.Handler
}

// Enabled reports whether the inner handler is enabled.
func (h *traceHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.inner.Enabled(ctx, level)
}

// Handle writes r with the IDs of the span in ctx.
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

// WithAttrs returns a handler that adds attrs to each record.
func (h *traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(h.inGroup) == 0 {
		inner := h.inner.WithAttrs(attrs)
		return &traceHandler{inner: inner, root: inner, floor: h.floor}
	}
	return h.inside(func(next slog.Handler) slog.Handler { return next.WithAttrs(attrs) })
}

// WithGroup returns a handler that puts subsequent attributes into a group.
func (h *traceHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.inside(func(next slog.Handler) slog.Handler { return next.WithGroup(name) })
}

func (h *traceHandler) inside(add func(slog.Handler) slog.Handler) *traceHandler {
	// Copy the slice, because two loggers derived from the same logger must not share a backing
	// array.
	steps := slices.Concat(h.inGroup, []func(slog.Handler) slog.Handler{add})
	return &traceHandler{inner: add(h.inner), root: h.root, floor: h.floor, inGroup: steps}
}
