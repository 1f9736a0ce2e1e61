package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/genbus/genbus/internal/telemetry"
)

// TestBannerStaysOutOfTheLog: it is not written where records of JSON are.
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
	terminal := device("/dev/zero") // counts as one
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
