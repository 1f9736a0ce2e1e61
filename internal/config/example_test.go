package config

import (
	"regexp"
	"strings"
	"testing"
)

// loadExampleText loads a text with the secrets in environ.
func loadExampleText(t *testing.T, text string, environ ...string) *Config {
	t.Helper()
	c, err := Load(Source{File: "c.yaml", Environ: environ, ReadFile: files{"c.yaml": text}.read})
	if err != nil {
		t.Fatalf("%v\nof\n%s", err, text)
	}
	return c
}

// TestExampleLoads checks that the example loads unchanged with an empty environment and yields the
// defaults.
func TestExampleLoads(t *testing.T) {
	t.Parallel()
	want := Default()
	want.Upstreams = Upstreams{"main": NewUpstream("https://api.example.com")}
	want.Telemetry.Traces = "off" // the resolved auto
	if err := want.Prepare(); err != nil {
		t.Fatal(err)
	}
	if d := diff(want, loadExampleText(t, Example())); d != "" {
		t.Errorf("the example is not the default: %s", d)
	}
}

// TestExampleShowsEveryKey checks that the example with all keys uncommented yields exampleConfig.
func TestExampleShowsEveryKey(t *testing.T) {
	t.Parallel()
	text := Example()
	full := regexp.MustCompile(`(?m)^#([^#])`).ReplaceAllString(text, "$1")
	got := loadExampleText(t, full, "FIRST_UPSTREAM_KEY=a", "ACME_KEY=gb_acme-key-4444", "OPS_KEY=gb_operator-key-1")
	want := exampleConfig()
	want.Telemetry.Traces = "off"
	if err := want.Prepare(); err != nil {
		t.Fatal(err)
	}
	wantText, err := want.Effective()
	if err != nil {
		t.Fatal(err)
	}
	gotText, err := got.Effective()
	if err != nil {
		t.Fatal(err)
	}
	if string(gotText) != string(wantText) {
		t.Errorf("got\n%s\nwant\n%s", gotText, wantText)
	}
	for _, row := range describe() {
		key := row.Key[strings.LastIndex(row.Key, ".")+1:]
		if row.Key != "" && !regexp.MustCompile(`(?m)^[ -]*`+key+`:`).MatchString(full) || !strings.Contains(text, row.Meaning) || !strings.Contains(text, row.Env) {
			t.Errorf("%s%s is not shown", row.Key, row.Env)
		}
	}
}
