package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"google.golang.org/grpc/grpclog"

	"github.com/genbus/genbus/internal/errcode"
)

// maxLibraryText bounds the text of one gRPC record, in bytes. gRPC may quote a client's header.
const maxLibraryText = 512

// AdoptLibraries redirects to log the output that libraries would otherwise write to standard
// error. Output of package log, such as net/http's reports of unsolicited responses, becomes debug
// records, as do gRPC warnings. gRPC errors become warnings, because clients cause most of them.
// Other gRPC output is dropped.
//
// It changes process-wide loggers. Commands call it once, before they use gRPC.
func AdoptLibraries(log *slog.Logger) {
	slog.SetLogLoggerLevel(slog.LevelDebug)
	slog.SetDefault(log.With("component", "library")) // for package log; genbus itself does not use the default logger
	quiet := grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)
	grpclog.SetLoggerV2(grpcLog{LoggerV2: quiet, log: log.With("component", "grpc")})
}

// grpcLog forwards gRPC's log to slog. The embedded logger drops the levels that grpcLog does not
// forward. gRPC itself exits the process after a fatal error.
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

// text returns gRPC's message as an attribute, cut to maxLibraryText.
func text(s string) slog.Attr { return slog.String("text", errcode.Clip(s, maxLibraryText)) }

// line joins args with spaces.
func line(args []any) string { return strings.TrimSuffix(fmt.Sprintln(args...), "\n") }
