package console_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

var hidden = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`)

// formOf returns the hidden fields of a page's form.
func formOf(body string) url.Values {
	form := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(body, -1) {
		form.Add(m[1], html.UnescapeString(m[2]))
	}
	return form
}

// TestABulkActionIsCountedAndRun checks that a bulk action affects exactly the jobs that the list
// showed.
func TestABulkActionIsCountedAndRun(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.TwoTenants, withOperators)
	w.Durables()
	acme, globex := w.CreateVideo(apitest.ByAcme...), w.CreateVideo(apitest.ByGlobex...)
	ops, viewer := newBrowser(w).login(apitest.OperatorKey), newBrowser(w).login(viewerKey)
	w.Await("the index has both jobs", func() bool { return strings.Contains(ops.get("/console/jobs").body, "<strong>2</strong>") })
	link := regexp.MustCompile(`href="(/console/bulk[^"]*)"`).FindStringSubmatch(ops.get("/console/jobs?tenant=acme&page_token=").body)
	if link == nil {
		t.Fatal("the list offers no bulk action")
	}
	if strings.Contains(viewer.get("/console/jobs?tenant=acme").body, "/console/bulk") {
		t.Error("the list offers one who only reads a bulk action")
	}
	page := ops.get(strings.ReplaceAll(link[1], "&amp;", "&"))
	if page.status != http.StatusOK || !strings.Contains(page.body, "<strong>1</strong> unfinished job will be cancelled") {
		t.Fatalf("the count: %d %s", page.status, page.body)
	}
	form := formOf(page.body)
	if a := viewer.post("/console/bulk", form); a.status != http.StatusForbidden {
		t.Errorf("run by one who only reads: %d", a.status)
	}
	later := w.CreateVideo(apitest.ByAcme...)
	if a := ops.post("/console/bulk", form); a.status != http.StatusOK || !strings.Contains(a.body, "1 of 1 done: 1 changed, 0 failed") || !strings.Contains(a.body, "The action has ended.") || !strings.HasSuffix(strings.TrimSpace(a.body), "</html>") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := ops.post("/console/bulk", form); a.status != http.StatusOK || !strings.Contains(a.body, "0 of 0 done") {
		t.Errorf("once more: %d %s", a.status, a.body)
	}
	for _, j := range []struct {
		tenant, id string
		want       genbusv1.JobStatus
	}{
		{"acme", acme, genbusv1.JobStatus_JOB_STATUS_CANCELLED}, {"acme", later, genbusv1.JobStatus_JOB_STATUS_QUEUED}, {"globex", globex, genbusv1.JobStatus_JOB_STATUS_QUEUED},
	} {
		if got := w.Entry(subject.Video, j.tenant, j.id).Job.GetStatus(); got != j.want {
			t.Errorf("job %s of %s is %v", j.id, j.tenant, got)
		}
	}
	if a := ops.get("/console/audit"); !strings.Contains(plain(a.body), "ops cancelled 1 of 1 job") || !strings.Contains(plain(a.body), "ops cancelled 0 of 0 jobs") {
		t.Errorf("the audit: %s", a.body)
	}
}

// TestABulkActionHasAllFilters checks that a bulk action takes over all filters of the list,
// including several labels.
func TestABulkActionHasAllFilters(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	w.Durables()
	w.CreateVideo("Genbus-Labels", "team=red,env=test")
	other := w.CreateVideo("Genbus-Labels", "team=red,env=prod")
	b := newBrowser(w)
	w.Await("the index has both jobs", func() bool { return strings.Contains(b.get("/console/jobs").body, "<strong>2</strong>") })
	page := b.get("/console/bulk?do=cancel&label=team%3Dred&label=env%3Dtest")
	if !strings.Contains(page.body, "<strong>1</strong>") {
		t.Fatalf("the count: %s", page.body)
	}
	if a := b.post("/console/bulk", formOf(page.body)); !strings.Contains(a.body, "1 of 1 done: 1 changed") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if got := w.Entry(subject.Video, "default", other).Job.GetStatus(); got != genbusv1.JobStatus_JOB_STATUS_QUEUED {
		t.Errorf("a job with another label is %v", got)
	}
}

// TestABulkActionOnAll checks that an action without a filter needs a confirmation.
func TestABulkActionOnAll(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	w.PutDeadLetter(apitest.OrphanedDeadLetter("acme"))
	w.PutDeadLetter(apitest.OrphanedDeadLetter("globex"))
	b := newBrowser(w)
	page := b.get("/console/bulk?do=drop")
	if !strings.Contains(page.body, `name="everything" value="yes" required`) || !strings.Contains(page.body, "<strong>2</strong>") {
		t.Fatalf("%d %s", page.status, page.body)
	}
	form := formOf(page.body)
	if a := b.post("/console/bulk", form); a.status != http.StatusBadRequest || !strings.Contains(a.body, "everything") {
		t.Errorf("without a word that it is everything: %d %s", a.status, a.body)
	}
	form.Set("everything", "yes")
	if a := b.post("/console/bulk", form); a.status != http.StatusOK || !strings.Contains(a.body, "2 of 2 done: 2 changed") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := b.get("/console/decisions"); !strings.Contains(a.body, "Nothing needs a decision") {
		t.Errorf("dead letters are left: %s", a.body)
	}
	if a := b.get("/console/bulk?do=odd"); !strings.Contains(a.body, "do: must be") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestAListIsCountedFirst checks that a count names the missing dead letters of a list, and the run
// attaches the others.
func TestAListIsCountedFirst(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	seq := w.PutDeadLetter(apitest.OrphanedDeadLetter("acme"))
	b := newBrowser(w)
	if page := b.get("/console/bulk?do=attach"); !strings.Contains(page.body, `<textarea id="tasks"`) {
		t.Fatalf("%d %s", page.status, page.body)
	}
	if a := b.post("/console/bulk", url.Values{"do": {"attach"}, "tasks": {"17 up_1\nseventeen"}}); a.status != http.StatusBadRequest || !strings.Contains(a.body, "line 2") {
		t.Errorf("a list that cannot be read: %d %s", a.status, a.body)
	}
	list := fmt.Sprintf("%d task_1\n%d task_2", seq, seq+7)
	page := b.post("/console/bulk", url.Values{"do": {"attach"}, "tasks": {list}})
	if page.status != http.StatusOK || !strings.Contains(page.body, fmt.Sprintf("Dead letter %d</a> <code>letter_not_found", seq+7)) {
		t.Fatalf("%d %s", page.status, page.body)
	}
	form := formOf(page.body)
	form.Set("tasks", list)
	if a := b.post("/console/bulk", form); a.status != http.StatusOK || !strings.Contains(a.body, "2 of 2 done: 1 changed, 1 failed") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestAStoppedRunOffersToContinue checks that the page of a stopped run offers its token and list.
func TestAStoppedRunOffersToContinue(t *testing.T) {
	t.Parallel()
	silent, reached, release := apitest.SilentUpstream(t)
	w := apitest.New(t, silent)
	var list strings.Builder
	for _, task := range w.LostTasks(3) {
		fmt.Fprintln(&list, task.GetSequence())
	}
	b := newBrowser(w)
	form := formOf(b.post("/console/bulk", url.Values{"do": {"attach"}, "tasks": {list.String()}}).body)
	form.Set("tasks", list.String())
	answers := make(chan answer)
	go func() { answers <- b.post("/console/bulk", form) }()
	for range 3 {
		<-reached
	}
	w.Drain(nil)
	release()
	a := <-answers
	_, stopped, _ := strings.Cut(a.body, "The action stopped")
	if again := formOf(stopped); again.Get("token") == "" || again.Get("token") != form.Get("token") || !strings.Contains(stopped, list.String()) || !strings.Contains(stopped, ">Continue</button>") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if !strings.Contains(a.body, "<code>"+form.Get("token")+"</code>") {
		t.Error("the page does not tell its token before the end")
	}
}

// ended returns the id of an ended job of the default tenant, which can be retried.
func ended(w *apitest.World) string {
	w.T.Helper()
	id := w.CreateVideo()
	w.LetGo(w.EndVideo(w.StartVideo("default", id)))
	return id
}

func keepRequests(c *config.Config) {
	for i := range c.Routes {
		c.Routes[i].KeepRequests = true
	}
}

// TestSubmitAgain checks that repeating the retry form makes one job, and an edited request another
// one.
func TestSubmitAgain(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, func(c *config.Config) { c.OperatorsReadBodies = true }, keepRequests)
	w.Durables()
	b := newBrowser(w)
	job := "/console/jobs/video/default/" + ended(w)
	if a := b.get(job); !strings.Contains(a.body, job+"/retry") || !strings.Contains(a.body, job+"/bodies") {
		t.Fatalf("the job offers no retry: %s", a.body)
	}
	first, second := b.post(job+"/retry", nil), b.post(job+"/retry", nil)
	if first.status != http.StatusSeeOther || first.location != second.location || strings.HasPrefix(first.location, job) {
		t.Fatalf("%d to %q %s, and then to %q", first.status, first.location, first.body, second.location)
	}
	if a := b.get(first.location); !strings.Contains(a.body, "<dt>Retry of</dt>") {
		t.Errorf("the new job: %s", a.body)
	}
	page := b.get(job + "/bodies")
	if page.status != http.StatusOK || !strings.Contains(page.body, "a cat") {
		t.Fatalf("its request: %d %s", page.status, page.body)
	}
	edited := b.post(job+"/retry", url.Values{"request": {`{"model":"sandbox-video","prompt":"a dog"}`}, "idempotency_key": {"edited"}})
	if edited.status != http.StatusSeeOther || edited.location == first.location {
		t.Errorf("edited: %d to %q %s", edited.status, edited.location, edited.body)
	}
	if a := b.post(job+"/retry", url.Values{"request": {`{"model":`}, "idempotency_key": {"odd"}}); a.status != http.StatusBadRequest {
		t.Errorf("what is no JSON: %d %s", a.status, a.body)
	}
	audit := plain(b.get("/console/audit").body)
	for text, n := range map[string]int{"local read the request of ": 1, " of default as video_": 2, " with an edited request": 2} {
		if strings.Count(audit, text) != n {
			t.Errorf("%q is not recorded %d times: %s", text, n, audit)
		}
	}
}

// TestAVideoIsShown checks that a video is served in parts, if operators may read bodies.
func TestAVideoIsShown(t *testing.T) {
	t.Parallel()
	for may, status := range map[bool]int{true: http.StatusPartialContent, false: http.StatusForbidden} {
		host := apitest.NewHost(t, apitest.ServeFilm)
		w := apitest.New(t, apitest.UpstreamAt(host), withOperators, func(c *config.Config) { c.OperatorsReadBodies = may })
		id := w.Completed(&genbusv1.Video{Url: host.URL + "/1.mp4", Format: "mp4"})
		path := "/console/jobs/video/default/" + id + "/content"
		if a := newBrowser(w).get(path); a.status != http.StatusSeeOther {
			t.Errorf("without a login: %d", a.status)
		}
		a := newBrowser(w).login(viewerKey).get(path, "Range", "bytes=0-3")
		if a.status != status || may && (a.body != string(apitest.Film[:4]) || a.header.Get("Content-Security-Policy") == "") {
			t.Errorf("%t: %d %q %v", may, a.status, a.body, a.header)
		}
	}
}

// TestAChatIsShown checks that a chat is shown as it streams, if operators may read bodies.
func TestAChatIsShown(t *testing.T) {
	t.Parallel()
	for _, may := range []bool{true, false} {
		w := apitest.New(t, func(c *config.Config) { c.OperatorsReadBodies = may })
		id := w.SubmitChat("")
		path := "/console/jobs/chat/default/" + id
		b := newBrowser(w)
		if a := b.get(path); strings.Contains(a.body, path+"/events") != may {
			t.Errorf("%t: the page %s", may, a.body)
		}
		if !may {
			if a := b.get(path+"/events", "Accept", "text/event-stream"); a.status != http.StatusForbidden {
				t.Errorf("%d %s", a.status, a.body)
			}
			continue
		}
		s := b.open(path + "/events")
		e := w.StartChat("default", id)
		w.Chunk(e, 0, apitest.Block("hello"))
		w.EndChat(e, `{"choices":[]}`, 1)
		var names []string
		for _, e := range s.Rest() {
			names = append(names, e.Name)
		}
		if want := []string{"genbus.chat.queued.v1", "genbus.chat.in_progress.v1", "genbus.chat.chunk.v1", "genbus.chat.completed.v1"}; !slices.Equal(names, want) {
			t.Errorf("%q", names)
		}
		b.open(path + "/events").Rest()
		if audit := plain(b.get("/console/audit").body); strings.Count(audit, "read the request and reply of") != 1 {
			t.Errorf("two looks within ten minutes are not recorded once: %s", audit)
		}
	}
}

// TestAConversationIsShown checks that a chat's messages, reasoning and tool calls are shown as
// text, and that its request can be edited only when it has ended.
func TestAConversationIsShown(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, func(c *config.Config) { c.OperatorsReadBodies = true }, keepRequests)
	id := w.SubmitChat("")
	path := "/console/jobs/chat/default/" + id + "/bodies"
	b := newBrowser(w)
	if a := b.get(path); strings.Contains(a.body, `id="edit"`) || !strings.Contains(a.body, `<li class="user">`) || !strings.Contains(a.body, "<title>"+id+" ") {
		t.Errorf("before its end: %s", a.body)
	}
	w.EndChat(w.StartChat("default", id), `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"<b>four</b>","reasoning_content":"2+2","tool_calls":[{"id":"c1","type":"function","function":{"name":"add","arguments":"{\"a\":2}"}}]}}]}`, 0)
	a := b.get(path)
	for _, want := range []string{`<li class="assistant">`, `<div class="text">&lt;b&gt;four&lt;/b&gt;</div>`, `>2&#43;2</div>`, `calls <code>add</code> as <code>c1</code>`, `{&#34;a&#34;:2}</pre>`, `id="edit"`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("no %s in %s", want, a.body)
		}
	}
}

// TestRequestsArePrivate checks that requests are hidden by default.
func TestRequestsArePrivate(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	w.Durables()
	b := newBrowser(w)
	job := "/console/jobs/video/default/" + ended(w)
	if a := b.get(job); strings.Contains(a.body, "/bodies") || strings.Contains(a.body, "a cat") {
		t.Errorf("the job shows it: %s", a.body)
	}
	if a := b.get(job + "/bodies"); a.status != http.StatusForbidden || strings.Contains(a.body, "a cat") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestOverviewWithMissingParts checks that the overview names missing parts and shows the others.
func TestOverviewWithMissingParts(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	w.Durables()
	for _, err := range []error{
		w.Broker.JetStream().DeleteStream(t.Context(), w.Broker.Names().Dead()),
		w.Broker.JetStream().DeleteConsumer(t.Context(), w.Broker.Names().Work(), subject.WorkDurable(subject.Video, config.SandboxVideoRoute)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	b := newBrowser(w)
	for path, want := range map[string][]string{
		"/console":        {"Not available: dead_letters.", " streams.</p></section>", "<strong>–</strong> unknown outcomes", config.SandboxVideoRoute + `</a> <span class="tag bad">incomplete</span>`},
		"/console/routes": {`<span class="tag bad">incomplete</span>`},
	} {
		page := b.get(path)
		for _, part := range want {
			if !strings.Contains(page.body, part) {
				t.Errorf("%s has no %q: %d %s", path, part, page.status, page.body)
			}
		}
	}
}

// TestOverview checks that the overview shows whatever needs an operator.
func TestOverview(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	w.Durables()
	l := apitest.OrphanedDeadLetter("acme")
	l.Error.Code = "submission_outcome_unknown"
	w.PutDeadLetter(l)
	ended(w)
	b := newBrowser(w)
	if a := b.post("/console/routes/video/sandbox-video/pause", nil); a.status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.status, a.body)
	}
	s := b.open("/console")
	until(t, s, `<strong>1</strong> unknown outcome</a>`, `Last hour: 1 accepted, `, ` 1 completed or cancelled, 0 failed`, `<strong>route paused</strong>: <a href="/console/routes">video route sandbox-video</a>, <time `, `<code>genbus operator resume video sandbox-video</code>`,
		`<a href="/console/decisions?code=submission_outcome_unknown">failed jobs</a>`)
	w.Drain(nil)
	s.Rest()
}
