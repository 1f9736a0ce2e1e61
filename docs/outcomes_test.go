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

// outcomesTable returns a Markdown table of the outcomes of all protocols.
func outcomesTable() string {
	var out strings.Builder
	out.WriteString("| answer | protocols | verdict | about |\n|---|---|---|---|\n")
	for _, g := range outcomeGroups() {
		protocols := strings.Join(g.protocols, ", ")
		if len(g.protocols) == len(registry.All()) {
			protocols = "all"
		}
		fmt.Fprintf(&out, "| %s | %s%s |\n", strings.Join(g.answers, ", "), protocols, g.meaning)
	}
	return out.String()
}

type outcomeGroup struct {
	class     int
	meaning   string
	answers   []string
	protocols []string
}

// outcomeGroups returns the outcomes of all protocols. Answers with the same protocols, verdict and
// scope share a group.
func outcomeGroups() (groups []outcomeGroup) {
	var lines []outcomeGroup
	for _, p := range registry.All() {
		for _, r := range p.Outcomes {
			i := slices.IndexFunc(lines, func(l outcomeGroup) bool { return l.answers[0] == answerOf(r) && l.meaning == meaningOf(r) })
			if i < 0 {
				i, lines = len(lines), append(lines, outcomeGroup{class: classOf(r), meaning: meaningOf(r), answers: []string{answerOf(r)}})
			}
			lines[i].protocols = append(lines[i].protocols, "`"+p.Name+"`")
		}
	}
	for _, l := range lines {
		i := slices.IndexFunc(groups, func(g outcomeGroup) bool {
			return g.class == l.class && g.meaning == l.meaning && slices.Equal(g.protocols, l.protocols)
		})
		if i < 0 {
			groups = append(groups, l)
		} else {
			groups[i].answers = append(groups[i].answers, l.answers...)
		}
	}
	slices.SortStableFunc(groups, func(a, b outcomeGroup) int { return a.class - b.class })
	return groups
}

const statusClass = 3

// classOf returns the place of a row in the table: codes with a text, codes, texts, statuses.
func classOf(r upstream.OutcomeRow) int {
	switch {
	case r.Code != "" && r.Text != "":
		return 0
	case r.Code != "":
		return 1
	case r.Text != "":
		return 2
	default:
		return statusClass
	}
}

// TestOutcomeGroupsKeepTheirMeaning proves that the order of the groups does not change what the
// code of a row means. Statuses are exempt, because "another" excludes those of other groups.
func TestOutcomeGroupsKeepTheirMeaning(t *testing.T) {
	t.Parallel()
	groups := outcomeGroups()
	for _, p := range registry.All() {
		group := func(r upstream.OutcomeRow) int {
			if classOf(r) == statusClass {
				return len(groups)
			}
			return slices.IndexFunc(groups, func(g outcomeGroup) bool {
				return g.meaning == meaningOf(r) && slices.Contains(g.answers, answerOf(r)) && slices.Contains(g.protocols, "`"+p.Name+"`")
			})
		}
		grouped := slices.Clone(p.Outcomes)
		slices.SortStableFunc(grouped, func(a, b upstream.OutcomeRow) int { return group(a) - group(b) })
		for _, r := range p.Outcomes {
			e := &upstream.Error{HTTPStatus: r.From, Code: strings.ReplaceAll(r.Code, "*", ""), Message: r.Text, Reported: true}
			if want, got := p.Outcomes[p.Outcomes.Find(e)], grouped[grouped.Find(e)]; meaningOf(want) != meaningOf(got) {
				t.Errorf("%s: %s means%s in the code, and%s in docs/upstreams.md", p.Name, answerOf(r), meaningOf(want), meaningOf(got))
			}
		}
	}
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
	case r.From == r.To || r.From > 400 || r.To == 499 && r.From == 400:
		return fmt.Sprintf("`%s` with %s", r.Code, strings.TrimPrefix(status, "another "))
	default:
		return "`" + r.Code + "`"
	}
}

// meaningOf returns the last cells of a row.
func meaningOf(r upstream.OutcomeRow) string {
	verdict := map[upstream.Verdict]string{upstream.RefusedForGood: "for good", upstream.RefusedForNow: "for now", upstream.Unknown: "unknown"}[r.Verdict]
	about := r.Scope.String()
	if r.Denial == upstream.QuotaDenied && r.Scope == upstream.ScopeKey {
		about = "quota"
	}
	return fmt.Sprintf(" | %s | %s", verdict, about)
}
