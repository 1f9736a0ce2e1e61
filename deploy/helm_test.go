package deploy_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.yaml.in/yaml/v3"

	"github.com/genbus/genbus/internal/config"
)

// configFile is the path of the configuration in a pod.
const configFile = "/etc/genbus/config/genbus.yaml"

// rendered has the fields of a rendered document that concern a replica. tools/helm checks the
// others.
type rendered struct {
	Kind string
	Data map[string]string
	Spec struct {
		Template struct {
			Spec pod
		}
	}
}

type pod struct {
	EnableServiceLinks            *bool `yaml:"enableServiceLinks"`
	AutomountServiceAccountToken  *bool `yaml:"automountServiceAccountToken"`
	TerminationGracePeriodSeconds int   `yaml:"terminationGracePeriodSeconds"`
	SecurityContext               struct {
		RunAsUser    string `yaml:"runAsUser"`
		RunAsNonRoot bool   `yaml:"runAsNonRoot"`
	} `yaml:"securityContext"`
	Containers []struct {
		Args []string
		Env  []struct {
			Name, Value string
		}
		Ports []struct {
			ContainerPort string `yaml:"containerPort"`
		}
		StartupProbe    probe `yaml:"startupProbe"`
		LivenessProbe   probe `yaml:"livenessProbe"`
		ReadinessProbe  probe `yaml:"readinessProbe"`
		SecurityContext struct {
			ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
			AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		} `yaml:"securityContext"`
	}
}

type probe struct {
	HTTPGet struct{ Path, Scheme string } `yaml:"httpGet"`
}

// renderings returns the rendered documents by set of values.
func renderings(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("helm/testdata/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no sets of values", err)
	}
	out := map[string]string{}
	for _, f := range files {
		name := strings.TrimSuffix(f, ".values.yaml")
		out[filepath.Base(name)] = content(t, name+".rendered.yaml")
	}
	return out
}

// TestRenderingsAreOfTheChart proves that the renderings match the chart. Helm takes minutes to
// build, so CI reads stored renderings.
func TestRenderingsAreOfTheChart(t *testing.T) {
	t.Parallel()
	h := sha256.New()
	err := fs.WalkDir(os.DirFS("helm"), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasSuffix(path, ".rendered.yaml") {
			return err
		}
		data, err := os.ReadFile(filepath.Join("helm", path))
		fmt.Fprintf(h, "%s %d\n%s", path, len(data), data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range renderings(t) {
		if !strings.HasPrefix(text, "# Rendered from the chart and values with hash "+hex.EncodeToString(h.Sum(nil))+"\n") {
			t.Errorf("%s is stale; run `go test -C tools/helm . -update` and review the changes", name)
		}
	}
}

// TestChartRunsGenbus proves that the chart's configuration loads, and that its pod has the right
// probes, ports, restrictions and time to stop.
func TestChartRunsGenbus(t *testing.T) {
	t.Parallel()
	for name, text := range renderings(t) {
		var cfg *config.Config
		var p pod
		for d := yaml.NewDecoder(strings.NewReader(text)); ; {
			var r rendered
			if err := d.Decode(&r); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			switch r.Kind {
			case "ConfigMap":
				cfg = chartConfig(t, r.Data["genbus.yaml"])
			case "Deployment":
				p = r.Spec.Template.Spec
			}
		}
		if cfg == nil || len(p.Containers) != 1 {
			t.Fatalf("%s has no configuration or no container", name)
		}
		checkPod(t, name, p, cfg)
	}
}

// TestNATSChart proves that the values of the NATS chart start the server version that the tests
// use, with the user and the password that genbus has by default.
func TestNATSChart(t *testing.T) {
	t.Parallel()
	var v struct {
		Config struct {
			Merge struct {
				Authorization struct{ Users []struct{ User string } }
			}
		}
		Container struct {
			Image struct{ Tag string }
			Env   struct {
				Password struct {
					ValueFrom struct {
						SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
					} `yaml:"valueFrom"`
				} `yaml:"NATS_SERVICE_PASSWORD"`
			}
		}
	}
	if err := yaml.Unmarshal([]byte(content(t, "helm/nats.values.yaml")), &v); err != nil {
		t.Fatal(err)
	}
	if got, want := v.Container.Image.Tag, natsVersion(t)+"-alpine"; got != want {
		t.Errorf("the image is %s, want %s", got, want)
	}
	external := renderings(t)["external"]
	secret := v.Container.Env.Password.ValueFrom.SecretKeyRef
	users := v.Config.Merge.Authorization.Users
	if len(users) != 1 || !strings.Contains(external, "user: "+users[0].User+"\n") || !strings.Contains(external, "secretName: "+secret.Name+"\n") ||
		!strings.Contains(external, "password_file: /etc/genbus/secrets/"+secret.Key+"\n") {
		t.Errorf("genbus does not log in as %v with %s of %s", users, secret.Key, secret.Name)
	}
}

// TestNATSChartRoutes proves that the servers of the NATS chart need a password to connect to each
// other, and that they send it.
func TestNATSChartRoutes(t *testing.T) {
	var v struct {
		Config struct {
			Cluster struct {
				Replicas int
				Merge    struct {
					Authorization struct{ User, Password string }
					Routes        []string
				}
			}
		}
		Container struct{ Env map[string]any }
	}
	if err := yaml.Unmarshal([]byte(content(t, "helm/nats.values.yaml")), &v); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NATS_ROUTES_PASSWORD", "s0")
	for name, value := range v.Container.Env {
		if text, ok := value.(string); ok {
			t.Setenv(name, strings.ReplaceAll(text, "$(NATS_ROUTES_PASSWORD)", "s0")) // as Kubernetes does
		}
	}
	c := v.Config.Cluster.Merge
	text := fmt.Sprintf("cluster { authorization { user: %s, password: %s }, routes: [%s] }", c.Authorization.User, c.Authorization.Password, strings.Join(c.Routes, ", "))
	var o server.Options
	if err := o.ProcessConfigString(strings.NewReplacer("<< ", "", " >>", "").Replace(text)); err != nil { // the chart removes the brackets
		t.Fatal(err)
	}
	if o.Cluster.Username != "routes" || o.Cluster.Password != "s0" || len(o.Routes) != v.Config.Cluster.Replicas {
		t.Errorf("%d routes, for user %q with password %q", len(o.Routes), o.Cluster.Username, o.Cluster.Password)
	}
	for n, route := range o.Routes {
		if want := fmt.Sprintf("nats://routes:s0@nats-%d.nats-headless:6222", n); route.String() != want {
			t.Errorf("route %s, want %s", route, want)
		}
	}
}

// chartConfig loads a configuration and supplies every secret that it names.
func chartConfig(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Load(config.Source{File: configFile, Environ: []string{"ACME_KEY=acme-0123456789abcdef"}, ReadFile: func(path string) ([]byte, error) {
		switch {
		case path == configFile:
			return []byte(text), nil
		case strings.HasPrefix(path, "/etc/genbus/secrets/"), strings.HasPrefix(path, "/etc/genbus/tls/"):
			return []byte("content-of-" + filepath.Base(path) + "-0123456789"), nil
		}
		return nil, os.ErrNotExist
	}})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return cfg
}

func checkPod(t *testing.T, name string, p pod, cfg *config.Config) {
	t.Helper()
	c := p.Containers[0]
	if given, least := time.Duration(p.TerminationGracePeriodSeconds)*time.Second, cfg.Shutdown.Delay+cfg.Shutdown.Grace+7*time.Second; given < least {
		t.Errorf("%s: the grace period of the pod is %s, want at least %s", name, given, least)
	}
	// Service links of a service named genbus set variables that begin with GENBUS_, like settings
	// of genbus.
	if p.EnableServiceLinks == nil || *p.EnableServiceLinks {
		t.Errorf("%s: enableServiceLinks is not false", name)
	}
	scheme := "HTTP"
	if cfg.HTTP.TLS.Enabled() {
		scheme = "HTTPS"
	}
	for path, probes := range map[string][]probe{"/healthz": {c.StartupProbe, c.LivenessProbe}, "/readyz": {c.ReadinessProbe}} {
		for _, one := range probes {
			if one.HTTPGet.Path != path || one.HTTPGet.Scheme != scheme {
				t.Errorf("%s: a probe requests %+v, want %s over %s", name, one.HTTPGet, path, scheme)
			}
		}
	}
	ports := make([]string, 0, len(c.Ports))
	for _, port := range c.Ports {
		ports = append(ports, ":"+port.ContainerPort)
	}
	if want := []string{cfg.HTTP.Addr, cfg.GRPC.Addr}; !slices.Equal(ports, want) {
		t.Errorf("%s: the ports are %v, and genbus listens on %v", name, ports, want)
	}
	safe := p.SecurityContext.RunAsNonRoot && p.SecurityContext.RunAsUser == imageUser && c.SecurityContext.ReadOnlyRootFilesystem &&
		c.SecurityContext.AllowPrivilegeEscalation != nil && !*c.SecurityContext.AllowPrivilegeEscalation && p.AutomountServiceAccountToken != nil && !*p.AutomountServiceAccountToken
	if !safe {
		t.Errorf("%s: the pod has more privileges than it needs", name)
	}
	if len(c.Env) == 0 || c.Env[0].Name != "GENBUS_CONFIG" || c.Env[0].Value != configFile || !slices.Equal(c.Args, []string{"serve"}) {
		t.Errorf("%s: started with arguments %v and environment %+v", name, c.Args, c.Env)
	}
}
