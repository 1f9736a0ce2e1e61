package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/genbus/genbus/internal/telemetry"
)

// TestBannerStaysOutOfTheLog proves that the banner is not written into a JSON log.
func TestBannerStaysOutOfTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) *os.File {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	device := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	terminal := device("/dev/zero") // detected as a terminal
	for name, row := range map[string]struct {
		out, log *os.File
		format   string
		want     bool
	}{
		"a terminal":                     {terminal, file("log"), telemetry.FormatJSON, true},
		"nowhere, as under a supervisor": {device(os.DevNull), file("log"), telemetry.FormatJSON, false},
		"a file of its own":              {file("out"), file("log"), telemetry.FormatAuto, true},
		"the log's file":                 {file("log"), file("log"), telemetry.FormatAuto, false},
		"the log's file, with text":      {file("log"), file("log"), telemetry.FormatText, true},
		"whoever collects JSON":          {file("out"), file("log"), telemetry.FormatJSON, false},
	} {
		if got := fits(row.out, row.log, row.format); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestCommandOfGoRun proves that programCommand hides the temporary path of "go run".
func TestCommandOfGoRun(t *testing.T) {
	t.Parallel()
	const goRun = "go run ./cmd/service"
	for program, want := range map[string]string{
		"/tmp/go-build4033909374/b001/exe/service":                                                              goRun,
		`C:\Temp\go-build40\b001\exe\service.exe`:                                                               goRun,
		"/home/a/.cache/go-build/43/435600b3cca778de9751f14b88e4590891e893f95c6b20ca00ab50d16b2c8829-d/service": goRun,
		"./service":                  "./service",
		"service":                    "service",
		"/home/a/go-build/b/service": "/home/a/go-build/b/service",
	} {
		if got := programCommand(program); got != want {
			t.Errorf("%s: %s", program, got)
		}
	}
}

func TestServerFlag(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]string{"127.0.0.1:9090": "", "127.0.0.1:9091": " --server 127.0.0.1:9091"} {
		if got := serverFlag(server); got != want {
			t.Errorf("%s: %q", server, got)
		}
	}
}
