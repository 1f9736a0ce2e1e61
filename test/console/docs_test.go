package console_test

import (
	"slices"
	"strings"
	"testing"
)

// TestTheReferenceShowsLists proves that the page /docs shows the lists of both documents as lists.
func TestTheReferenceShowsLists(t *testing.T) {
	t.Parallel()
	b := open(t, start(t).base)
	for view, item := range map[string]string{
		"http": "Every GET path also answers HEAD, without a body.", "nats": "Headers that begin with Nats- are JetStream's.",
	} {
		b.goTo("/docs#" + view)
		b.until(view, `document.querySelectorAll("details.item").length > 10 && document.querySelector("nav [aria-current]").hash === "#`+view+`"`)
		eval[bool](b, `document.querySelectorAll("details.item").forEach((d) => { d.open = true; }) === undefined`)
		b.until("every part of "+view, `[...document.querySelectorAll("details.item > .body")].every((e) => e.children.length)`)
		if items := eval[[]string](b, `[...document.querySelectorAll("main .text li")].map((e) => e.innerText)`); !slices.Contains(items, item) {
			t.Errorf("%s: no item %q among %q", view, item, items)
		}
		raw := eval[[]string](b, `[...document.querySelectorAll("main .text")].map((e) => e.innerText).filter((text) => /^\s*([*-]|\d+\.) |`+"`"+`/m.test(text))`)
		if len(raw) > 0 {
			t.Errorf("%s: markers are shown raw in %s", view, strings.Join(raw, "\n---\n"))
		}
	}
}

// TestTheReferenceFits proves that the page /docs looks right in every size and colour scheme.
func TestTheReferenceFits(t *testing.T) {
	t.Parallel()
	b := open(t, start(t).base)
	for _, path := range []string{"/docs#http", "/docs#nats", "/docs#http/createGeneration"} {
		b.goTo(path)
		b.until("documents", `document.querySelectorAll("details.item").length > 10`)
		b.looks(path)
	}
}
