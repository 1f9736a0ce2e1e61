package deploy_test

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

type ruleFile struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	} `yaml:"groups"`
}

type rule struct {
	Alert  string        `yaml:"alert"`
	Expr   string        `yaml:"expr"`
	For    time.Duration `yaml:"for"`
	Labels struct {
		Severity string `yaml:"severity"`
	} `yaml:"labels"`
	Annotations struct {
		Summary string `yaml:"summary"`
		Runbook string `yaml:"runbook_url"`
		// Console is the path of the view that shows the cause.
		Console string `yaml:"console"`
	} `yaml:"annotations"`
}

func rules(t *testing.T) (out []rule) {
	t.Helper()
	data, err := os.ReadFile("prometheus/genbus.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	var file ruleFile
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	if err := d.Decode(new(any)); err != io.EOF {
		t.Fatalf("more than one document: %v", err)
	}
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	if len(out) == 0 {
		t.Fatal("no rules")
	}
	return out
}

// runbook is the page that has a section for each alert.
const runbook = "https://github.com/genbus/genbus/blob/main/docs/alerts.md"

// consoleInWords returns the path of the alert's view as the runbook shows it, with a word for each
// label: ROUTE for the label route.
func (r rule) consoleInWords() string {
	return labelPattern.ReplaceAllStringFunc(r.Annotations.Console, func(label string) string {
		return strings.ToUpper(labelInUse.FindStringSubmatch(label)[1])
	})
}

var (
	alertName    = regexp.MustCompile(`^Genbus[A-Za-z]+$`)
	labelInUse   = regexp.MustCompile(`\$labels\.(\w+)`)
	labelPattern = regexp.MustCompile(`\{\{ \$labels\.\w+ \}\}`)
)

// TestAlertsAreComplete proves that each alert has a valid query, duration, severity, runbook and
// summary.
func TestAlertsAreComplete(t *testing.T) {
	t.Parallel()
	for _, r := range rules(t) {
		q := checkQuery(t, r.Expr)
		if !alertName.MatchString(r.Alert) || r.For < time.Minute || r.Annotations.Summary == "" {
			t.Errorf("invalid name %q, duration %s or summary %q", r.Alert, r.For, r.Annotations.Summary)
		}
		if !slices.Contains([]string{"critical", "warning"}, r.Labels.Severity) {
			t.Errorf("%s has the severity %q", r.Alert, r.Labels.Severity)
		}
		if want := runbook + "#" + strings.ToLower(r.Alert); r.Annotations.Runbook != want {
			t.Errorf("%s: the runbook is %s, want %s", r.Alert, r.Annotations.Runbook, want)
		}
		for _, m := range labelInUse.FindAllStringSubmatch(r.Annotations.Summary, -1) {
			if !q.labels[m[1]] {
				t.Errorf("%s: the summary names the label %s, which the result does not have", r.Alert, m[1])
			}
		}
	}
}

var section = regexp.MustCompile(`(?ms)^## (Genbus\w+)\n(.*?)(?:^#|\z)`)

// TestEveryAlertHasItsSection proves that alerts and runbook sections match in order, and that each
// section names the alert's view.
func TestEveryAlertHasItsSection(t *testing.T) {
	t.Parallel()
	const page = "../docs/alerts.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var sections, alerts []string
	bodies := map[string]string{}
	for at := section.FindSubmatchIndex(text); at != nil; at = section.FindSubmatchIndex(text) {
		name, body := string(text[at[2]:at[3]]), string(text[at[4]:at[5]])
		sections, bodies[name] = append(sections, name), body
		for _, part := range []string{"**Diagnosis:**", "**Fix:**"} {
			if !strings.Contains(body, part) {
				t.Errorf("%s: the section of %s has no %s", page, name, part)
			}
		}
		text = text[at[5]:]
	}
	for _, r := range rules(t) {
		alerts = append(alerts, r.Alert)
		if want := "`" + r.consoleInWords() + "`"; !strings.Contains(bodies[r.Alert], want) {
			t.Errorf("%s: the section of %s does not name its view, %s", page, r.Alert, want)
		}
	}
	if !slices.Equal(alerts, sections) {
		t.Errorf("%s: the alerts are\n%v\nthe sections\n%v", page, alerts, sections)
	}
}
