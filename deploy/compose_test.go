package deploy_test

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.yaml.in/yaml/v3"

	"github.com/genbus/genbus/internal/config"
)

// composition is compose.yaml, with the short syntax that it uses.
type composition struct {
	Name     string
	Hardened yaml.Node `yaml:"x-hardened"`
	NATS     yaml.Node `yaml:"x-nats"`
	Genbus   yaml.Node `yaml:"x-genbus"`
	Services map[string]composed
	Volumes  map[string]struct{}
	Secrets  map[string]struct{ File string }
}

type composed struct {
	Image       string
	Build       struct{ Context, Dockerfile string }
	Entrypoint  []string
	Command     []string
	Environment map[string]string
	Volumes     []string
	Ports       []string
	Secrets     []string
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck struct {
		Test              []string
		Interval, Timeout string
		Retries           int
		StartPeriod       string `yaml:"start_period"`
		Disable           bool
	}
	StopGracePeriod time.Duration `yaml:"stop_grace_period"`
	Restart         string
	ReadOnly        bool     `yaml:"read_only"`
	CapDrop         []string `yaml:"cap_drop"`
	SecurityOpt     []string `yaml:"security_opt"`
}

func compose(t *testing.T) (c composition) {
	t.Helper()
	d := yaml.NewDecoder(bytes.NewReader([]byte(content(t, "compose.yaml"))))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestComposeIsWhole proves that compose.yaml refers only to existing files, volumes and secrets,
// publishes ports only on loopback, and restricts every container.
func TestComposeIsWhole(t *testing.T) {
	t.Parallel()
	c := compose(t)
	if got := slices.Sorted(maps.Keys(c.Services)); !slices.Equal(got, []string{"genbus-1", "genbus-2", "nats-1", "nats-2", "nats-3", "sandbox"}) {
		t.Errorf("the services are %v", got)
	}
	taken := map[string]bool{}
	for name, s := range c.Services {
		for _, port := range s.Ports {
			if local := port[:strings.LastIndex(port, ":")]; !strings.HasPrefix(port, "127.0.0.1:") || taken[local] {
				t.Errorf("%s publishes %s on other addresses than loopback, or twice", name, port)
			} else {
				taken[local] = true
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			_, volume := c.Volumes[from]
			if _, err := os.Stat(from); !volume && (err != nil || !strings.HasSuffix(v, ":ro")) {
				t.Errorf("%s mounts %s: %v", name, v, err)
			}
		}
		for _, secret := range s.Secrets {
			if c.Secrets[secret].File != "./compose/secrets/"+secret {
				t.Errorf("%s uses the secret %s, which is %+v", name, secret, c.Secrets[secret])
			}
		}
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) || s.Restart == "" {
			t.Errorf("%s is not restricted, or has no restart policy", name)
		}
		if s.Build.Dockerfile != "" {
			if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestComposeWaitsForHealth proves that replicas wait for healthy NATS servers and have time to
// stop, and that every container has a health check, without which "up --wait" fails.
func TestComposeWaitsForHealth(t *testing.T) {
	t.Parallel()
	c := compose(t)
	for name, s := range c.Services {
		if own := len(s.Healthcheck.Test) > 0; s.Healthcheck.Disable || !own && !slices.Contains([]string{"genbus-1", "genbus-2"}, name) {
			t.Errorf("%s has no health check; only genbus can use the one of the image", name)
		}
	}
	for _, name := range []string{"genbus-1", "genbus-2"} {
		s := c.Services[name]
		cfg := composeConfig(t, s)
		if least := cfg.Shutdown.Delay + cfg.Shutdown.Grace + 7*time.Second; s.StopGracePeriod < least {
			t.Errorf("the grace period of %s is %s, want at least %s", name, s.StopGracePeriod, least)
		}
		for _, server := range cfg.NATS.Servers() {
			host := regexp.MustCompile(`//([^:]+):4222$`).FindStringSubmatch(server)
			if host == nil || s.DependsOn[host[1]].Condition != "service_healthy" || len(c.Services[host[1]].Healthcheck.Test) == 0 {
				t.Errorf("%s does not wait for the health of %s", name, server)
			}
		}
	}
}

// composeConfig loads the configuration of a replica from its environment, mounts and secrets.
func composeConfig(t *testing.T, s composed) *config.Config {
	t.Helper()
	var env []string
	for name, value := range s.Environment {
		env = append(env, name+"="+value)
	}
	cfg, err := config.Load(config.Source{Environ: env, ReadFile: func(path string) ([]byte, error) {
		if secret, ok := strings.CutPrefix(path, "/run/secrets/"); ok && slices.Contains(s.Secrets, secret) {
			return []byte("secret-" + secret + "-0123456789"), nil
		}
		for _, v := range s.Volumes {
			if from, to, _ := strings.Cut(strings.TrimSuffix(v, ":ro"), ":"); to == path {
				return os.ReadFile(from)
			}
		}
		return nil, os.ErrNotExist
	}})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestComposeServersOfNATS proves that the servers accept the configuration in deploy/nats with the
// variables that nats.sh sets from the secrets of secrets.sh. It runs both scripts.
func TestComposeServersOfNATS(t *testing.T) {
	for _, tool := range []string{"sh", "od", "env"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	c := compose(t)
	secrets := makeSecrets(t)
	made, err := os.ReadDir(secrets)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(made))
	for _, m := range made {
		names = append(names, m.Name())
	}
	if want := slices.Sorted(maps.Keys(c.Secrets)); !slices.Equal(names, want) {
		t.Fatalf("secrets.sh creates %v, and compose.yaml uses %v", names, want)
	}
	for line := range strings.Lines(natsEnvironment(t, secrets)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), "="); strings.HasPrefix(name, "NATS_") {
			t.Setenv(name, value)
		}
	}
	for _, name := range []string{"nats-1", "nats-2", "nats-3"} {
		s := c.Services[name]
		t.Setenv("NATS_NAME", s.Environment["NATS_NAME"])
		o, err := server.ProcessConfigFile("nats/cluster.conf")
		if err != nil {
			t.Fatal(err)
		}
		routes := make([]string, 0, len(o.Routes))
		for _, r := range o.Routes {
			routes = append(routes, r.Hostname())
		}
		if o.ServerName != name || !o.JetStream || !o.SyncAlways || !slices.Equal(routes, []string{"nats-1", "nats-2", "nats-3"}) {
			t.Errorf("%s is %s, JetStream %t, synced %t, with routes to %v", name, o.ServerName, o.JetStream, o.SyncAlways, routes)
		}
		if !slices.Contains(s.Volumes, name+":"+o.StoreDir) || !slices.Contains(s.Volumes, "./nats:/etc/nats:ro") {
			t.Errorf("%s stores in %s and mounts %v", name, o.StoreDir, s.Volumes)
		}
		if want := "nats:" + natsVersion(t) + "-alpine"; s.Image != want {
			t.Errorf("%s runs %s, want %s", name, s.Image, want)
		}
	}
}

// natsVersion returns the version of the NATS server that the tests use.
func natsVersion(t *testing.T) string {
	t.Helper()
	return regexp.MustCompile(`nats-server/v2 v(\S+)`).FindStringSubmatch(content(t, filepath.Join(root, "go.mod")))[1]
}

// makeSecrets runs a copy of secrets.sh twice, to check that the second run keeps the secrets.
func makeSecrets(t *testing.T) (dir string) {
	t.Helper()
	at := t.TempDir()
	script := filepath.Join(at, "secrets.sh")
	if err := os.WriteFile(script, []byte(content(t, "compose/secrets.sh")), 0o600); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(at, "secrets")
	var key string
	for range 2 {
		if out, err := exec.CommandContext(t.Context(), "sh", script).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		now := content(t, filepath.Join(dir, "api-key"))
		if len(now) != 49 || key != "" && key != now {
			t.Errorf("the key has %d characters, or the second run changed it", len(now))
		}
		key = now
	}
	return dir
}

// natsEnvironment returns the environment that nats.sh gives the server.
func natsEnvironment(t *testing.T, secrets string) string {
	t.Helper()
	script := strings.NewReplacer("/run/secrets", secrets, "exec nats-server -c /etc/nats/cluster.conf", "env").Replace(content(t, "compose/nats.sh"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "sh", "-c", script).Output()
	if err != nil || !strings.Contains(string(out), "NATS_ROUTE_3=") {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}
