package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
)

// skewEnv is the environment variable that names the file with the clock error, in seconds, of a
// service built with overlay.
const skewEnv = "SOAK_CLOCK"

// skewSource is a file for package time. It maps the file into shared memory, so that a change
// affects a running process at once.
const skewSource = `package time

import (
	"syscall"
	"unsafe"
)

var soakSkew *int64

func init() {
	path, set := syscall.Getenv("` + skewEnv + `")
	if !set {
		return
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	page, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	soakSkew = (*int64)(unsafe.Pointer(&page[0]))
}
`

// The beginning of time.Now, and its replacement with a clock that can be set.
const (
	nowBegins  = "\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {"
	skewBegins = "\tsec, nsec, mono := runtimeNow()\n\tif soakSkew != nil {\n\t\tsec += *soakSkew\n\t}\n\tif mono == 0 {"
)

// overlay writes a build overlay that replaces time.Now in the standard library. genbus itself is
// not changed.
func overlay(ctx context.Context, dir string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return "", err
	}
	if strings.Count(string(text), nowBegins) != 1 {
		return "", errors.New("time.Now of this Go has another beginning: cmd/soak cannot make clocks wrong")
	}
	replace := map[string]string{
		filepath.Join(source, "time.go"):      filepath.Join(dir, "time.go"),
		filepath.Join(source, "soak_skew.go"): filepath.Join(dir, "soak_skew.go"),
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, errors.Join(
		os.WriteFile(filepath.Join(dir, "time.go"), []byte(strings.Replace(string(text), nowBegins, skewBegins, 1)), 0o600),
		os.WriteFile(filepath.Join(dir, "soak_skew.go"), []byte(skewSource), 0o600),
		os.WriteFile(path, list, 0o600),
	)
}

// setClock sets the error of a replica's clock.
func (r *replica) setClock(by time.Duration) error {
	file, err := os.OpenFile(r.clock, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	word := binary.NativeEndian.AppendUint64(nil, uint64(by/time.Second))
	_, err = file.WriteAt(word, 0) // in place, because the replica maps the file
	return errors.Join(err, file.Close())
}

func (s *storm) skew(ctx context.Context, i int, by, d time.Duration) error {
	r := s.fleet.replicas[i]
	defer s.begin(check.Fault{Kind: check.FaultClock, Target: r.Name, By: by})()
	if err := r.setClock(by); err != nil {
		return err
	}
	faultinject.Pause(ctx, d)
	return r.setClock(0)
}
