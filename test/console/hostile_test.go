package console_test

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
)

// scripts runs a script if any page treats it as more than text.
const scripts = `"><script>window.ran=1</script><img src=x onerror="window.ran=1">'` + "`${window.ran=1}`" + `{{.}}<a href="javascript:window.ran=1">`

// hostile also begins from right to left, overrides the direction of what follows, and has a word
// that is longer than a line.
const hostile = "مرحبا \u202e" + scripts + "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"

// harmless fails if a page contains foreign elements, ran a script, or draws words of its own from
// right to left.
func (b *browser) harmless(name string) {
	b.t.Helper()
	if eval[bool](b, `"ran" in window`) {
		b.t.Errorf("%s runs a script", name)
	}
	if found := eval[string](b, `[...document.querySelectorAll("main script, main img, a[href^=javascript]")].map((e) => e.outerHTML).join(" ")`); found != "" {
		b.t.Errorf("%s has %s", name, found)
	}
	if turned := eval[string](b, `(() => {
		const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT), range = document.createRange(), turned = [];
		const left = (node, at) => { range.setStart(node, at); range.setEnd(node, at + 1); return range.getBoundingClientRect(); };
		while (texts.nextNode()) {
			const node = texts.currentNode, word = /[a-z]{2}/i.exec(node.data);
			if (!word || node.data.includes("\u202e") || !node.parentElement.checkVisibility()) continue;
			const first = left(node, word.index), second = left(node, word.index + 1);
			if (first.top === second.top && second.left < first.left) turned.push(node.data);
		}
		return turned.join("; ");
	})()`); turned != "" {
		b.t.Errorf("%s draws from right to left: %s", name, turned)
	}
}

// TestHostileTextsDoNothing proves that hostile text in any field runs no script, in loaded pages
// and in live updates.
func TestHostileTextsDoNothing(t *testing.T) {
	t.Parallel()
	w := start(t)
	b := open(t, w.base)
	b.goTo("/console/jobs")
	b.live()
	now := time.Now()
	item := &genbusv1.WorkItem{
		Id: subject.JobID(subject.Video, "default", "hostile"), Kind: "video", Tenant: "default", Route: hostile, Model: hostile, RequestId: hostile, RetryOf: hostile,
		Labels: map[string]string{hostile: hostile}, AcceptedAt: timestamppb.New(now), QueueDeadline: timestamppb.New(now.Add(time.Hour)), Size: hostile, Seconds: hostile,
		Trace: map[string]string{"traceparent": hostile, "tracestate": hostile},
	}
	w.events(ended(t, item, hostile, hostile, hostile))
	job := jobPath("video", "default", item.GetId())
	b.until("row of the job", row(job))
	b.sameDocument()
	b.harmless("the list of jobs, as it is updated")
	b.goTo("/console/decisions")
	b.live()
	letter := orphanedDeadLetter()
	letter.Id, letter.Tenant, letter.Upstream, letter.UpstreamKey, letter.UpstreamTaskId, letter.Subject = hostile, hostile, hostile, hostile, hostile, hostile
	letter.Error = &genbusv1.TaskError{Code: "orphaned_submission", Message: hostile, UpstreamCode: hostile, Type: hostile}
	decision := "/console/decisions/" + strconv.FormatUint(w.deadLetter(letter), 10)
	b.shows("orphaned_submission")
	b.sameDocument()
	b.harmless("the list of letters, as it is updated")
	// The same texts, sent by a caller and an upstream.
	refused := w.video(request{model: "sandbox-video", labels: "a=" + url.QueryEscape(scripts), behaviour: map[string]any{"status": 400, "message": hostile, "code": hostile}})
	w.call(http.MethodPost, "/v1/video/generations", "", map[string]any{"model": "sandbox-video:" + "duration_ms=60000", "prompt": hostile}, "X-Request-Id", hostile)
	b.goTo(refused)
	b.shows("failed")
	q := url.QueryEscape(hostile)
	for _, path := range []string{
		"/console", "/console/jobs", job, refused, "/console/decisions", decision, "/console/routes", "/console/upstreams", "/console/tenants", "/console/audit", "/console/try",
		"/console/jobs?tenant=" + q, "/console/jobs?label=" + q, "/console/jobs?page_token=" + q, "/console/audit?operator=" + q, "/console/decisions?code=" + q,
		"/console/login?next=" + q, "/console/find?q=" + q, "/console/decisions/" + url.PathEscape(hostile), "/console/jobs/video/default/" + url.PathEscape(hostile),
	} {
		b.goTo(path)
		b.until("page", `document.querySelector("h1")`)
		if slices.Contains([]string{job, refused, decision}, path) {
			b.shows(`<script>window.ran=1</script>`)
		}
		b.harmless(path)
		b.looks(path)
	}
	b.goTo("/console/try")
	b.do(typed("#try-prompt", hostile), typed("#try-model", hostile))
	b.click("#try button")
	b.shows("model_not_found")
	b.harmless("what Try shows")
}

// TestTheBrowserReports proves that the browser reports every fault that pages must not have.
func TestTheBrowserReports(t *testing.T) {
	t.Parallel()
	b := open(t, start(t).base)
	b.goTo("/console/jobs")
	for script, want := range map[string]string{
		// Chromium reports a handler when it would run.
		`document.body.insertAdjacentHTML("beforeend", "<p id=x onclick='window.ran=1'>"); document.getElementById("x").click()`: "Content Security Policy",
		`setTimeout(() => alert("hello"))`:                   "dialog: hello",
		`setTimeout(() => { throw new Error("a mistake") })`: "a mistake",
		`console.error("an error")`:                          "an error",
	} {
		eval[any](b, script)
		select {
		case heard := <-b.faults:
			if !strings.Contains(heard, want) {
				t.Errorf("after %s the browser reports %q", script, heard)
			}
		case <-time.After(patience):
			t.Errorf("after %s the browser reports nothing", script)
		}
	}
}
