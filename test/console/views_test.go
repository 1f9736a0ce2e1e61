package console_test

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// widths are the widths of a phone and a screen in pixels.
var widths = []int64{390, 1280}

// fits fails if a page is wider than a phone or a screen, or breaks a word inside.
func (b *browser) fits(name string) {
	b.t.Helper()
	for _, width := range widths {
		b.size(width)
		if wide := eval[string](b, `(() => {
			const page = document.documentElement;
			if (page.scrollWidth <= page.clientWidth) return "";
			return [...document.body.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > page.clientWidth && !e.closest(".table, pre"))
				.map((e) => e.nodeName + "." + e.className).join(" ") + " in " + page.scrollWidth;
		})()`); wide != "" {
			b.t.Errorf("%s is wider than %d: %s", name, width, wide)
		}
		// Longer words, IDs and URLs may have to break.
		if broken := eval[string](b, `(() => {
			const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange(), broken = new Set();
			while (texts.nextNode()) {
				const text = texts.currentNode;
				if (text.parentElement.closest("pre, textarea, script") || !text.parentElement.checkVisibility()) continue;
				for (const word of text.data.matchAll(/(?<!\S)\p{L}{2,20}(?!\S)/gu)) {
					range.setStart(text, word.index);
					range.setEnd(text, word.index + word[0].length);
					if (new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1) broken.add(word[0]);
				}
			}
			return [...broken].join(" ");
		})()`); broken != "" {
			b.t.Errorf("%s breaks words at %d: %s", name, width, broken)
		}
	}
}

// looks checks a page on a phone and a screen, light and dark. With -gallery, it takes pictures.
func (b *browser) looks(name string) {
	b.t.Helper()
	b.fits(name)
	for _, width := range widths {
		for _, scheme := range []string{"dark", "light"} {
			b.size(width)
			b.scheme(scheme)
			if (width == widths[0]) == (scheme == "dark") {
				b.accessible(fmt.Sprintf("%s, %s, %d", name, scheme, width))
			}
			b.hang(name, fmt.Sprintf("-%d-%s", width, scheme))
		}
	}
}

// TestEveryViewIsShown proves that every filled view appears without an alert and fits a phone and
// a screen.
func TestEveryViewIsShown(t *testing.T) {
	t.Parallel()
	d, b := startDemo(t)
	for _, v := range append(d.views(), view{"working", d.working, "order-1013"}, view{"none", "/console/jobs?tenant=none", "No matching jobs"}) {
		b.goTo(v.path)
		b.until(v.name, `document.body.innerHTML.includes("`+v.text+`") && document.querySelector("h1").innerText`)
		if alert := eval[string](b, `document.querySelector("[role=alert]")?.innerText ?? ""`); alert != "" {
			t.Errorf("%s says %s", v.name, alert)
		}
		b.looks(v.name)
	}
}

// TestAJobIsOneLine proves that the header and each job in the list take one line, with the whole
// job ID, and that a phone shows the ID and the menu too.
func TestAJobIsOneLine(t *testing.T) {
	t.Parallel()
	d, b := startDemo(t)
	b.goTo("/console/jobs")
	b.shows("film-2")
	for _, width := range widths {
		b.size(width)
		if tall := eval[float64](b, `document.querySelector("header").offsetHeight`); tall > 50 {
			t.Errorf("the header is %v high at a width of %d", tall, width)
		}
		if cut := eval[int](b, `[...document.querySelectorAll("tbody .id")].filter((a) => a.getClientRects().length !== 1 || a.innerText !== a.href.split("/").pop() || a.getBoundingClientRect().right > innerWidth).length`); cut > 0 {
			t.Errorf("%d IDs are cut or broken at a width of %d", cut, width)
		}
		if tall := eval[float64](b, `Math.max(...[...document.querySelectorAll("tbody tr")].map((r) => r.offsetHeight))`); width == 1280 && tall > 34 {
			t.Errorf("a row is %v high", tall)
		}
	}
	b.size(widths[0])
	b.click("header .opener")
	b.leads(chromedp.Click(chromedp.CSS("nav a[href='/console/audit']"), chromedp.NodeVisible))
	b.shows("ops paused route video/clips")
	b.goTo(d.finished)
	b.until("title", `document.title === "`+idOf(d.finished)+` · genbus" && document.querySelector("h1").innerText.includes("`+idOf(d.finished)+`")`)
	if shape := eval[float64](b, `(({ width, height }) => width / height)(document.getElementById("video").getBoundingClientRect())`); shape < 1.77 || shape > 1.78 {
		t.Errorf("the video is %v times as wide as high", shape)
	}
}

// TestEveryViewIsEmpty proves that each view of a service without routes and jobs explains itself.
func TestEveryViewIsEmpty(t *testing.T) {
	t.Parallel()
	b := open(t, start(t, func(c *config.Config) { c.Upstreams, c.Routes, c.Sandbox.Enabled = nil, nil, false }).base)
	for path, text := range map[string]string{
		"":                "No route is configured",
		"/jobs":           "No jobs yet",
		"/decisions":      "Nothing needs a decision",
		"/routes":         "No route is configured",
		"/upstreams":      "No upstream is configured",
		"/tenants":        "No tenant has jobs",
		"/replicas":       "serves",
		"/streams":        "GENBUS_TASKS",
		"/bulk?do=cancel": "Nothing to do",
		"/audit":          "No matching records",
		"/try":            "No configured route",
		"/login":          "login is disabled",
	} {
		b.goTo("/console" + path)
		b.shows(text)
		b.looks(path)
	}
}

// TestEveryViewSaysWhatIsWrong proves that views report invalid parameters and keep the typed
// filter for correction.
func TestEveryViewSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := open(t, start(t).base)
	for path, text := range map[string]string{
		"/jobs?page_token=x":             "page_token",
		"/jobs?status=odd":               "status",
		"/decisions?page_token=x":        "page_token",
		"/audit?page_token=x":            "page_token",
		"/jobs/video/default/video_none": "video_none",
		"/decisions/7":                   "dead letter 7",
		"/bulk?do=odd":                   "must be cancel",
		"/nothing":                       "Page not found",
	} {
		b.goTo("/console" + path)
		b.shows(text)
		b.until("alert of "+path, `document.querySelector("[role=alert]")`)
		b.looks(path)
	}
	b.goTo("/console/jobs?label=team&model=film-2")
	b.shows("label")
	if got := eval[string](b, `document.querySelector("[name=label]")?.value + " " + document.querySelector("[name=model]")?.value`); got != "team film-2" {
		t.Errorf("the form has %q", got)
	}
}

// TestTenThousandJobs proves that 10,000 jobs are listed page by page, and that names of the maximum
// length fit.
func TestTenThousandJobs(t *testing.T) {
	t.Parallel()
	const jobs = 10_000
	long := strings.Repeat("n", 64)
	w := start(t, func(c *config.Config) {
		c.Upstreams[long] = c.Upstreams[config.SandboxUpstream]
		c.Routes = append(c.Routes, config.NewRoute(long, config.KindVideo, long, long))
	})
	all := make([]task.Event, 2*jobs) // the first and the last of each job
	for i := range jobs {
		at := time.Now().Add(-time.Duration(math.Pow(float64(i)/jobs, 1.5) * float64(55*time.Minute)))
		item := &genbusv1.WorkItem{
			Id: subject.JobID(subject.Video, long, strconv.Itoa(i)), Kind: "video", Tenant: "acme", Route: config.SandboxVideoRoute, Model: "sandbox-video",
			Labels: map[string]string{"team": "film"}, AcceptedAt: timestamppb.New(at),
		}
		upstream, key, text := config.SandboxUpstream, "main", "succeeded"
		if i%4 == 0 {
			item.Tenant, item.Route, item.Model, item.Labels = long, long, long, map[string]string{long: long}
			upstream, key, text = long, long, long
		}
		v, err := submitted(item, upstream, key, text)
		if err != nil {
			t.Fatal(err)
		}
		all[2*i] = task.FromWork(item)
		if i%16 < 4 {
			all[2*i+1], err = task.FailedUpstream(v, at, failure(text))
		} else {
			all[2*i+1], err = task.Completed(v, at, task.Result{UpstreamStatus: text, Videos: []*genbusv1.Video{{}}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w.events(all...)
	letter := orphanedDeadLetter()
	letter.Tenant, letter.Upstream, letter.UpstreamKey, letter.UpstreamTaskId, letter.Error.Code, letter.Error.Message = long, long, long, long, long, long
	w.deadLetter(letter)
	b := open(t, w.base)
	b.goTo("/console/jobs")
	b.shows("10000 jobs")
	if rows := eval[int](b, `document.querySelectorAll("tbody tr").length`); rows != 50 {
		t.Errorf("%d rows", rows)
	}
	first := eval[string](b, `document.querySelector("tbody a").href`)
	b.click("a[rel=next]")
	b.until("second page", `new URL(location).searchParams.has("page_token") && document.querySelector("tbody a").href !== "`+first+`"`)
	for _, path := range []string{
		"", "/jobs", "/jobs?tenant=" + long, jobPath("video", long, all[0].Job.GetId())[len("/console"):], "/decisions", "/decisions/1", "/routes", "/upstreams", "/tenants", "/audit?operator=" + long, "/try",
	} {
		b.goTo("/console" + path)
		b.until(path, `document.querySelector("main").innerHTML.includes("`+long+`")`)
		b.looks(path)
	}
}

// ended returns the last event of a failed job whose upstream ID, status and error are text.
func ended(t *testing.T, item *genbusv1.WorkItem, upstream, key, text string) task.Event {
	t.Helper()
	v, err := submitted(item, upstream, key, text)
	if err != nil {
		t.Fatal(err)
	}
	e, err := task.FailedUpstream(v, item.GetAcceptedAt().AsTime(), failure(text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func failure(text string) task.Failure {
	return task.Failure{Status: text, Err: &genbusv1.TaskError{Code: "upstream_failed", Message: text, UpstreamCode: text}}
}

// submitted returns a video that its upstream accepted as text.
func submitted(item *genbusv1.WorkItem, upstream, key, text string) (*genbusv1.VideoTask, error) {
	v, ok := task.FromWork(item).Job.(*genbusv1.VideoTask)
	if !ok {
		return nil, errors.New("no video")
	}
	now := item.GetAcceptedAt().AsTime()
	e, err := task.Submitting(v, now, task.Submission{Upstream: upstream, Key: key, Until: now, Deadline: now.Add(time.Hour)})
	if err != nil {
		return nil, err
	}
	e, err = task.Submitted(e.Job.(*genbusv1.VideoTask), now, task.Receipt{UpstreamID: text, Status: text})
	if err != nil {
		return nil, err
	}
	return e.Job.(*genbusv1.VideoTask), nil
}
