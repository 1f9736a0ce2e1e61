package console_test

import (
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/config"
)

func row(job string) string {
	return `document.querySelector('tbody a[href="` + job + `"]').closest("tr")`
}

// TestAJobIsSeenToGoOn proves that the list and the job's page follow a job to its end without a
// reload.
func TestAJobIsSeenToGoOn(t *testing.T) {
	t.Parallel()
	w := start(t)
	b := open(t, w.base)
	b.goTo("/console/jobs")
	b.shows("No jobs yet")
	b.live()
	first := w.video(request{model: "sandbox-video", behaviour: map[string]any{"duration_ms": 1500}})
	b.until("row of the job", row(first))
	b.until("end of the job", row(first)+`.innerText.includes("completed")`)
	b.sameDocument()
	second := w.video(request{model: "sandbox-video", behaviour: map[string]any{"duration_ms": 3000}})
	b.goTo(second)
	b.live()
	b.click("#event-1 summary")
	b.until("progress", `[...document.querySelectorAll("tbody td:nth-child(6)")].some((e) => parseInt(e.innerText) > 0)`)
	b.until("end of the job", `document.querySelector(".headline").innerText.includes("completed")`)
	b.sameDocument()
	if !eval[bool](b, `document.getElementById("event-1").open`) {
		t.Error("what was open was closed by an update")
	}
}

// TestWhatIsTypedStays proves that typed text and the focus survive updates that add rows above.
func TestWhatIsTypedStays(t *testing.T) {
	t.Parallel()
	w := start(t)
	first := w.chat(request{model: "sandbox-chat-fast"})
	b := open(t, w.base)
	b.goTo("/console/jobs")
	b.until("first job", row(first))
	b.live()
	b.do(typed("[name=model]", "half a na"))
	second := w.chat(request{model: "sandbox-chat-fast"})
	b.until("second job", row(second))
	if got := eval[string](b, `document.activeElement.name + "=" + document.activeElement.value`); got != "model=half a na" {
		t.Errorf("the field became %q", got)
	}
	eval[bool](b, row(first)+`.querySelector("a").focus() ?? true`)
	third := w.chat(request{model: "sandbox-chat-fast"})
	b.until("third job", row(third))
	if got := eval[string](b, `document.activeElement.getAttribute("href")`); got != first {
		t.Errorf("the focus went from %s to %q", first, got)
	}
	if got := eval[string](b, `document.querySelector("[name=model]").value`); got != "half a na" {
		t.Errorf("without the focus the field became %q", got)
	}
	b.sameDocument()
}

// TestAnOpenChoiceBecomesNoOther proves that if a job ends while its cancel choice is open, the
// erase choice does not open in its place.
func TestAnOpenChoiceBecomesNoOther(t *testing.T) {
	t.Parallel()
	w := start(t)
	b := open(t, w.base)
	b.goTo(w.video(request{model: "sandbox-video", behaviour: map[string]any{"duration_ms": 2500}}))
	b.live()
	b.click("#cancel summary")
	b.until("button", `document.querySelector("#cancel button").checkVisibility()`)
	b.until("other choice", `document.getElementById("erase")`)
	b.sameDocument()
	if eval[bool](b, `document.getElementById("erase").open`) {
		t.Error("the choice to erase the job is open")
	}
}

// TestAChatIsRead proves that operators with permission to read bodies see a reply as it arrives.
func TestAChatIsRead(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *config.Config) { c.OperatorsReadBodies = true })
	b := open(t, w.base)
	b.goTo(w.chat(request{model: "sandbox-chat"}))
	b.live()
	b.click("#said summary")
	b.until("text", `document.getElementById("chat").textContent.startsWith("You wrote")`)
	b.shows("completed")
	b.until("whole text", `/^You wrote .* The sandbox\s*$/.test(document.getElementById("chat").textContent)`)
	b.sameDocument()
}

// TestAPageWithoutConnectionSaysSo proves that open pages are greyed out with the time while the
// service is away, and are live again when it is back.
func TestAPageWithoutConnectionSaysSo(t *testing.T) {
	t.Parallel()
	w := start(t)
	pages := map[string]*browser{}
	for _, path := range []string{"", "/jobs", "/streams"} {
		b := open(t, w.base)
		b.goTo("/console" + path)
		b.live()
		pages[path] = b
	}
	w.stop()
	const stale = `getComputedStyle(document.querySelector("main")).opacity !== "1"`
	for path, b := range pages {
		b.until("word at "+path, `/^No connection since [\d:]{8} UTC; retrying\.$/.test(document.getElementById("away").innerText) && `+stale)
		b.fits(path)
	}
	start(t, func(c *config.Config) { c.HTTP.Addr = strings.TrimPrefix(w.base, "http://") })
	for _, b := range pages {
		b.until("live page", `document.getElementById("live").textContent === "live" && !document.getElementById("away").innerText && !(`+stale+`)`)
		b.sameDocument()
	}
}
