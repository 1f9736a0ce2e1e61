package config

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const examples = "../../examples"

// exampleSource provides every secret that the examples name, and content for each file below
// /etc/genbus.
func exampleSource(file string) Source {
	return Source{
		File:    file,
		Environ: []string{"UPSTREAM_KEY=key-1", "STUDIO_KEY=key-2", "CHAT_KEY=key-3", "ACME_KEY=gb_acme-key-4444", "NATS_SERVICE_PASSWORD=secret"},
		ReadFile: func(path string) ([]byte, error) {
			if strings.HasPrefix(path, "/etc/genbus/") {
				return []byte("content of " + filepath.Base(path) + "\n"), nil
			}
			return os.ReadFile(path)
		},
	}
}

// keysWithoutSpaces makes the content of key files valid as keys.
func keysWithoutSpaces(s Source) Source {
	read := s.ReadFile
	s.ReadFile = func(path string) ([]byte, error) {
		content, err := read(path)
		if strings.HasSuffix(path, ".key") {
			content = []byte(strings.ReplaceAll(string(content), " ", "-"))
		}
		return content, err
	}
	return s
}

func loadExample(t *testing.T, name string) *Config {
	t.Helper()
	c, err := Load(keysWithoutSpaces(exampleSource(filepath.Join(examples, name))))
	if err != nil {
		t.Fatalf("%s:\n%v", name, err)
	}
	return c
}

func TestExamplesLoad(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range paths {
		names = append(names, filepath.Base(path))
		loadExample(t, filepath.Base(path))
	}
	for _, want := range []string{"cluster.yaml", "genbus.yaml", "two-upstreams.yaml"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s in %v", want, names)
		}
	}
}

func TestExampleOfTwoUpstreams(t *testing.T) {
	t.Parallel()
	c := loadExample(t, "two-upstreams.yaml")
	for _, tc := range []struct{ kind, model, upstream, sent string }{
		{KindVideo, "wan-2.1", "studio", "wan-2.1"},
		{KindVideo, "kling-v1", "studio", "kling-v1"},
		{KindChat, "house-chat", "studio", "studio-chat-2026-11"},
		{KindChat, "gpt-5", "talk", "gpt-5"},
	} {
		route, ok := c.Route(tc.kind, tc.model)
		if !ok || route.Upstream != tc.upstream || route.ModelFor(route.Upstream, tc.model) != tc.sent {
			t.Errorf("%s %s goes to %s as %s", tc.kind, tc.model, route.Upstream, route.ModelFor(route.Upstream, tc.model))
		}
	}
}

// TestExampleOfTheSandbox checks that sandbox.yaml has the routes of serve --sandbox, so that
// either can continue the other's jobs.
func TestExampleOfTheSandbox(t *testing.T) {
	t.Parallel()
	c := Default()
	if err := c.AddSandbox("http://" + c.Sandbox.Addr); err != nil {
		t.Fatal(err)
	}
	served := func(c *Config) (out []string) {
		for _, r := range c.Routes {
			out = append(out, strings.Join([]string{r.Kind, r.Name, r.Protocol, r.Group, strings.Join(r.Models, " "), r.Poll.Interval.String()}, " "))
		}
		slices.Sort(out)
		return out
	}
	if got, want := served(loadExample(t, "sandbox.yaml")), served(c); !slices.Equal(got, want) {
		t.Errorf("routes %q, want %q", got, want)
	}
}

func TestExampleOfACluster(t *testing.T) {
	t.Parallel()
	c := loadExample(t, "cluster.yaml")
	if c.NATS.Embedded() || len(c.NATS.Servers()) != 3 || c.NATS.Replicas != 3 {
		t.Errorf("servers %v, replicas %d", c.NATS.Servers(), c.NATS.Replicas)
	}
	if c.NATS.User != "service" || !c.HTTP.TLS.Enabled() || !c.GRPC.TLS.Enabled() {
		t.Errorf("user %q of NATS, TLS %t by HTTP and %t by gRPC", c.NATS.User, c.HTTP.TLS.Enabled(), c.GRPC.TLS.Enabled())
	}
	for key, want := range map[string]string{"gb_acme-key-4444": "acme", "content-of-globex.key": "globex", "content-of-globex-next.key": "globex"} {
		if tenant, _ := c.Tenant(key); tenant != want {
			t.Errorf("%s is tenant %q, want %q", key, tenant, want)
		}
	}
}

var optionLine = regexp.MustCompile(`^#( *(- )?[a-z_]+:)`)

// TestExampleShowsEveryKeyWithItsDefault checks that genbus.yaml shows every key, and that
// uncommenting them changes nothing.
func TestExampleShowsEveryKeyWithItsDefault(t *testing.T) {
	t.Parallel()
	path := filepath.Join(examples, "genbus.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var full []string
	for line := range strings.Lines(string(text)) {
		full = append(full, optionLine.ReplaceAllString(line, "$1"))
	}
	source := exampleSource(path)
	source.ReadFile = files{path: strings.Join(full, "")}.read
	got, err := Load(source)
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(loadExample(t, "genbus.yaml"), got); d != "" {
		t.Errorf("a commented line is not the default: %s", d)
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(strings.Join(full, "")), &document); err != nil {
		t.Fatal(err)
	}
	for _, row := range describe() {
		if row.Key != "" && !shows(document.Content[0], strings.Split(strings.ReplaceAll(row.Key, "[]", ".[]"), ".")) {
			t.Errorf("%s is not shown", row.Key)
		}
	}
}

// shows reports whether a path from describe has a value, or ends in an empty list or map.
func shows(n *yaml.Node, path []string) bool {
	if len(path) == 0 {
		return true
	}
	if path[0] == "[]" || path[0] == "<name>" {
		return len(n.Content) == 0 || slices.ContainsFunc(n.Content, func(child *yaml.Node) bool { return shows(child, path[1:]) })
	}
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if n.Content[i].Value == path[0] {
			return shows(n.Content[i+1], path[1:])
		}
	}
	return false
}
