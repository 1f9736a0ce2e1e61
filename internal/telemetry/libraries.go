package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"google.golang.org/grpc/grpclog"

	"github.com/genbus/genbus/internal/errcode"
)

// maxLibraryText bounds what gRPC says in one record, in bytes: it may quote a
// header that a client has sent.
const maxLibraryText = 512

// AdoptLibraries has what libraries would write to standard error on their own
// become records of log. What goes to package log, such as net/http's words about an
// upstream that speaks unasked, is debug, and so are the warnings of gRPC. Its errors
// are warnings here, because most of them are about what a client has sent; the rest
// is dropped.
//
// It sets what the whole process has: a command calls it once, before it uses gRPC.
func AdoptLibraries(log *slog.Logger) {
	slog.SetLogLoggerLevel(slog.LevelDebug)
	slog.SetDefault(log.With("component", "library")) // for package log; no code here uses the default
	quiet := grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)
	grpclog.SetLoggerV2(grpcLog{LoggerV2: quiet, log: log.With("component", "grpc")})
}

// grpcLog hands gRPC's own log to slog. The logger in it drops the rest. gRPC ends
// the process itself after a fatal error.
type grpcLog struct {
	grpclog.LoggerV2
	log *slog.Logger
}

func (l grpcLog) Warning(args ...any)            { l.log.Debug("gRPC", text(fmt.Sprint(args...))) }
func (l grpcLog) Warningln(args ...any)          { l.log.Debug("gRPC", text(line(args))) }
func (l grpcLog) Warningf(f string, args ...any) { l.log.Debug("gRPC", text(fmt.Sprintf(f, args...))) }
func (l grpcLog) Error(args ...any)              { l.log.Warn("gRPC", text(fmt.Sprint(args...))) }
func (l grpcLog) Errorln(args ...any)            { l.log.Warn("gRPC", text(line(args))) }
func (l grpcLog) Errorf(f string, args ...any)   { l.log.Warn("gRPC", text(fmt.Sprintf(f, args...))) }
func (l grpcLog) Fatal(args ...any)              { l.log.Error("gRPC", text(fmt.Sprint(args...))) }
func (l grpcLog) Fatalln(args ...any)            { l.log.Error("gRPC", text(line(args))) }
func (l grpcLog) Fatalf(f string, args ...any)   { l.log.Error("gRPC", text(fmt.Sprintf(f, args...))) }

// text is what gRPC says, as far as a record has it.
func text(s string) slog.Attr { return slog.String("text", errcode.Clip(s, maxLibraryText)) }

// line is the text with blanks between all its parts.
func line(args []any) string { return strings.TrimSuffix(fmt.Sprintln(args...), "\n") }
