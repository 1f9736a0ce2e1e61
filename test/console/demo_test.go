package console_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// demo is a service with varied content: jobs in several states, a paused route, a refused upstream
// key, dead letters and audit records.
type demo struct {
	*world
	// Paths of pages. finished and working show jobs, decision shows a dead letter.
	finished, working, decision string
}

// startDemo starts a demo and waits until its jobs have reached their states. The returned browser
// is logged in as the operator.
func startDemo(t *testing.T) (*demo, *browser) {
	t.Helper()
	const studioKey = "studio-key"
	studio := startSandbox(t, sandbox.Options{Key: studioKey})
	d := &demo{world: start(t, withOperators, withTenants("acme", "globex"), func(c *config.Config) {
		vendor := c.Upstreams[config.SandboxUpstream]
		keyed := config.NewUpstream(studio)
		keyed.Keys = []config.UpstreamKey{{Name: "main", KeyEnv: "MAIN", Key: config.NewSecret(studioKey)}, {Name: "spare", KeyEnv: "SPARE", Key: config.NewSecret("revoked")}}
		c.Upstreams = config.Upstreams{"studio": keyed, "vendor": vendor}
		film, clips, talk := config.NewRoute("film", config.KindVideo, "studio", "film-2"), config.NewRoute("clips", config.KindVideo, "vendor", "clip-1"), config.NewRoute("talk", config.KindChat, "vendor", "talk-mini")
		film.Poll.Interval, clips.Poll.Interval = 250*time.Millisecond, 250*time.Millisecond
		film.KeepRequests = true
		film.UpstreamModel, clips.UpstreamModel, talk.UpstreamModel = "sandbox-video", "sandbox-video", "sandbox-chat-fast"
		c.Routes = []config.Route{film, clips, talk}
		c.Tenants, c.OperatorsReadBodies = config.Tenants{}, true
	})}
	d.call(http.MethodPost, "/genbus/v1/operator/routes/video/clips/pause", opsKey, map[string]any{})
	d.working = d.video(request{tenant: "acme", model: "film-2", labels: "team=film,shot=13", id: "order-1013", behaviour: map[string]any{"duration_ms": 60_000}})
	d.finished = d.video(request{tenant: "acme", model: "film-2", labels: "team=film,shot=12", id: "order-1012", behaviour: map[string]any{"duration_ms": 1500}})
	d.video(request{tenant: "globex", model: "film-2", labels: "team=ads", behaviour: map[string]any{"duration_ms": 300, "fail": "the text was refused by the upstream's check", "fail_code": "50413"}})
	d.video(request{tenant: "globex", model: "film-2", behaviour: map[string]any{"drop": "after_create"}})
	for _, tenant := range []string{"acme", "acme", "globex"} {
		d.video(request{tenant: tenant, model: "clip-1"})
	}
	unwanted := d.video(request{tenant: "globex", model: "clip-1", labels: "team=ads"})
	d.call(http.MethodPost, "/genbus/v1/operator/jobs/"+idOf(unwanted)+"/cancel", opsKey, map[string]any{"kind": "video", "tenant": "globex"})
	for range 2 {
		d.video(request{tenant: "acme", model: "clip-1", labels: "team=outage"})
	}
	d.chat(request{tenant: "acme", model: "talk-mini", labels: "team=help"})
	d.chat(request{tenant: "globex", model: "talk-mini"})
	d.decision = "/console/decisions/" + strconv.FormatUint(d.deadLetter(orphanedDeadLetter()), 10)
	if _, err := d.js.Publish(t.Context(), d.enc.Names.Request(subject.Video, "acme"), []byte("{")); err != nil {
		t.Fatal(err)
	}
	b := open(t, d.base).login(opsKey)
	b.goTo("/console/jobs")
	b.until("jobs in their states", `["completed", "completed", "completed", "failed", "failed", "cancelled", "in progress", "queued", "queued", "queued"].every((s, i, all) =>
		[...document.querySelectorAll("td .tag")].filter((e) => e.innerText.replace("_", " ") === s).length >= all.filter((o) => o === s).length)`)
	d.past(t)
	b.goTo("/console/decisions")
	b.until("letters", `document.querySelectorAll("tbody tr").length === 3`)
	b.goTo("/console/bulk?do=cancel&label=team%3Doutage")
	b.leads(chromedp.Click(chromedp.CSS("main form button")))
	b.shows("2 of 2 done")
	return d, b
}

// past adds jobs of the last hour, which charts show.
func (d *demo) past(t *testing.T) {
	t.Helper()
	var all []task.Event
	for i, minutes := range []int{46, 36, 21, 21, 12, 5} {
		at := time.Now().Add(-time.Duration(minutes) * time.Minute)
		item := &genbusv1.WorkItem{
			Id: subject.JobID(subject.Video, "acme", strconv.Itoa(i)), Kind: "video", Tenant: "acme", Route: "film", Model: "film-2",
			Labels: map[string]string{"team": "film"}, AcceptedAt: timestamppb.New(at),
		}
		v, err := submitted(item, "studio", "main", "succeeded")
		if err != nil {
			t.Fatal(err)
		}
		end, err := task.Completed(v, at.Add(40*time.Second), task.Result{UpstreamStatus: "succeeded", Videos: []*genbusv1.Video{{}}})
		if i == 3 {
			end, err = task.FailedUpstream(v, at.Add(20*time.Second), failure("overloaded"))
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, task.FromWork(item), end)
	}
	d.events(all...)
}

// orphanedDeadLetter returns a dead letter of a video that the upstream accepted and no job
// follows.
func orphanedDeadLetter() *genbusv1.DeadLetter {
	id := subject.JobID(subject.Video, "acme", "order-1001")
	return &genbusv1.DeadLetter{
		Kind: string(subject.Video), Tenant: "acme", Id: id, Time: timestamppb.Now(),
		Data:     []byte(`{"model":"film-2","prompt":"a paper boat"}`),
		Error:    &genbusv1.TaskError{Code: "orphaned_submission", Message: "the upstream accepted the video after the job had ended"},
		Upstream: "studio", UpstreamKey: "main", UpstreamTaskId: "task_8841", Attempt: 1,
		Work: &genbusv1.WorkItem{Id: id, Kind: string(subject.Video), Tenant: "acme", Route: "film", Model: "film-2"},
	}
}

// views lists the demo's pages, each with a text that it contains when filled.
func (d *demo) views() []view {
	return []view{
		{"overview", "/console", "clips"},
		{"jobs", "/console/jobs", "film-2"},
		{"job", d.finished, "order-1012"},
		{"decisions", "/console/decisions", "orphaned_submission"},
		{"decision", d.decision, "task_8841"},
		{"routes", "/console/routes", "paused"},
		{"upstreams", "/console/upstreams", "refused"},
		{"tenants", "/console/tenants", "globex"},
		{"replicas", "/console/replicas", "serves"},
		{"streams", "/console/streams", "GENBUS_TASKS"},
		{"count", "/console/bulk?do=redrive", "At stake"},
		{"bodies", d.finished + "/bodies", "paper boat"},
		{"audit", "/console/audit", "paused route"},
		{"try", "/console/try", "talk-mini"},
		{"login", "/console/login", "Operator key"},
	}
}

type view struct{ name, path, text string }
