package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/genbus/genbus/internal/config"
)

// record waits for the audit record of a completed action and fails unless there is exactly one.
func (b *browser) record(action, on string) {
	b.t.Helper()
	b.goTo("/console/audit")
	rows := `[...document.querySelectorAll("tbody tr")].filter((r) => r.innerText.includes("` + action + `") && r.innerHTML.includes("` + on + `") && r.innerText.includes("done"))`
	b.until("record of "+action, rows+".length > 0")
	if n := eval[int](b, `[...document.querySelectorAll("tbody tr")].filter((r) => r.innerText.includes("`+action+`") && r.innerHTML.includes("`+on+`")).length`); n != 1 {
		b.t.Errorf("%s is recorded %d times", action, n)
	}
}

// TestActionsAreDone proves that cancelling a job and pausing and resuming a route work by click,
// and that each is in the audit log once.
func TestActionsAreDone(t *testing.T) {
	t.Parallel()
	w := start(t, withOperators, withTenants("acme"))
	b := open(t, w.base).login(opsKey)
	job := w.video(request{tenant: "acme", model: "sandbox-video", behaviour: map[string]any{"duration_ms": 60_000}})
	b.goTo(job)
	b.click("#cancel summary")
	b.leads(chromedp.Click(chromedp.CSS("#cancel button"), chromedp.NodeVisible))
	b.shows("The job was cancelled")
	b.until("state", `document.querySelector(".headline").innerText.includes("cancelled")`)
	b.record("ops cancelled", job)

	b.goTo("/console/routes")
	b.click("#pause-video-sandbox-video summary")
	b.leads(chromedp.Click(chromedp.CSS("#pause-video-sandbox-video button"), chromedp.NodeVisible))
	b.shows("The route is paused")
	b.shows("by ops")
	b.record("ops paused route", "sandbox-video")
	b.goTo("/console")
	b.shows("video route sandbox-video")
	b.goTo("/console/routes")
	b.leads(chromedp.Click(chromedp.CSS(`form[action$="/resume"] button`)))
	b.shows("The route is running again")
	b.record("ops resumed route", "sandbox-video")
}

// TestABulkAction proves that a bulk cancel covers exactly the listed jobs, shows its progress and
// is recorded, and that a cancelled job can be submitted again.
func TestABulkAction(t *testing.T) {
	t.Parallel()
	w := start(t, withOperators, withTenants("acme", "globex"), func(c *config.Config) {
		for i := range c.Routes {
			c.Routes[i].KeepRequests = true
		}
	})
	b := open(t, w.base).login(opsKey)
	slow := map[string]any{"duration_ms": 60_000}
	job := w.video(request{tenant: "acme", model: "sandbox-video", behaviour: slow})
	w.video(request{tenant: "acme", model: "sandbox-video", behaviour: slow})
	other := w.video(request{tenant: "globex", model: "sandbox-video", behaviour: slow})
	b.goTo("/console/jobs?tenant=acme")
	b.shows("2 jobs")
	b.leads(chromedp.Click(chromedp.CSS(`a[href*="/console/bulk"]`)))
	b.shows("2 unfinished jobs will be cancelled")
	b.leads(chromedp.Click(chromedp.CSS("main form button")))
	b.shows("2 of 2 done")
	b.shows("The action has ended.")
	b.record("ops cancelled 2 of 2 jobs", "")
	b.goTo(other)
	b.until("job of another tenant", `!document.querySelector(".headline").innerText.includes("cancelled")`)
	b.goTo(job)
	b.until("state", `document.querySelector(".headline").innerText.includes("cancelled")`)
	b.click("#retry summary")
	b.leads(chromedp.Click(chromedp.CSS("#retry button"), chromedp.NodeVisible))
	b.shows("The request was submitted again")
	b.shows("Retry of")
}

// TestTwoClicksAreOneAction proves that the second click of a double click, made before the first
// is answered, does nothing.
func TestTwoClicksAreOneAction(t *testing.T) {
	t.Parallel()
	w := start(t, withOperators)
	seq := strconv.FormatUint(w.deadLetter(orphanedDeadLetter()), 10)
	to, err := url.Parse(w.base)
	if err != nil {
		t.Fatal(err)
	}
	var drops atomic.Int32
	came, clicked := make(chan struct{}, 10), make(chan struct{})
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host }}
	slow := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/drop") {
			drops.Add(1)
			came <- struct{}{}
			<-clicked
		}
		pass.ServeHTTP(rw, r)
	}))
	t.Cleanup(slow.Close)
	answer := sync.OnceFunc(func() { close(clicked) })
	t.Cleanup(answer)
	b := open(t, slow.URL).login(opsKey)
	b.goTo("/console/decisions/" + seq)
	b.click("#drop summary")
	b.until("button", `document.querySelector("#drop button").checkVisibility()`)
	at := eval[map[string]float64](b, `document.querySelector("#drop button").getBoundingClientRect().toJSON()`)
	click := func() {
		for _, typ := range []input.DispatchMouseEventType{input.DispatchMouseEventTypeMousePressed, input.DispatchMouseEventTypeMouseReleased} {
			// A chromedp action would wait for the answer to the first click.
			_, err := chromedp.Call(b.ctx, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: typ, X: at["x"] + 5, Y: at["y"] + 5, Button: input.MouseButtonLeft, ClickCount: 1})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	click()
	<-came
	click()
	answer()
	b.shows("The dead letter was removed")
	b.shows("Nothing needs a decision")
	if n := drops.Load(); n != 1 {
		t.Errorf("it was sent %d times", n)
	}
	b.record("ops dropped dead letter", "letter "+seq)
}

// TestByKeyboardAlone proves that the search, the content and an action can be reached and used
// with the keyboard.
func TestByKeyboardAlone(t *testing.T) {
	t.Parallel()
	w := start(t)
	job := w.chat(request{model: "sandbox-chat-fast"})
	b := open(t, w.base)
	b.goTo("/console/routes")
	b.live()
	b.press(kb.Tab)
	if got := eval[string](b, `document.activeElement.innerText`); got != "Skip to the content" {
		t.Errorf("the first thing is %q", got)
	}
	if !eval[bool](b, `document.activeElement.getBoundingClientRect().left >= 0`) {
		t.Error("the link that has the focus is not seen")
	}
	b.press(kb.Enter)
	b.until("focus in the content", `document.activeElement.id === "main" || location.hash === "#main"`)
	for range 40 { // until the summary that pauses the route
		b.press(kb.Tab)
		if eval[bool](b, `document.activeElement.closest("#pause-video-sandbox-video") !== null`) {
			break
		}
	}
	b.press(kb.Enter)
	b.until("open choice", `document.querySelector("#pause-video-sandbox-video").open`)
	b.press(kb.Tab)
	b.leads(chromedp.KeyEvent(kb.Enter))
	b.shows("The route is paused")
	b.slash()
	b.until("focus in the search", `document.activeElement.id === "find"`)
	b.press(idOf(job))
	b.leads(chromedp.KeyEvent(kb.Enter))
	b.until("page of the job", `location.pathname === "`+job+`"`)
}
