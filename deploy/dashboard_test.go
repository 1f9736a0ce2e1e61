package deploy_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

type dashboard struct {
	ID         *int   `json:"id"`
	UID        string `json:"uid"`
	Title      string `json:"title"`
	Templating struct {
		List []variable `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type variable struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	Definition string `json:"definition"`
	Datasource source `json:"datasource"`
}

type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Datasource  source `json:"datasource"`
	GridPos     place  `json:"gridPos"`
	Targets     []target
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
}

type place struct{ H, W, X, Y int }

type target struct {
	RefID        string `json:"refId"`
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
	Datasource   source `json:"datasource"`
}

type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// chosen is the data source that the user selects on import.
var chosen = source{Type: "prometheus", UID: "${datasource}"}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	data, err := os.ReadFile("grafana/genbus.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) == 0 {
		t.Fatal("the dashboard has no panels")
	}
	return d
}

var (
	labelValues = regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
	legendLabel = regexp.MustCompile(`\{\{(\w+)\}\}`)
	variableUse = regexp.MustCompile(`\$\{?(\w+)\}?`)
)

// TestPanelsAskForWhatExists proves that the queries and legends of all panels name existing
// metrics and labels.
func TestPanelsAskForWhatExists(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	known := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		known = append(known, v.Name)
	}
	for _, p := range d.Panels {
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.Datasource != chosen || p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("%s: %d queries of %v, in %q", p.Title, len(p.Targets), p.Datasource, p.FieldConfig.Defaults.Unit)
		}
		for _, q := range p.Targets {
			checkTarget(t, p, q, known)
		}
	}
}

func checkTarget(t *testing.T, p panel, q target, variables []string) {
	t.Helper()
	if q.Datasource != chosen {
		t.Errorf("%s %s queries %v", p.Title, q.RefID, q.Datasource)
	}
	for _, m := range variableUse.FindAllStringSubmatch(q.Expr, -1) {
		if !slices.Contains(variables, m[1]) {
			t.Errorf("%s: there is no variable %s", p.Title, m[1])
		}
	}
	result := checkQuery(t, strings.ReplaceAll(q.Expr, "$__rate_interval", "5m"))
	for _, m := range legendLabel.FindAllStringSubmatch(q.LegendFormat, -1) {
		if !result.labels[m[1]] {
			t.Errorf("%s: the legend names the label %s, which the result does not have:\n%s", p.Title, m[1], q.Expr)
		}
	}
}

// TestTheDashboardCanBeImported proves that the dashboard contains no data source or ID of a
// particular Grafana, and that its panels do not overlap.
func TestTheDashboardCanBeImported(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	if d.ID != nil || d.UID != "genbus" || d.Title != "genbus" {
		t.Errorf("id %v, uid %q, title %q", d.ID, d.UID, d.Title)
	}
	for i, v := range d.Templating.List {
		if i == 0 {
			if v.Name != "datasource" || v.Type != "datasource" {
				t.Errorf("the first variable is %s, of type %s", v.Name, v.Type)
			}
			continue
		}
		m := labelValues.FindStringSubmatch(v.Definition)
		if m == nil || v.Datasource != chosen || !slices.Contains(metrics()[m[1]].labels, m[2]) {
			t.Errorf("the variable %s is %q of %v", v.Name, v.Definition, v.Datasource)
		}
	}
	ids := map[int]string{}
	for i, p := range d.Panels {
		if other, taken := ids[p.ID]; taken || p.Title == "" {
			t.Errorf("panel %d (%q) has the id of %q", p.ID, p.Title, other)
		}
		ids[p.ID] = p.Title
		if p.GridPos.X+p.GridPos.W > 24 || p.GridPos.H == 0 {
			t.Errorf("%s has the invalid position %+v", p.Title, p.GridPos)
		}
		for _, other := range d.Panels[:i] {
			if overlap(p.GridPos, other.GridPos) {
				t.Errorf("%s overlaps %s", p.Title, other.Title)
			}
		}
	}
}

func overlap(a, b place) bool {
	return a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H
}

// TestEveryMetricIsShown proves that every genbus metric appears in a panel.
func TestEveryMetricIsShown(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	for _, p := range readDashboard(t).Panels {
		for _, q := range p.Targets {
			result := checkQuery(t, strings.ReplaceAll(q.Expr, "$__rate_interval", "5m"))
			for _, s := range result.selectors {
				shown[family(s.metric)] = true
			}
		}
	}
	for name := range metrics() {
		if strings.HasPrefix(name, "genbus_") && !shown[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
}
