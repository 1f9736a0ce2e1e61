package httpapi_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/config"
)

const operatorPrefix = "/genbus/v1/operator/"

// operatorCalls returns a call of every operator path about something that does not exist.
func (w *world) operatorCalls() (out []call) {
	w.T.Helper()
	fill := strings.NewReplacer("{id}", apitest.Never("video_"), "{sequence}", "1000", "{kind}", "video", "{name}", "none")
	for _, pattern := range w.Handler.Patterns() {
		method, path, _ := strings.Cut(pattern, " ")
		if !strings.HasPrefix(path, operatorPrefix) {
			continue
		}
		c := call{method: method, path: fill.Replace(path)}
		if strings.HasSuffix(path, "/{id}") {
			c.path += "?kind=video&tenant=acme"
		}
		if method == http.MethodPost {
			c.body = `{}`
		}
		out = append(out, c)
		if method == http.MethodGet {
			out = append(out, call{method: http.MethodHead, path: c.path})
		}
	}
	if len(out) < 15 {
		w.T.Fatalf("only %d operators' paths are mounted", len(out))
	}
	return out
}

// TestOperatorPathsAreForOperators checks every operator path with every kind of key, like
// TestOperatorMethodsAreForOperators in grpcapi.
func TestOperatorPathsAreForOperators(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config []func(*config.Config)
		want   map[string]string // code of the refusal by key, or empty
	}{
		"no operator": {
			[]func(*config.Config){apitest.TwoTenants},
			map[string]string{"": "operator_required", "unknown": "operator_required", "key-acme": "operator_required", apitest.OperatorKey: "operator_required"},
		},
		"operator and tenants": {
			[]func(*config.Config){apitest.TwoTenants, apitest.WithOperator},
			map[string]string{"": "invalid_api_key", "unknown": "invalid_api_key", "key-acme": "operator_required", apitest.OperatorKey: ""},
		},
		"operator, and every caller a tenant": {
			[]func(*config.Config){apitest.WithOperator},
			map[string]string{"": "invalid_api_key", "unknown": "invalid_api_key", apitest.OperatorKey: ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.config...)
			w.Durables()
			for _, call := range w.operatorCalls() {
				for key, want := range c.want {
					checkOperatorAnswer(t, call, key, want, w.Do(call.method, call.path, call.body, bearing(key)...))
				}
			}
		})
	}
}

func bearing(key string) []string {
	if key == "" {
		return nil
	}
	return []string{"Authorization", "Bearer " + key}
}

func checkOperatorAnswer(t *testing.T, c call, key, want string, a apitest.Answer) {
	t.Helper()
	code := a.Header.Get("Genbus-Error-Code")
	asks := a.Header.Get("Www-Authenticate") == "Bearer"
	switch want {
	case "":
		// Only the service knows that these do not exist. The mux's 404 and 405 have other codes.
		if a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden || a.Status >= 500 || slices.Contains([]string{"not_found", "method_not_allowed"}, code) {
			t.Errorf("%s %s as operator: %d %s", c.method, c.path, a.Status, a.Body)
		}
		return
	case "operator_required":
		if a.Status != http.StatusForbidden || asks {
			t.Errorf("%s %s with key %q: %d %v", c.method, c.path, key, a.Status, a.Header)
		}
	default:
		if a.Status != http.StatusUnauthorized || !asks {
			t.Errorf("%s %s with key %q: %d %v", c.method, c.path, key, a.Status, a.Header)
		}
	}
	if code != want || c.method != http.MethodHead && a.ErrorCode(t) != want {
		t.Errorf("%s %s with key %q: %s, want %s", c.method, c.path, key, code, want)
	}
}

// TestNoBodyOfAnOperatorsPathIsReadOfOthers checks that other callers are refused before the body
// arrives.
func TestNoBodyOfAnOperatorsPathIsReadOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants, apitest.WithOperator)
	w.Core.BodyTimeout = time.Minute
	for _, c := range w.operatorCalls() {
		if c.method != http.MethodPost {
			continue
		}
		for key, want := range map[string]int{"": 401, "unknown": 401, "key-acme": 403} {
			if a := w.Begun(c.path, bearing(key)...); a.Status != want {
				t.Errorf("%s with key %q: %d %s", c.path, key, a.Status, a.Body)
			}
		}
	}
}

func (w *world) operator(method, path, body string, status int) map[string]any {
	w.T.Helper()
	a := w.Do(method, operatorPrefix+path, body, apitest.ByOperator...)
	if a.Status != status {
		w.T.Fatalf("%s %s: %d %s, want %d", method, path, a.Status, a.Body, status)
	}
	return a.JSON(w.T)
}

// in returns a member of nested JSON objects, or nil.
func in(v any, names ...string) any {
	for _, name := range names {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func listed(page map[string]any) (ids []string) {
	jobs, _ := page["jobs"].([]any)
	for _, j := range jobs {
		ids = append(ids, fmt.Sprint(in(j, "id")))
	}
	return ids
}

func TestOperatorListsJobsByHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants, apitest.WithOperator)
	var want []string // newest first
	for _, labels := range []string{"team=a,film=1", "team=a,film=2", "team=a,film=1", "team=a,film=1"} {
		want = append([]string{w.CreateVideo("Authorization", "Bearer key-acme", "Genbus-Labels", labels)}, want...)
	}
	other := w.CreateVideo(apitest.ByGlobex...)
	w.Await("five jobs in the index", func() bool { return w.operator(http.MethodGet, "jobs", "", 200)["total"] == "5" })

	const filter = "jobs?tenant=acme&status=queued&labels=team%3Da&labels=film=1&created_after=2026-01-01T00:00:00Z&oldest_first=false"
	first := w.operator(http.MethodGet, filter+"&page_size=2", "", 200)
	token, _ := first["next_page_token"].(string)
	second := w.operator(http.MethodGet, filter+"&page_size=2&page_token="+url.QueryEscape(token), "", 200)
	if got := append(listed(first), listed(second)...); !slices.Equal(got, []string{want[0], want[1], want[3]}) || len(listed(first)) != 2 || second["next_page_token"] != nil {
		t.Errorf("pages of %v, want %v without the third: %v, %v", got, want, first, second)
	}
	for query, ids := range map[string][]string{
		"jobs?tenant=globex": {other}, "jobs?status=completed": nil, "jobs?status=unfinished&oldestFirst=true&pageSize=1": {want[3]}, "jobs?id=" + other: {other},
	} {
		if got := listed(w.operator(http.MethodGet, query, "", 200)); !slices.Equal(got, ids) {
			t.Errorf("%s: %v, want %v", query, got, ids)
		}
	}
	for query, names := range map[string]string{
		"jobs?state=queued":             "state",
		"jobs?status=JOB_STATUS_QUEUED": "status",
		"jobs?labels=team":              "labels",
		"jobs?page_size=many":           "page_size",
		"jobs/" + other + "?dry=true":   "dry",
		"jobs/x?id=" + other:            "id",
		"dead-letters?status=failed":    "status",
		"routes?kind=video":             "kind",
	} {
		if e := in(w.operator(http.MethodGet, query, "", 400), "error"); in(e, "code") != "invalid_request" || !strings.Contains(fmt.Sprint(in(e, "message")), names) {
			t.Errorf("%s: %v", query, e)
		}
	}
	w.Durables()
	if routes, ok := w.operator(http.MethodGet, "overview", "", 200)["routes"].([]any); !ok || len(routes) != len(w.Cfg.Routes) || len(in(routes[0].(map[string]any), "minutes").([]any)) != 60 {
		t.Errorf("the overview has routes %v", routes)
	}
	if e := w.operator(http.MethodGet, filter+"&page_token=x!", "", 400); in(e, "error", "code") != "invalid_page_token" {
		t.Errorf("a page token: %v", e)
	}
	if a := w.Do(http.MethodHead, operatorPrefix+filter, "", apitest.ByOperator...); a.Status != http.StatusOK || a.Body != "" || a.Header.Get("Content-Length") == "" {
		t.Errorf("HEAD: %d %v", a.Status, a.Header)
	}
}

// TestOperatorReadsAndEndsJobsByHTTP checks that a job is found by a request id that must be
// escaped in a path.
func TestOperatorReadsAndEndsJobsByHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants, apitest.WithOperator)
	for _, name := range []string{"order/7", "100%", "a b", "a%2Fb", "x:cancel", "..", "?#"} {
		id := w.CreateVideo("Authorization", "Bearer key-acme", "Idempotency-Key", name)
		w.Await(name+" by its request id", func() bool {
			a := w.Get(operatorPrefix+"jobs/"+escaped(name)+"?tenant=acme", apitest.ByOperator...)
			return a.Status == http.StatusOK && in(a.JSON(t), "job", "id") == id && a.Header.Get("Genbus-Job-Id") == id
		})
	}
	id := w.CreateVideo(apitest.ByAcme...)
	w.StartVideo("acme", id)
	got := w.operator(http.MethodGet, "jobs/"+id, "", 200)
	history, _ := got["history"].([]any)
	if len(history) < 3 || in(got, "job", "tenant") != "acme" || in(got, "job", "status") != "JOB_STATUS_IN_PROGRESS" || in(history[1], "since_previous") == nil {
		t.Errorf("%v", got)
	}
	for _, row := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{http.MethodDelete, "?kind=video&tenant=acme", "", 409, "not_terminal"},
		{http.MethodPost, "/cancel", `{"tenant":"acme"}`, 400, "invalid_request"},
		{http.MethodPost, "/cancel", `{"kind":"video","tenant":"globex"}`, 404, "task_not_found"},
		{http.MethodPost, "/cancel?kind=video&tenant=acme", `{}`, 400, "invalid_request"},
		{http.MethodPost, "/cancel", `{"kind":"video","tenant":"acme"}`, 200, ""},
		{http.MethodDelete, "?kind=video", "", 400, "invalid_request"},
		{http.MethodDelete, "?kind=video&tenant=acme&id=" + id, "", 400, "invalid_request"},
	} {
		answer := w.operator(row.method, "jobs/"+id+row.path, row.body, row.status)
		if row.code != "" && in(answer, "error", "code") != row.code || row.code == "" && answer["status"] != "JOB_STATUS_CANCELLED" {
			t.Errorf("%s %s: %v", row.method, row.path, answer)
		}
	}
	w.letGo()
	w.operator(http.MethodDelete, "jobs/"+id+"?kind=video&tenant=acme", "", 200)
	w.Await("the end of the job", func() bool {
		return w.Get(operatorPrefix+"jobs/"+id+"?tenant=acme", apitest.ByOperator...).Header.Get("Genbus-Error-Code") == "task_not_found"
	})
	if e := w.operator(http.MethodGet, "jobs/none", "", 404); in(e, "error", "code") != "not_found" || !strings.Contains(fmt.Sprint(in(e, "error", "message")), "no job") {
		t.Errorf("an unknown id: %v", e)
	}
}

// escaped escapes a name as one path segment. It escapes "..", which a client's library would
// resolve.
func escaped(name string) string {
	if strings.Trim(name, ".") == "" {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

func TestOperatorActsOnDeadLettersByHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants, apitest.WithOperator)
	put := func() string { return fmt.Sprint("dead-letters/", w.PutDeadLetter(apitest.OrphanedDeadLetter("acme"))) }
	one, two, three := put(), put(), put()
	list := w.operator(http.MethodGet, "dead-letters?tenant=acme&code=orphaned_submission&page_size=2", "", 200)
	letters, _ := list["letters"].([]any)
	if len(letters) != 2 || list["next_page_token"] == nil || in(letters[0], "letter", "data") != nil {
		t.Errorf("%v", list)
	}
	data, err := base64.StdEncoding.DecodeString(fmt.Sprint(in(w.operator(http.MethodGet, one, "", 200), "letter", "letter", "data")))
	if err != nil || !strings.Contains(string(data), "secret") {
		t.Errorf("the request of a dead letter: %s, %v", data, err)
	}
	redriven := w.Post(operatorPrefix+one+"/redrive", "", apitest.ByOperator...)
	if id := redriven.JSON(t)["id"]; redriven.Status != http.StatusOK || id == "" || redriven.Header.Get("Genbus-Job-Id") != id {
		t.Errorf("redrive: %d %v %s", redriven.Status, redriven.Header, redriven.Body)
	}
	// Attach to another task than the dead letter's. An unknown field is rejected and changes
	// nothing.
	w.operator(http.MethodPost, two+"/attach", `{"task":"up_2"}`, 400)
	attached := w.operator(http.MethodPost, two+"/attach", `{"upstream_task_id":"up_2"}`, 200)
	if got := w.operator(http.MethodGet, fmt.Sprint("jobs/", attached["id"]), "", 200); in(got, "job", "upstream_task_id") != "up_2" {
		t.Errorf("attached: %v", got)
	}
	w.operator(http.MethodDelete, three, "", 200)
	for _, path := range []string{one, two, three} {
		if e := w.operator(http.MethodDelete, path, "", 404); in(e, "error", "code") != "letter_not_found" {
			t.Errorf("%s again: %v", path, e)
		}
	}
	for _, sequence := range []string{"none", "-1", "0", "1.5", "18446744073709551616"} {
		if e := w.operator(http.MethodGet, "dead-letters/"+sequence, "", 400); in(e, "error", "code") != "invalid_request" {
			t.Errorf("dead letter %s: %v", sequence, e)
		}
	}
}

func TestOperatorPausesByHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants, apitest.WithOperator)
	w.Durables()
	const route = "routes/video/" + config.SandboxVideoRoute
	paused := func() (names []string) {
		routes, _ := w.operator(http.MethodGet, "routes", "", 200)["routes"].([]any)
		for _, r := range routes {
			if in(r, "paused") == true {
				names = append(names, fmt.Sprint(in(r, "name")))
			}
		}
		return names
	}
	if r := w.operator(http.MethodPost, route+"/pause", "", 200); in(r, "route", "paused") != true || !slices.Equal(paused(), []string{config.SandboxVideoRoute}) {
		t.Errorf("paused: %v", r)
	}
	for body, field := range map[string]string{`{"reason":"a\nb"}`: "reason", `{"duration":"0s"}`: "duration", `{"duration":"2592001s"}`: "duration"} {
		if e := w.operator(http.MethodPost, route+"/pause", body, 400); in(e, "error", "param") != field {
			t.Errorf("%s: %v", body, e)
		}
	}
	if r := w.operator(http.MethodPost, route+"/pause", `{"reason":"repair","duration":"7200s"}`, 200); in(r, "route", "pause", "reason") != "repair" || in(r, "route", "pause", "until") == nil {
		t.Errorf("paused again: %v", r)
	}
	// An unknown field does not count as a dry run.
	w.operator(http.MethodPost, route+"/resume", `{"dry_run":true}`, 400)
	if r := w.operator(http.MethodPost, route+"/resume", `{}`, 200); in(r, "route", "paused") != nil || paused() != nil {
		t.Errorf("resumed: %v", r)
	}
	for _, name := range []string{"none", "a/b", "a b", "100%", "a%2Fb", "ä", "..", "*", ">", "a:pause", "{name}", "\x00", "\n", "\xff"} {
		for _, action := range []string{"/pause", "/resume"} {
			if e := w.operator(http.MethodPost, "routes/video/"+escaped(name)+action, "", 404); in(e, "error", "code") != "route_not_found" {
				t.Errorf("route %q%s: %v", name, action, e)
			}
		}
	}
	if e := w.operator(http.MethodPost, "routes/audio/"+config.SandboxVideoRoute+"/pause", "", 404); in(e, "error", "code") != "route_not_found" {
		t.Errorf("an unknown kind: %v", e)
	}
}

// TestOperatorFailsOrphansByHTTP checks the HTTP interface. Tests in internal/operator cover the
// jobs.
func TestOperatorFailsOrphansByHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants, apitest.WithOperator)
	if list := w.operator(http.MethodGet, "orphans", "", 200); list["routes"] != nil {
		t.Errorf("%v", list)
	}
	for _, row := range []struct {
		path, body string
		status     int
		code, says string
	}{
		{"gone/fail", `{"no_replica_serves_it":true,"page_token":"x"}`, 400, "invalid_page_token", ""},
		{config.SandboxVideoRoute + "/fail", `{"no_replica_serves_it":true}`, 400, "invalid_request", "is a configured route"},
		{"gone/fail", ``, 400, "invalid_request", "no_replica_serves_it"},
		{"gone/fail", `{"noReplicaServesIt":true}`, 200, "", ""},
	} {
		answer := w.operator(http.MethodPost, "orphans/video/"+row.path, row.body, row.status)
		if row.code != "" && (in(answer, "error", "code") != row.code || !strings.Contains(fmt.Sprint(in(answer, "error", "message")), row.says)) || row.code == "" && answer["settled"] == nil {
			t.Errorf("%s %s: %v", row.path, row.body, answer)
		}
	}
}

// TestOperatorBodies checks that http.max_body_bytes limits operators, not the limits of a tenant
// with the operator's name, and that no rate limit counts them.
func TestOperatorBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants, apitest.WithOperator, func(c *config.Config) {
		c.HTTP.MaxBodyBytes = 4 << 10
		c.Tenants = config.Tenants{"ops": {MaxBodyBytes: 1 << 10}}
		c.Limits.Tenant.RequestsPerSecond, c.Limits.Tenant.Burst = 0.001, 1
	})
	w.Durables()
	const path = operatorPrefix + "routes/video/" + config.SandboxVideoRoute + "/resume"
	for name, row := range map[string]struct {
		body    string
		headers []string
		status  int
		code    string
	}{
		"fits":             {`{"name":"` + strings.Repeat("x", 3<<10) + `"}`, nil, 200, ""}, // the path's name applies
		"no body":          {``, nil, 200, ""},
		"too large":        {`{"name":"` + strings.Repeat("x", 4<<10) + `"}`, nil, 413, "body_too_large"},
		"a form":           {`a=b`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"},
		"no JSON":          {`{"name":`, nil, 400, "invalid_json"},
		"an unknown field": {`{"nothing":1}`, nil, 400, "invalid_request"},
	} {
		a := w.Post(path, row.body, append(row.headers, apitest.ByOperator...)...)
		if a.Status != row.status || a.Header.Get("Genbus-Error-Code") != row.code || a.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %v %s", name, a.Status, a.Header, a.Body)
		}
	}
}

func TestOperatorPathsWhileDraining(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.WithOperator)
	w.Drain(errors.New("the test ends"))
	for _, c := range w.operatorCalls() {
		for _, headers := range [][]string{nil, apitest.ByOperator} { // with and without a key
			a := w.Do(c.method, c.path, c.body, headers...)
			if a.Status != http.StatusServiceUnavailable || a.Header.Get("Genbus-Error-Code") != "shutting_down" || c.method != http.MethodHead && !strings.Contains(a.Body, "the test ends") {
				t.Errorf("%s %s: %d %s", c.method, c.path, a.Status, a.Body)
			}
		}
	}
}
