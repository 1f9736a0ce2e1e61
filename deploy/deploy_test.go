// Package deploy_test checks the files of deploy against the service. Dashboard and alerts must
// contain valid queries of existing metrics and labels, and each alert needs a runbook section and
// a view of the console. Thresholds are not checked.
package deploy_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// metric is a metric family.
type metric struct {
	kind   string // COUNTER, GAUGE or HISTOGRAM
	labels []string
	// values are the label values of series that exist before the first event.
	values map[string][]string
}

// metrics returns the families of a process that has counted everything once.
var metrics = sync.OnceValue(func() map[string]metric {
	m := telemetry.NewMetrics("test")
	routes := make([]*telemetry.RouteMetrics, 0, len(subject.Kinds))
	for _, kind := range subject.Kinds {
		routes = append(routes, m.Route(kind, "r"))
	}
	fixed := gather(m)
	countEverything(reflect.ValueOf(m))
	for _, r := range routes {
		countEverything(reflect.ValueOf(r))
	}
	m.Orphaned([]telemetry.OrphanedJobs{{Kind: subject.Video, Route: "r", Jobs: 1}}) // reflection passed an empty slice, which sets no series
	m.Draining(subject.Video, "r", 1)                                                // NotDraining, called after Draining, removed the series
	all := gather(m)
	for name, f := range all {
		f.values = fixed[name].values
		all[name] = f
	}
	return all
})

func gather(m *telemetry.Metrics) map[string]metric {
	families, err := m.Gatherer().Gather()
	if err != nil {
		panic(err)
	}
	out := map[string]metric{}
	for _, f := range families {
		one := metric{kind: f.GetType().String(), values: map[string][]string{}}
		for _, series := range f.GetMetric() {
			one.labels = nil
			for _, l := range series.GetLabel() {
				one.labels = append(one.labels, l.GetName())
				one.values[l.GetName()] = append(one.values[l.GetName()], l.GetValue())
			}
		}
		out[f.GetName()] = one
	}
	return out
}

// countEverything calls every method, with 1 for numbers.
func countEverything(v reflect.Value) {
	for i := range v.NumMethod() {
		f := v.Method(i)
		args := make([]reflect.Value, f.Type().NumIn())
		for j := range args {
			args[j] = reflect.New(f.Type().In(j)).Elem()
			if args[j].CanInt() {
				args[j].SetInt(1)
			}
			if args[j].CanUint() {
				args[j].SetUint(1)
			}
		}
		for _, out := range f.Call(args) {
			if h, ok := out.Interface().(*telemetry.UpstreamMetrics); ok {
				countEverything(reflect.ValueOf(h))
			}
		}
	}
}

var histogramSeries = regexp.MustCompile(`_(?:bucket|sum|count)$`)

// family returns the name of the family that a series belongs to.
func family(series string) string {
	name := histogramSeries.ReplaceAllString(series, "")
	if metrics()[name].kind == "HISTOGRAM" {
		return name
	}
	return series
}

// reporter receives the failures of a check.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// checkQuery parses a query and checks its selectors against the registry.
func checkQuery(t reporter, text string) query {
	t.Helper()
	q, err := parseQuery(text)
	if err != nil {
		t.Errorf("%s\n%v", text, err)
		return query{}
	}
	for _, s := range q.selectors {
		checkSelector(t, text, s)
	}
	return q
}

func checkSelector(t reporter, text string, s selector) {
	t.Helper()
	f, exists := metrics()[family(s.metric)]
	if !exists {
		t.Errorf("%s\nthere is no metric %s", text, s.metric)
		return
	}
	counts := f.kind == "COUNTER" || f.kind == "HISTOGRAM"
	if f.kind == "HISTOGRAM" && s.metric == family(s.metric) {
		t.Errorf("%s\n%s is a histogram: it has _bucket, _sum and _count", text, s.metric)
	}
	if rated := s.function == "rate" || s.function == "increase"; rated != counts && s.function != "absent" {
		t.Errorf("%s\n%s is a %s; use rate or increase for counters and histograms only", text, s.metric, f.kind)
	}
	for _, m := range s.matchers {
		checkMatcher(t, text, f, m)
	}
}

// enumerated returns the possible values of a label. The registry has all values of outcome and
// event from the start.
var enumerated = map[string]func(metric) []string{
	"kind":   func(metric) []string { return []string{"video", "chat"} },
	"status": func(metric) []string { return []string{"completed", "failed", "cancelled"} },
	"verdict": func(metric) []string {
		return []string{"accepted", "refused_for_good", "refused_for_now", "unknown", "answered", "failed"}
	},
	"outcome": func(f metric) []string { return f.values["outcome"] },
	"event":   func(f metric) []string { return f.values["event"] },
}

func checkMatcher(t reporter, text string, f metric, m matcher) {
	t.Helper()
	if m.label == "instance" || m.label == "job" {
		return
	}
	if !slices.Contains(f.labels, m.label) {
		t.Errorf("%s\nthere is no label %s; there are %v", text, m.label, f.labels)
	}
	if strings.Contains(m.value, "$") {
		return // a dashboard variable
	}
	for word := range strings.SplitSeq(m.value, "|") {
		values, listed := enumerated[m.label]
		if listed && len(values(f)) > 0 && !slices.Contains(values(f), word) {
			t.Errorf("%s\n%s is never %s; it is one of %v", text, m.label, word, values(f))
		}
		code := m.label == "code" && slices.Contains(f.labels, "kind")
		if code && errcode.MeaningOf(errcode.Code(word)).Code != errcode.Code(word) {
			t.Errorf("%s\nthere is no error code %s", text, word)
		}
	}
}

// TestTheRegistryIsKnown proves that metrics finds labels through reflection. Otherwise these tests
// would reject valid queries.
func TestTheRegistryIsKnown(t *testing.T) {
	t.Parallel()
	for name, labels := range map[string]string{
		"genbus_ready": "", "genbus_jobs_held_by_phase": "kind phase route", "genbus_polls_total": "kind outcome route",
		"genbus_upstream_requests_total": "op status upstream verdict", "genbus_inline_chats_open": "route", "genbus_stream_messages_ratio": "stream",
	} {
		f := metrics()[name]
		if got := strings.Join(slices.Sorted(slices.Values(f.labels)), " "); f.kind == "" || got != labels {
			t.Errorf("%s has the labels %q, want %q", name, got, labels)
		}
	}
}

// TestWrongQueriesAreFound proves that the checks of this package reject wrong queries.
func TestWrongQueriesAreFound(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"sum(", "sum(genbus_ready))", "rate(genbus_polls_total)", "genbus_polls_total[5m]", "sum by (tenant) (genbus_ready)", "genbus_ready{", `genbus_ready{x}`,
		`genbus_ready{x="y}`, `genbus_ready{x=~"("}`, "genbus_ready >", "frobnicate(genbus_ready)", "1 + 1", "histogram_quantile(genbus_ready, 1)", "rate(genbus_polls_total[5])",
		"sum(rate(genbus_polls_total[5m])) genbus_ready", "genbus_ready # comment",
	} {
		if q, err := parseQuery(text); err == nil {
			t.Errorf("%s was read as %+v", text, q)
		}
	}
	for _, text := range []string{
		"genbus_no_such_metric", "rate(genbus_ready[5m])", "genbus_polls_total", "genbus_poll_lateness_seconds", `sum(rate(genbus_polls_total{tenant="a"}[5m]))`,
		`sum(rate(genbus_polls_total{outcome="maybe"}[5m]))`, `sum(rate(genbus_dead_letters_total{code="oops"}[5m]))`, `genbus_jobs_held{kind="audio"}`,
	} {
		found := complaints{}
		if checkQuery(&found, text); found.n == 0 {
			t.Errorf("%s passed", text)
		}
	}
}

type complaints struct {
	n int
}

func (c *complaints) Helper() {}

func (c *complaints) Errorf(string, ...any) { c.n++ }
