package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestLoginAndLogout proves that a requested page opens after the login, and that none opens after
// the logout.
func TestLoginAndLogout(t *testing.T) {
	t.Parallel()
	b := open(t, start(t, withOperators).base)
	b.goTo("/console/jobs?status=failed")
	b.until("login", `document.activeElement.id === "key"`)
	b.do(typed("#key", "gb_no-such-key"))
	b.leads(chromedp.Click(chromedp.CSS("main button")))
	b.shows("not a valid operator key")
	b.fits("login")
	b.do(typed("#key", opsKey))
	b.leads(chromedp.Click(chromedp.CSS("main button")))
	b.until("page that was asked for", `location.pathname + location.search === "/console/jobs?status=failed"`)
	b.leads(chromedp.Click(chromedp.CSS(`form[action="/console/logout"] button`)))
	b.until("login", `location.pathname === "/console/login"`)
	b.goTo("/console/jobs")
	b.until("login once more", `location.pathname === "/console/login" && document.getElementById("key")`)
}

// TestWhoOnlyReadsIsOfferedNoAction proves that no page offers an action to an operator with a
// read-only key.
func TestWhoOnlyReadsIsOfferedNoAction(t *testing.T) {
	t.Parallel()
	d, _ := startDemo(t)
	b := open(t, d.base).login(viewerKey)
	for _, v := range append(d.views(), view{"job at work", d.working, "order-1013"}) {
		if v.name == "login" {
			continue
		}
		b.goTo(v.path)
		b.until(v.name, `document.querySelector(".who").innerText.includes("read-only")`)
		if forms := eval[string](b, `[...document.querySelectorAll("form[method=post]")].map((f) => f.action).join(" ")`); forms != b.base+"/console/logout" {
			t.Errorf("%s offers %s", v.name, forms)
		}
	}
}
