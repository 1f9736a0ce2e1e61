package docs_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/registry"
)

var outcomesPattern = regexp.MustCompile(`(?s)(<!-- outcomes -->\n).*?(<!-- /outcomes -->)`)

// TestOutcomesAreTheTables proves that the table in docs/upstreams.md matches the outcome tables in
// the code.
func TestOutcomesAreTheTables(t *testing.T) {
	const name = "docs/upstreams.md"
	text := read(t, name)
	want := outcomesPattern.ReplaceAllString(text, "${1}"+outcomesTable()+"${2}")
	if *update {
		write(t, name, want)
		return
	}
	if diff := cmp.Diff(want, text); diff != "" || !outcomesPattern.MatchString(text) {
		t.Errorf("%s does not list the outcomes; run `go test ./docs -update`:\n%s", name, diff)
	}
}

// outcomesTable returns a Markdown table of the outcomes of all protocols. Protocols with equal
// rows share a line.
func outcomesTable() string {
	type line struct {
		row       upstream.OutcomeRow
		protocols []string
	}
	var lines []line
	for _, p := range registry.All() {
		for _, r := range p.Outcomes {
			i := slices.IndexFunc(lines, func(l line) bool { return answerOf(l.row) == answerOf(r) && meaningOf(l.row) == meaningOf(r) })
			if i < 0 {
				i, lines = len(lines), append(lines, line{row: r})
			}
			lines[i].protocols = append(lines[i].protocols, "`"+p.Name+"`")
		}
	}
	// Rows for a bare status follow the rows for codes, because they apply last.
	slices.SortStableFunc(lines, func(a, b line) int { return strings.Compare(kindOf(a.row), kindOf(b.row)) })
	var out strings.Builder
	out.WriteString("| answer | protocols | verdict | about | source |\n|---|---|---|---|---|\n")
	for i := 0; i < len(lines); {
		meaning := func(l line) string {
			protocols := strings.Join(l.protocols, ", ")
			if len(l.protocols) == len(registry.All()) {
				protocols = "all"
			}
			return protocols + meaningOf(l.row)
		}
		var answers []string
		j := i
		for ; j < len(lines) && meaning(lines[j]) == meaning(lines[i]); j++ {
			answers = append(answers, answerOf(lines[j].row))
		}
		fmt.Fprintf(&out, "| %s | %s |\n", strings.Join(answers, ", "), meaning(lines[i]))
		i = j
	}
	return out.String()
}

func kindOf(r upstream.OutcomeRow) string {
	if r.Code == "" && r.Text == "" {
		return "status"
	}
	return "code"
}

// answerOf describes the upstream responses that match a row.
func answerOf(r upstream.OutcomeRow) string {
	status := fmt.Sprint(r.From)
	switch {
	case r.From%100 == 0 && r.To == r.From+99:
		status = fmt.Sprintf("another %dxx", r.From/100)
	case r.To != r.From:
		status = fmt.Sprintf("%d to %d", r.From, r.To)
	}
	switch {
	case r.Code == "" && r.Text != "":
		return fmt.Sprintf("%s whose message begins with %q", status, r.Text)
	case r.Code == "":
		return status
	case r.Text != "":
		return fmt.Sprintf("`%s` that says %q", r.Code, r.Text)
	case r.From == r.To || r.From > 400:
		return fmt.Sprintf("`%s` with %s", r.Code, strings.TrimPrefix(status, "another "))
	default:
		return "`" + r.Code + "`"
	}
}

// meaningOf returns the other cells of a row.
func meaningOf(r upstream.OutcomeRow) string {
	verdict := map[upstream.Verdict]string{upstream.RefusedForGood: "for good", upstream.RefusedForNow: "for now", upstream.Unknown: "unknown"}[r.Verdict]
	about := "the " + r.Scope.String()
	return fmt.Sprintf(" | %s | %s | %s", verdict, about, r.Source)
}
