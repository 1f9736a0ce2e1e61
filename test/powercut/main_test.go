package powercut_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/test/powercut/disk"
)

// onDisk is the environment variable set for the binary whose store is on a disk.Disk.
const onDisk = "POWERCUT_ON_DISK"

func TestMain(m *testing.M) {
	flag.Parse()
	// The go command reuses a cached result while this binary is unchanged. Functions called only
	// by the store would not be linked into it, so changes to them would go unnoticed.
	runtime.KeepAlive([]any{disk.Sync, disk.Write, disk.Rename, disk.Remove, disk.RemoveAll})
	if full, _ := brokertest.InFull(); full && os.Getenv(onDisk) == "" {
		os.Exit(runOnDisk())
	}
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

// runOnDisk builds the tests of this package with the store on a disk.Disk, runs them with the
// arguments of this process and returns the exit code.
func runOnDisk() int {
	dir, err := os.MkdirTemp("", "powercut-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = build(dir)
	}
	if err != nil {
		fmt.Println("powercut:", err)
		return 1
	}
	cmd := exec.Command(filepath.Join(dir, "test"), os.Args[1:]...)
	cmd.Env = append(os.Environ(), onDisk+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Println("powercut:", err)
		return 1
	}
	return 0
}

// build builds the tests into dir with a go.mod that replaces the nats-server module. The
// replacement is a directory below testdata that exists only in an overlay: all files of the
// module, except for the store. Nothing is copied, and later builds hit the cache.
func build(dir string) error {
	out, err := run("list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return err
	}
	original := strings.TrimSpace(out)
	instead, err := filepath.Abs(filepath.Join("testdata", "nats-server"))
	if err != nil {
		return err
	}
	replace := map[string]string{}
	err = filepath.WalkDir(original, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && !strings.HasSuffix(path, "_test.go") {
			replace[filepath.Join(instead, strings.TrimPrefix(path, original))] = path
		}
		return err
	})
	if err != nil {
		return err
	}
	store := filepath.Join(dir, "filestore.go")
	if err := change(filepath.Join(original, "server", "filestore.go"), store); err != nil {
		return err
	}
	replace[filepath.Join(instead, "server", "filestore.go")] = store
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	overlay, mod := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "go.mod")
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		return err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		b, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return err
		}
	}
	if _, err := run("mod", "edit", "-replace", module+"="+instead, mod); err != nil {
		return err
	}
	_, err = run("test", "-c", "-vet=off", "-modfile", mod, "-overlay", overlay, "-o", filepath.Join(dir, "test"), ".")
	return err
}

const module = "github.com/nats-io/nats-server/v2"

func run(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOWORK=off") // a workspace does not allow -modfile
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, stderr.String())
	}
	return string(out), nil
}
