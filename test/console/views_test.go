package console_test

import (
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

// fits fails if a page is wider than a phone or a screen.
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
	}
}

// TestEveryViewIsShown proves that every filled view appears without an alert and fits a phone and
// a screen.
func TestEveryViewIsShown(t *testing.T) {
	t.Parallel()
	d, b := startDemo(t)
	for _, v := range d.views() {
		b.goTo(v.path)
		b.until(v.name, `document.body.innerHTML.includes("`+v.text+`") && document.querySelector("h1").innerText`)
		if alert := eval[string](b, `document.querySelector("[role=alert]")?.innerText ?? ""`); alert != "" {
			t.Errorf("%s says %s", v.name, alert)
		}
		b.fits(v.name)
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
		b.fits(path)
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
		b.fits(path)
	}
	b.goTo("/console/jobs?label=team&model=film-2")
	b.shows("label")
	if got := eval[string](b, `document.querySelector("[name=label]")?.value + " " + document.querySelector("[name=model]")?.value`); got != "team film-2" {
		t.Errorf("the form has %q", got)
	}
}

// TestTenThousandJobs proves that 10,000 jobs are listed page by page and that names of the maximum
// length fit.
func TestTenThousandJobs(t *testing.T) {
	t.Parallel()
	const jobs = 10_000
	long := strings.Repeat("n", 64)
	w := start(t, func(c *config.Config) {
		c.Upstreams[long] = c.Upstreams[config.SandboxUpstream]
		c.Routes = append(c.Routes, config.NewRoute(long, config.KindVideo, long, long))
	})
	all := make([]task.Event, jobs)
	for i := range all {
		all[i] = ended(t, &genbusv1.WorkItem{
			Id: subject.JobID(subject.Video, long, string(rune('a'+i%26))+time.Duration(i).String()), Kind: "video", Tenant: long, Route: long, Model: long,
			Labels: map[string]string{long: long}, AcceptedAt: timestamppb.New(time.Now().Add(-time.Duration(i) * time.Millisecond)),
		}, long, long, long)
	}
	w.events(all...)
	letter := orphanedDeadLetter()
	letter.Tenant, letter.Upstream, letter.UpstreamKey, letter.UpstreamTaskId, letter.Error.Code, letter.Error.Message = long, long, long, long, long, long
	w.deadLetter(letter)
	b := open(t, w.base)
	b.goTo("/console/jobs?tenant=" + long)
	b.shows("10000 jobs")
	if rows := eval[int](b, `document.querySelectorAll("tbody tr").length`); rows != 50 {
		t.Errorf("%d rows", rows)
	}
	first := eval[string](b, `document.querySelector("tbody a").href`)
	b.click("a[rel=next]")
	b.until("second page", `new URL(location).searchParams.has("page_token") && document.querySelector("tbody a").href !== "`+first+`"`)
	for _, path := range []string{
		"", "/jobs", "/jobs?tenant=" + long, first[len(w.base)+len("/console"):], "/decisions", "/decisions/1", "/routes", "/upstreams", "/tenants", "/audit?operator=" + long, "/try",
	} {
		b.goTo("/console" + path)
		b.until(path, `document.querySelector("main").innerHTML.includes("`+long+`")`)
		b.fits(path)
	}
}

// ended returns the last event of a failed job whose upstream ID, status and error are text.
func ended(t *testing.T, item *genbusv1.WorkItem, upstream, key, text string) task.Event {
	t.Helper()
	v, ok := task.FromWork(item).Job.(*genbusv1.VideoTask)
	if !ok {
		t.Fatal("no video")
	}
	now := item.GetAcceptedAt().AsTime()
	e, err := task.Submitting(v, now, task.Submission{Upstream: upstream, Key: key, Until: now, Deadline: now.Add(time.Hour)})
	for _, next := range []func(*genbusv1.VideoTask) (task.Event, error){
		func(v *genbusv1.VideoTask) (task.Event, error) {
			return task.Submitted(v, now, task.Receipt{UpstreamID: text, Status: text})
		},
		func(v *genbusv1.VideoTask) (task.Event, error) {
			return task.FailedUpstream(v, now, task.Failure{Status: text, Err: &genbusv1.TaskError{Code: "upstream_failed", Message: text, UpstreamCode: text}})
		},
	} {
		if err != nil {
			t.Fatal(err)
		}
		e, err = next(e.Job.(*genbusv1.VideoTask))
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}
