package telemetry_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/grpclog"

	"github.com/genbus/genbus/internal/telemetry"
)

// TestLibrariesWriteRecords checks the records of libraries. It is not parallel, because their
// loggers are process-wide.
func TestLibrariesWriteRecords(t *testing.T) {
	before, flags := slog.Default(), log.Flags()
	defer func() {
		slog.SetDefault(before)
		slog.SetLogLoggerLevel(slog.LevelInfo)
		log.SetOutput(os.Stderr)
		log.SetFlags(flags)
		grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	}()
	var w bytes.Buffer
	telemetry.AdoptLibraries(newLogger(t, &w, "debug", telemetry.FormatJSON))
	of := grpclog.Component("transport")
	grpclog.Infof("dropped %d", 1)
	of.Info("dropped")
	grpclog.Warning("a", "b")
	grpclog.Warningln("a", 1)
	grpclog.Warningf("a\n%s", "b")
	grpclog.Error("no header ", "x")
	grpclog.Errorln("no", "header")
	grpclog.Errorf("no %q", "header")
	of.Errorf("of %s", "a connection")
	grpclog.Errorf("%s", strings.Repeat("x", 100_000))
	log.Printf("Unsolicited response received: %q", "HTTP/1.1 200")
	if grpclog.V(2) {
		t.Error("it asks for more than errors")
	}
	var got []string
	for line := range strings.Lines(w.String()) {
		var r struct{ Level, Msg, Component, Text string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		got = append(got, r.Level+" "+r.Component+" "+r.Msg+": "+r.Text)
	}
	want := []string{
		"DEBUG grpc gRPC: ab", "DEBUG grpc gRPC: a 1", "DEBUG grpc gRPC: a\nb",
		"WARN grpc gRPC: no header x", "WARN grpc gRPC: no header", `WARN grpc gRPC: no "header"`, "WARN grpc gRPC: [transport] of a connection",
		"WARN grpc gRPC: " + strings.Repeat("x", 512),
		`DEBUG library Unsolicited response received: "HTTP/1.1 200": `,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
