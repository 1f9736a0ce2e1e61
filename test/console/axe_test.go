package console_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/genbus/genbus/test/npm"
)

// violation is an accessibility rule that a page breaks, as reported by axe.
type violation struct {
	ID, Help string
	Nodes    []struct{ Target []any }
}

// accessible fails if a page breaks a rule of WCAG 2.2, level A or AA, that axe can check.
func (b *browser) accessible(name, axe string) {
	b.t.Helper()
	if eval[bool](b, `typeof axe === "undefined"`) {
		// A script evaluated through the browser is exempt from the page's Content Security Policy.
		if _, err := chromedp.Call(b.ctx, runtime.Evaluate, runtime.EvaluateParams{Expression: axe}); err != nil {
			b.t.Fatal(err)
		}
	}
	found := eval[[]violation](b, `axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }).then((r) => JSON.parse(JSON.stringify(r.violations)))`)
	for _, v := range found {
		where, err := json.Marshal(v.Nodes)
		if err != nil {
			b.t.Fatal(err)
		}
		b.t.Errorf("%s: %s (%s) at %.400s", name, v.ID, v.Help, where)
	}
}

// TestEveryViewIsAccessible checks every view, light on a screen and dark on a phone.
func TestEveryViewIsAccessible(t *testing.T) {
	t.Parallel()
	dir := npm.Project(t, "axe")
	source, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	axe := string(source)
	d, b := startDemo(t)
	for _, v := range append(d.views(),
		view{"job at work", d.working, "order-1013"},
		view{"no jobs", "/console/jobs?tenant=none", "No matching jobs"},
		view{"error", "/console/jobs?page_token=x", "page_token"},
		view{"no page", "/console/nothing", "Page not found"},
	) {
		for i, scheme := range []string{"light", "dark"} {
			b.scheme(scheme)
			b.size(widths[1-i])
			b.goTo(v.path)
			b.until(v.name, `document.body.innerHTML.includes("`+v.text+`")`)
			eval[any](b, `document.querySelectorAll("details").forEach((d) => { d.open = true; })`)
			b.accessible(strings.Join([]string{v.name, scheme}, ", "), axe)
		}
	}
}
