package console_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
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

// axe is the source of axe-core, or empty where it is not available.
var axe struct {
	sync.Once
	source string
}

// accessible fails if a page breaks a rule of WCAG 2.2, level A or AA, that axe can check.
func (b *browser) accessible(name string) {
	b.t.Helper()
	axe.Do(func() {
		b.t.Run("axe-core", func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join(npm.Project(t, "axe"), "node_modules", "axe-core", "axe.min.js"))
			if err != nil {
				t.Fatal(err)
			}
			axe.source = string(source)
		})
	})
	if axe.source == "" {
		return
	}
	if eval[bool](b, `typeof axe === "undefined"`) {
		// A script evaluated through the browser is exempt from the page's Content Security Policy.
		if _, err := chromedp.Call(b.ctx, runtime.Evaluate, runtime.EvaluateParams{Expression: axe.source}); err != nil {
			b.t.Fatal(err)
		}
	}
	// The reference has too many items to open all.
	eval[any](b, `window.unfolded = [...document.querySelectorAll("details:not([open], .item)")].map((d) => { d.open = true; return d; })`)
	found := eval[[]violation](b, `axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }).then((r) => JSON.parse(JSON.stringify(r.violations)))`)
	eval[any](b, `unfolded.forEach((d) => { d.open = false; })`)
	for _, v := range found {
		where, err := json.Marshal(v.Nodes)
		if err != nil {
			b.t.Fatal(err)
		}
		b.t.Errorf("%s: %s (%s) at %.400s", name, v.ID, v.Help, where)
	}
}
