package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/config"
)

// unit returns the values of each setting in genbus.service, ignoring sections.
func unit(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for line := range strings.Lines(content(t, "systemd/genbus.service")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			out[name] = append(out[name], value)
		}
	}
	return out
}

// TestUnitRunsGenbus proves that the unit's configuration loads with its credentials, and that the
// unit leaves time to stop.
func TestUnitRunsGenbus(t *testing.T) {
	t.Parallel()
	u := unit(t)
	if got := u["Type"]; !slices.Equal(got, []string{"notify"}) {
		t.Errorf("the type is %v, want notify, because genbus sends READY=1", got)
	}
	files := map[string]bool{}
	for _, c := range u["LoadCredential"] {
		name, _, _ := strings.Cut(c, ":")
		files["/run/credentials/genbus.service/"+name] = false
	}
	cfg, err := config.Load(config.Source{Environ: u["Environment"], ReadFile: func(path string) ([]byte, error) {
		if path == "/etc/genbus/genbus.yaml" {
			return os.ReadFile("systemd/genbus.yaml")
		}
		if _, ok := files[path]; ok {
			files[path] = true
			return []byte("secret-0123456789-of-" + filepath.Base(path)), nil
		}
		return nil, os.ErrNotExist
	}})
	if err != nil {
		t.Fatal(err)
	}
	for path, read := range files {
		if !read {
			t.Errorf("the configuration does not read %s", path)
		}
	}
	stop, err := time.ParseDuration(u["TimeoutStopSec"][0])
	if least := cfg.Shutdown.Delay + cfg.Shutdown.Grace + 7*time.Second; err != nil || stop < least {
		t.Errorf("TimeoutStopSec is %s, want at least %s (%v)", stop, least, err)
	}
	if cfg.NATS.DataDir != "./data" || !slices.Equal(u["WorkingDirectory"], []string{"/var/lib/genbus"}) || !slices.Equal(u["StateDirectory"], []string{"genbus"}) {
		t.Errorf("the data directory is %s in %v, but only %v is writable", cfg.NATS.DataDir, u["WorkingDirectory"], u["StateDirectory"])
	}
}

// TestUnitIsVerified proves that systemd-analyze accepts the unit, with this test as its program.
func TestUnitIsVerified(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(content(t, "systemd/genbus.service"), "/usr/local/bin/genbus", self)
	file := filepath.Join(t.TempDir(), "genbus.service")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", file).CombinedOutput()
	if wrong := regexp.MustCompile(`(?m)^.*genbus\.service.*$`).FindAllString(string(said), -1); err != nil && len(said) == 0 || len(wrong) > 0 {
		t.Errorf("%v: %s", err, said)
	}
}
