package main

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestOverlay proves that the time.Now of this Go version can be replaced.
func TestOverlay(t *testing.T) {
	t.Parallel()
	list, err := overlay(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	var o struct{ Replace map[string]string }
	if err := json.Unmarshal(data, &o); err != nil || len(o.Replace) != 2 {
		t.Fatalf("%s: %v", data, err)
	}
	for at, with := range o.Replace {
		text, err := os.ReadFile(with)
		if err != nil || !strings.HasPrefix(string(text), "package time\n") && !strings.Contains(string(text), skewBegins) {
			t.Errorf("%s: %v", at, err)
		}
	}
}

func TestSetClock(t *testing.T) {
	t.Parallel()
	r := &replica{clock: filepath.Join(t.TempDir(), "clock")}
	for _, by := range append([]time.Duration{0}, skews...) {
		if err := r.setClock(by); err != nil {
			t.Fatal(err)
		}
		word, err := os.ReadFile(r.clock)
		if err != nil || len(word) != 8 || int64(binary.NativeEndian.Uint64(word)) != int64(by/time.Second) {
			t.Errorf("%s: %x, %v", by, word, err)
		}
	}
}
