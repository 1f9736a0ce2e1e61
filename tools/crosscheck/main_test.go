package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheck proves that a name that exists on one system only is reported for the others.
func TestCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module example.com/signals\n\ngo 1.26\n",
		"main.go": "package main\n\nimport \"syscall\"\n\nfunc main() { stop(syscall.SIGSTOP) }\n",
		"stop.go": "//go:build unix\n\npackage main\n\nimport \"syscall\"\n\nfunc stop(syscall.Signal) {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for target, want := range map[string]string{"linux/arm64": "", "darwin/amd64": "", "windows/amd64": "undefined: stop; undefined: syscall.SIGSTOP"} {
		problems, err := check(dir, target)
		if err != nil {
			t.Fatal(err)
		}
		said := make([]string, 0, len(problems))
		for _, p := range problems {
			text := p.Error()
			said = append(said, text[strings.LastIndex(text, "undefined"):])
		}
		if got := strings.Join(said, "; "); got != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
	if _, err := check(dir, "windows"); err == nil {
		t.Error("check accepted a system without an architecture")
	}
}
