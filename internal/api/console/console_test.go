package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// pages are all views without path parameters.
var pages = []string{"", "/jobs", "/decisions", "/routes", "/upstreams", "/tenants", "/replicas", "/streams", "/audit", "/try"}

// TestNoLoginOnThisMachine checks that without an operator key the console is open to this machine,
// and closed to requests that only seem to come from it.
func TestNoLoginOnThisMachine(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	w.Durables()
	b := newBrowser(w)
	for _, path := range pages {
		a := b.get("/console" + path)
		if a.status != http.StatusOK || !strings.Contains(a.body, "<h1>") || strings.Contains(a.body, `id="error"`) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	for name, headers := range map[string][]string{
		"another name":            {"Host", "attacker.example:8080"},
		"a name like an address":  {"Host", "127.0.0.1.attacker.example"},
		"by a proxy":              {"X-Forwarded-For", "203.0.113.9"},
		"by a proxy that says so": {"Forwarded", "for=203.0.113.9"},
		"with an empty line":      {"X-Forwarded-For", ""},
	} {
		if a := b.get("/console/jobs", headers...); a.status != http.StatusSeeOther || a.location != "/console/login?next=%2Fconsole%2Fjobs" {
			t.Errorf("%s: %d to %q", name, a.status, a.location)
		}
		if a := b.get("/console/login", headers...); a.status != http.StatusForbidden || !strings.Contains(a.body, "GENBUS_OPERATOR_KEY") {
			t.Errorf("%s: the login does not say what is missing: %d %s", name, a.status, a.body)
		}
		if a := b.post("/console/login", url.Values{"key": {""}}, headers...); a.status != http.StatusForbidden || b.cookie != "" {
			t.Errorf("%s: logged in without a key: %d", name, a.status)
		}
		if a := b.get("/", headers...); a.status != http.StatusNotFound {
			t.Errorf("%s: / leads to %q", name, a.location)
		}
	}
}

// TestTenantsKeysCloseIt checks that the console needs an operator key once tenant keys are
// configured.
func TestTenantsKeysCloseIt(t *testing.T) {
	t.Parallel()
	b := newBrowser(apitest.New(t, apitest.TwoTenants))
	if a := b.get("/console/jobs"); a.status != http.StatusSeeOther {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := b.post("/console/routes/video/sandbox-video/pause", nil); a.status == http.StatusSeeOther {
		t.Errorf("a route was paused: %d", a.status)
	}
	if a := b.get("/"); a.status != http.StatusNotFound {
		t.Errorf("/ leads to %q", a.location)
	}
}

// TestTheRoot checks that / redirects browsers to the console and is not found for programs.
func TestTheRoot(t *testing.T) {
	t.Parallel()
	b := newBrowser(apitest.New(t, withOperators))
	if a := b.get("/"); a.status != http.StatusFound || a.location != "/console" {
		t.Errorf("a browser: %d to %q", a.status, a.location)
	}
	if a := b.get("/", "Accept", "*/*"); a.status != http.StatusNotFound || !strings.Contains(a.body, `"not_found"`) {
		t.Errorf("a program: %d %s", a.status, a.body)
	}
}

// TestLogin checks that only an operator key logs in.
func TestLogin(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.TwoTenants, withOperators)
	w.Durables()
	b := newBrowser(w)
	for _, path := range append(pages, "/jobs/video/acme/video_x", "/find?q=video_x", "/decisions/1") {
		if a := b.get("/console" + path); a.status != http.StatusSeeOther || !strings.HasPrefix(a.location, "/console/login") {
			t.Errorf("%s without a login: %d to %q", path, a.status, a.location)
		}
	}
	for _, key := range []string{"", "nobody", "key-acme", apitest.LocalKey} {
		a := b.post("/console/login", url.Values{"key": {key}})
		if a.status != http.StatusUnauthorized || b.cookie != "" || strings.Contains(a.body, "value=\""+key) && key != "" {
			t.Errorf("key %q: %d, cookie %q", key, a.status, b.cookie)
		}
	}
	for next, want := range map[string]string{
		"/console/jobs?status=failed": "/console/jobs?status=failed", "": "/console", "https://attacker.example/console": "/console",
		"//attacker.example/console": "/console", "/consoles": "/console", `/console\@attacker.example`: "/console",
	} {
		if a := b.post("/console/login", url.Values{"key": {apitest.OperatorKey}, "next": {next}}); a.location != want {
			t.Errorf("next %q leads to %q", next, a.location)
		}
	}
	a := b.post("/console/login", url.Values{"key": {apitest.OperatorKey}})
	cookie := a.header.Get("Set-Cookie")
	for _, want := range []string{"; HttpOnly", "; SameSite=Strict", "; Path=/console", "; Expires="} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie has no %q: %s", want, cookie)
		}
	}
	if strings.Contains(cookie, apitest.OperatorKey) {
		t.Error("the cookie shows the key")
	}
	for _, path := range pages {
		if a := b.get("/console" + path); a.status != http.StatusOK || !strings.Contains(a.body, "<span>ops</span>") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	whole := b.cookie
	b.cookie = whole[:len(whole)-2]
	if a := b.get("/console/jobs"); a.status != http.StatusSeeOther {
		t.Errorf("a cookie that was changed: %d", a.status)
	}
	b.cookie = whole
	if a := b.post("/console/logout", nil); a.location != "/console/login" || b.cookie != "" {
		t.Errorf("logout: %d to %q, cookie %q", a.status, a.location, b.cookie)
	}
}

// TestALinkOfAnotherSite checks that a cross-site link, which comes without the cookie, makes the
// console repeat the request.
func TestALinkOfAnotherSite(t *testing.T) {
	t.Parallel()
	b := newBrowser(apitest.New(t, withOperators))
	a := b.get("/console/jobs?status=failed&tenant=a%22b", "Sec-Fetch-Site", "cross-site")
	if a.status != http.StatusOK || !strings.Contains(a.body, `http-equiv="refresh"`) || !strings.Contains(a.body, `href="/console/jobs?status=failed&amp;tenant=a%22b"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := b.get("/console/jobs", "Sec-Fetch-Site", "same-origin"); a.status != http.StatusSeeOther {
		t.Errorf("the second time: %d", a.status)
	}
}

// TestOtherSitesDoNothing checks that forms of other sites have no effect, and that no answer may
// be framed or load foreign content.
func TestOtherSitesDoNothing(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	id := w.CreateVideo()
	b := newBrowser(w)
	path := "/console/jobs/video/default/" + id + "/cancel"
	for name, headers := range map[string][]string{
		"another site":             {"Sec-Fetch-Site", "cross-site", "Origin", "https://attacker.example"},
		"another site, old client": {"Sec-Fetch-Site", "", "Origin", "https://attacker.example"},
		"another port":             {"Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:1"},
	} {
		if a := b.post(path, nil, headers...); a.status != http.StatusForbidden {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if s := w.Entry(subject.Video, "default", id).Job.GetStatus(); s != genbusv1.JobStatus_JOB_STATUS_QUEUED {
		t.Errorf("the job is %v", s)
	}
	for _, path := range append(pages, "/login", "/nothing", "/static/console.js", "/static/nothing") {
		a := b.get("/console" + path)
		for header, want := range map[string]string{"Content-Security-Policy": "default-src 'none'; script-src 'self'", "X-Content-Type-Options": "nosniff", "Cross-Origin-Opener-Policy": "same-origin"} {
			if !strings.HasPrefix(a.header.Get(header), want) {
				t.Errorf("%s: %s is %q", path, header, a.header.Get(header))
			}
		}
		if strings.Contains(a.body, " style=") || strings.Contains(a.body, "<style") || strings.Contains(a.body, "onclick") {
			t.Errorf("%s has what its policy forbids", path)
		}
	}
}

// TestActions checks that repeated actions take effect once, only for operators with rights, and
// are recorded.
func TestActions(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.TwoTenants, withOperators)
	w.Durables()
	id := w.CreateVideo(apitest.ByAcme...)
	waiting := w.CreateVideo(apitest.ByAcme...)
	letters := []uint64{w.PutDeadLetter(apitest.OrphanedDeadLetter("acme")), w.PutDeadLetter(apitest.OrphanedDeadLetter("globex")), w.PutDeadLetter(apitest.OrphanedDeadLetter("initech"))}
	letter := func(i int) string { return "/console/decisions/" + strconv.FormatUint(letters[i], 10) }
	job := "/console/jobs/video/acme/" + id
	viewer, ops := newBrowser(w).login(viewerKey), newBrowser(w).login(apitest.OperatorKey)
	for _, path := range []string{job, letter(0), "/console/routes"} {
		if a := viewer.get(path); a.status != http.StatusOK || strings.Contains(a.body, `action="`+path) {
			t.Errorf("%s offers one who only reads an action: %d", path, a.status)
		}
		if a := ops.get(path); a.status != http.StatusOK || !strings.Contains(a.body, `method="post" action="`+path) {
			t.Errorf("%s offers no action: %d %s", path, a.status, a.body)
		}
	}
	for _, s := range []struct {
		path string
		form url.Values
		next string
	}{
		{job + "/cancel", nil, job + "?done=cancelled"},
		{letter(0) + "/drop", nil, "/console/decisions?done=dropped"},
		{letter(1) + "/redrive", nil, "?done=redriven"},
		{letter(2) + "/attach", url.Values{"upstream_task_id": {" up_9 "}}, "?done=attached"},
		{"/console/routes/video/sandbox-video/pause", url.Values{"reason": {" <repair> "}, "minutes": {"120"}}, "/console/routes?done=paused"},
		{"/console/routes/video/sandbox-video/resume", nil, "/console/routes?done=resumed"},
		{job + "/erase", nil, "/console/jobs?done=erased"},
	} {
		if a := viewer.post(s.path, s.form); a.status != http.StatusForbidden || !strings.Contains(a.body, "is read-only, so nothing was changed") {
			t.Errorf("%s by one who only reads: %d %s", s.path, a.status, a.body)
		}
		a := ops.post(s.path, s.form)
		if a.status != http.StatusSeeOther || !strings.HasSuffix(a.location, s.next) {
			t.Fatalf("%s: %d to %q %s", s.path, a.status, a.location, a.body)
		}
		if a := ops.get(a.location); a.status != http.StatusOK || !strings.Contains(a.body, `class="done"`) {
			t.Errorf("after %s: %d %s", s.path, a.status, a.body)
		}
		if strings.HasSuffix(s.path, "/pause") {
			shown := regexp.MustCompile(` for <time [^>]*>[^<]*</time> by ops, ends <time [^>]*>[^<]*</time> \(<bdi>&lt;repair&gt;</bdi>\)| Paused by ops until \S+: &lt;repair&gt;\.`)
			for _, path := range []string{"", "/routes", "/jobs/video/acme/" + waiting} {
				w.Await("the pause on page "+path, func() bool { return shown.MatchString(ops.get("/console" + path).body) })
			}
		}
		if a := ops.post(s.path, s.form); a.status != http.StatusSeeOther && !strings.Contains(a.body, `id="error"`) {
			t.Errorf("%s once more: %d %s", s.path, a.status, a.body)
		}
	}
	page := ops.get("/console/audit").body
	for _, action := range []string{
		"ops cancelled " + id + " of acme", fmt.Sprint("ops dropped dead letter ", letters[0]), fmt.Sprintf("ops submitted dead letter %d again as video_", letters[1]),
		fmt.Sprintf("ops attached upstream task up_9 of dead letter %d as video_", letters[2]), "ops paused route video/sandbox-video until ", " UTC: <repair>",
		"ops resumed route video/sandbox-video", "ops erased " + id + " of acme", "ops tried to erase " + id + " of acme",
	} {
		if !strings.Contains(plain(page), action) {
			t.Errorf("%q is not recorded", action)
		}
	}
	for _, link := range []string{job, letter(1), "/console/routes"} {
		if !strings.Contains(page, `<a href="`+link+`">`) {
			t.Errorf("the audit has no link to %s", link)
		}
	}
	if strings.Contains(plain(page), "read the request in") {
		t.Error("a look at a dead letter without its request is recorded")
	}
}

// TestErrorsAreShown checks that errors have the same status as in the API.
func TestErrorsAreShown(t *testing.T) {
	t.Parallel()
	b := newBrowser(apitest.New(t))
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/jobs?status=odd":                   {http.StatusBadRequest, "status"},
		"/jobs?created_after=yesterday":      {http.StatusBadRequest, "must be a time"},
		"/jobs?page_token=x":                 {http.StatusBadRequest, "page_token"},
		"/jobs/video/default/video_none":     {http.StatusNotFound, "video_none"},
		"/decisions/7":                       {http.StatusNotFound, "dead letter 7"},
		"/decisions/seven":                   {http.StatusNotFound, "seven"},
		"/audit?page_token=x":                {http.StatusBadRequest, "page_token"},
		"/jobs/video/default/video_none/odd": {http.StatusNotFound, "Page not found"},
		"/nothing":                           {http.StatusNotFound, "Page not found"},
		"/static/../console.go":              {http.StatusTemporaryRedirect, ""},
	} {
		if a := b.get("/console" + path); a.status != want.status || !strings.Contains(a.body, want.text) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := b.post("/console/decisions/7/redrive", nil); a.status != http.StatusNotFound || !strings.Contains(a.body, string(errcode.DeadLetterNotFound)) {
		t.Errorf("a dead letter that is gone: %d %s", a.status, a.body)
	}
	if a := b.post("/console/decisions/7/redrive", url.Values{"x": {strings.Repeat("x", 2<<20)}}); a.status != http.StatusBadRequest {
		t.Errorf("a form of two megabytes: %d", a.status)
	}
}

// TestFind checks that any id of a job leads to its page.
func TestFind(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	id := w.CreateVideo("Idempotency-Key", "order-7")
	w.StartVideo("default", id)
	b := newBrowser(w)
	for _, q := range []string{id, "up_1", "order-7&tenant=default"} {
		w.Await("the index has "+q, func() bool {
			return b.get("/console/find?q="+q).location == "/console/jobs/video/default/"+id
		})
	}
	if a := b.get("/console/find?q=a%26b"); a.location != "/console/jobs?id=a%26b&tenant=" {
		t.Errorf("an unknown id leads to %q", a.location)
	}
}

// TestAJobShowsItsHolder checks that a job's page shows its holder and failing polls.
func TestAJobShowsItsHolder(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	id := w.CreateVideo()
	w.StartVideo("default", id)
	b := newBrowser(w)
	if page := b.get("/console/jobs/video/default/" + id).body; strings.Contains(page, "<dt>Polls</dt>") || strings.Contains(page, "is gone") || !strings.Contains(page, "replica "+w.Log.Writer()) {
		t.Errorf("a job without trouble is shown as\n%s", page)
	}
	w.HeldJob = &genbusv1.HeldJob{PollsFailed: 3, LastPollError: `status 503, code "busy"`, LastPollErrorAt: timestamppb.Now()}
	if page := b.get("/console/jobs/video/default/" + id).body; !strings.Contains(page, "The last 3 failed, the last one ") || !strings.Contains(page, "status 503, code &#34;busy&#34;") {
		t.Errorf("a job with failing polls is shown as\n%s", page)
	}
	w.HeldJob = &genbusv1.HeldJob{CallsFailed: 1, LastCallError: "it was not reached", LastCallErrorAt: timestamppb.Now()}
	if page := b.get("/console/jobs/video/default/" + id).body; !strings.Contains(page, "<dt>Calls</dt>") || !strings.Contains(page, "it was not reached") || strings.Contains(page, "<dt>Polls</dt>") {
		t.Errorf("a job with failing calls is shown as\n%s", page)
	}
}

// TestOnlyVideosShowProgress checks that the events of a chat, which has no progress, do not show any.
func TestOnlyVideosShowProgress(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	video, chat := w.CreateVideo(), w.SubmitChat("")
	b := newBrowser(w)
	for path, want := range map[string]bool{"video/default/" + video: true, "chat/default/" + chat: false} {
		a := b.get("/console/jobs/" + path)
		if !strings.Contains(a.body, "Events, oldest first") || strings.Contains(a.body, "Progress</th>") != want || strings.Contains(a.body, "0 %") != want {
			t.Errorf("%s: progress is %t in\n%s", path, !want, a.body)
		}
	}
}

// hostile would run a script, break out of an attribute or leave a template if it were not escaped.
const hostile = `"><script>alert(1)</script>{{.}}'` + "`${1}" + `<img src=x onerror=alert(1)>`

// TestHostileTexts checks that texts from callers and upstreams are escaped.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	w.Durables()
	id := w.CreateVideo("Genbus-Labels", "team="+url.QueryEscape(hostile), "Idempotency-Key", "k<b>")
	e := w.StartChat("default", w.SubmitChat(""))
	w.FailChat(e, &genbusv1.TaskError{Code: "upstream_refused", Message: hostile, UpstreamCode: hostile})
	l := apitest.OrphanedDeadLetter("acme")
	l.Error.Message, l.UpstreamTaskId, l.Id, l.Tenant, l.Subject = hostile, hostile, hostile, "acme", hostile
	seq := w.PutDeadLetter(l)
	b := newBrowser(w)
	w.Await("the index has both jobs", func() bool { return strings.Contains(b.get("/console/jobs").body, "<strong>2</strong>") })
	for _, path := range []string{
		"", "/jobs", "/jobs/video/default/" + id, "/jobs/chat/default/" + e.Job.GetId(), "/decisions", "/decisions/" + strconv.FormatUint(seq, 10),
		"/jobs?tenant=" + url.QueryEscape(hostile), "/jobs?id=" + url.QueryEscape(hostile), "/audit?operator=" + url.QueryEscape(hostile),
		"/jobs?label=" + url.QueryEscape(hostile), "/login?next=" + url.QueryEscape("/console?"+hostile), "/" + url.PathEscape(hostile), "/decisions/" + url.PathEscape(hostile),
		"/jobs?done=" + url.QueryEscape(hostile), "/find?q=" + url.QueryEscape(hostile),
	} {
		a := b.get("/console" + path)
		if strings.Contains(a.body, "<script>") || strings.Contains(a.body, "<img") || strings.Contains(a.body, "ZgotmplZ") {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	if a := b.get("/console/jobs/chat/default/" + e.Job.GetId()); !strings.Contains(a.body, "&lt;script&gt;alert(1)&lt;/script&gt;{{.}}") {
		t.Errorf("the text is not shown: %s", a.body)
	}
}

// TestTabsCount checks that the tabs of the job list count the jobs of each status and keep the
// other filters.
func TestTabsCount(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	w.Durables()
	ended(w)
	w.StartVideo("default", w.CreateVideo())
	w.CreateVideo()
	b := newBrowser(w)
	tabs := func(query string) string {
		body := b.get("/console/jobs" + query).body
		_, body, _ = strings.Cut(body, `<nav class="tabs"`)
		body, _, _ = strings.Cut(body, "</nav>")
		return body
	}
	const want = `>All 3Unfinished 2Queued 1In progress 1Completed 1Failed 0Cancelled 0`
	w.Await("counts", func() bool { return strings.HasSuffix(plain(tabs("?status=completed")), want) })
	if got := tabs("?status=completed&tenant=default&page_token="); !strings.Contains(got, `href="/console/jobs?status=failed&amp;tenant=default"`) || !strings.Contains(got, `href="/console/jobs?status=completed&amp;tenant=default" aria-current`) {
		t.Error(got)
	}
	if got := plain(tabs("?tenant=none")); strings.Contains(got, "All 3") || !strings.Contains(got, "All 0") {
		t.Error(got)
	}
	if page := b.get("/console/jobs?tenant=default").body; !strings.Contains(page, "cancel 2 unfinished jobs") || !strings.Contains(page, `<progress max="100" value="40"`) {
		t.Errorf("no bulk action or progress: %s", page)
	}
}

// TestAWrongFilterStays checks that the form keeps an invalid filter next to its error.
func TestAWrongFilterStays(t *testing.T) {
	t.Parallel()
	b := newBrowser(apitest.New(t))
	for path, want := range map[string]string{
		"/jobs?label=team&model=film-2":        `name="model" value="film-2"`,
		"/jobs?label=team&route=gone":          `<option selected>gone</option>`,
		"/audit?page_token=x&operator=ops":     `name="operator" value="ops"`,
		"/decisions?page_token=x&code=invalid": `name="code" value="invalid"`,
	} {
		if a := b.get("/console" + path); a.status != http.StatusBadRequest || !strings.Contains(a.body, `class="error"`) || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// TestTryKnowsTLS checks that the commands of the Try page have the TLS flags that each server needs.
func TestTryKnowsTLS(t *testing.T) {
	t.Parallel()
	const authority, certificate = "<code>CA</code>", "<code>CERT_KEY</code>"
	for name, row := range map[string]struct {
		change    func(*config.Config)
		has, lack []string
	}{
		"no TLS": {func(*config.Config) {}, []string{`data-grpc-tls=" -plaintext"`, `data-http-tls=""`, `data-nats-tls=""`}, []string{authority, certificate}},
		"gRPC": {
			func(c *config.Config) { c.GRPC.TLS = config.ServerTLS{CertFile: "c", KeyFile: "k"} },
			[]string{`data-grpc-tls=" -cacert &#34;$CA&#34;"`, `data-http-tls=""`, authority},
			[]string{certificate},
		},
		"gRPC and HTTP with client certificates": {
			func(c *config.Config) {
				c.GRPC.TLS = config.ServerTLS{CertFile: "c", KeyFile: "k", ClientCAFile: "a"}
				c.HTTP.TLS = c.GRPC.TLS
			},
			[]string{
				`data-grpc-tls=" -cacert &#34;$CA&#34; -cert &#34;$CERT&#34; -key &#34;$CERT_KEY&#34;"`,
				`data-http-tls=" --cacert &#34;$CA&#34; --cert &#34;$CERT&#34; --key &#34;$CERT_KEY&#34;"`, authority, certificate,
			},
			nil,
		},
		"NATS": {
			func(c *config.Config) { c.NATS.TLS = config.TLS{CertFile: "c", KeyFile: "k", CAFile: "a"} },
			[]string{`data-nats-tls=" --tlsca &#34;$CA&#34; --tlscert &#34;$CERT&#34; --tlskey &#34;$CERT_KEY&#34;"`, `data-grpc-tls=" -plaintext"`, certificate},
			nil,
		},
		"a cluster": {func(c *config.Config) {
			c.NATS.URL, c.NATS.TLS = "tls://n:4222", config.TLS{CertFile: "c", KeyFile: "k"}
		}, []string{`data-nats-tls=""`}, []string{authority}},
	} {
		body := newBrowser(apitest.New(t, row.change)).get("/console/try").body
		for _, want := range row.has {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %s in\n%s", name, want, body)
			}
		}
		for _, other := range row.lack {
			if strings.Contains(body, other) {
				t.Errorf("%s: %s in\n%s", name, other, body)
			}
		}
	}
}

// TestNoFilterIsIgnored checks that a filter that a page does not have, or cannot read, is refused and
// explained. Ignoring it would list everything.
func TestNoFilterIsIgnored(t *testing.T) {
	t.Parallel()
	b := newBrowser(apitest.New(t))
	for path, want := range map[string]string{
		"/jobs?code=deadline_exceeded":    "code: is unknown; use one of kind, status, phase, tenant, route, model, upstream, upstream_key, error_code, ",
		"/jobs?state=failed&kind=video":   "state: is unknown; use one of ",
		"/decisions?error_code=x":         "error_code: is unknown; use one of kind, tenant, code",
		"/decisions?letter=7":             "letter: is unknown; ",
		"/tenants?tenant=acme":            "tenant: is unknown; use one of kind, route",
		"/audit?job=x":                    "job: is unknown; use one of operator, action, job_id, ",
		"/audit?letter=seven":             "letter: must be the number of a dead letter",
		"/bulk?do=cancel&code=x":          "code: is unknown; use one of do, ",
		"/bulk?do=redrive&error_code=x":   "error_code: is unknown; use one of do, tasks, kind, tenant, code",
		"/bulk?do=drop&tenant=a&status=x": "status: is unknown; ",
	} {
		if a := b.get("/console" + path); a.status != http.StatusBadRequest || !strings.Contains(a.body, want) || strings.Contains(a.body, `class="total"`) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// TestTryOffersModels checks that the Try page offers the prefix of a model pattern and the
// protocol of each model.
func TestTryOffersModels(t *testing.T) {
	t.Parallel()
	a := newBrowser(apitest.New(t, func(c *config.Config) {
		kling := config.NewRoute("kling", config.KindVideo, config.SandboxUpstream, "kling-v3")
		kling.Protocol = "kling"
		c.Routes = append(c.Routes, kling, config.NewRoute("wan", config.KindVideo, config.SandboxUpstream, "wan-*"))
	})).get("/console/try")
	if !strings.Contains(a.body, `<option value="wan-" data-protocol="primary">`) || strings.Contains(a.body, "*") || !strings.Contains(a.body, `<option value="kling-v3" data-protocol="kling">`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}
