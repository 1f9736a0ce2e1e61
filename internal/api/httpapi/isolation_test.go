package httpapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

type call struct {
	method, path, body string
	headers            []string
}

// isolation says how a path separates tenants. TestTenantsAreApartOnEveryPath fails for a path
// without a row or with an empty one.
type isolation struct {
	// about returns calls about a job id. Another tenant gets the same answers as for an id that
	// never existed.
	about func(id string) []call
	// makes are calls with the request id {name}. Each tenant that sends one gets a separate job.
	makes []call
	kind  subject.Kind // kind of the jobs that makes creates
	// shows returns calls that list. They show nothing about acme.
	shows func(w *tenancy) []call
	// operators returns a call of operators about acme. Tenants get no answer.
	operators func(w *tenancy) call
	// open paths need no key and show nothing about any tenant.
	open bool
}

func byID(method, path string) isolation {
	return isolation{about: func(id string) []call {
		return []call{{method: method, path: strings.ReplaceAll(path, "{id}", id)}}
	}}
}

func shows(paths ...string) isolation {
	return isolation{shows: func(w *tenancy) []call {
		var out []call
		for _, path := range paths {
			out = append(out, call{method: http.MethodGet, path: strings.ReplaceAll(path, "{token}", w.Token)})
		}
		return out
	}}
}

func makes(kind subject.Kind, path, body string, headers ...string) isolation {
	return isolation{kind: kind, makes: []call{{method: http.MethodPost, path: path, body: body, headers: headers}}}
}

// forOperators returns a call of an operator path about acme's job and dead letter.
// TestEveryOperationAnswersAsDocumented checks the answers for operators.
func forOperators(pattern string) isolation {
	method, path, _ := strings.Cut(pattern, " ")
	return isolation{operators: func(w *tenancy) call {
		fill := strings.NewReplacer("{id}", w.Talk, "{sequence}", fmt.Sprint(w.deadLetter), "{kind}", "video", "{name}", config.SandboxVideoRoute)
		return call{method: method, path: fill.Replace(path), body: "{}"}
	}}
}

func and(rows ...isolation) (out isolation) {
	for _, r := range rows {
		if r.about != nil {
			out.about = r.about
		}
		if r.shows != nil {
			out.shows = r.shows
		}
		if r.makes != nil {
			out.makes, out.kind = r.makes, r.kind
		}
	}
	return out
}

func klingPaths(path string, rows map[string]isolation) {
	body := `{"model_name":"sandbox-kling","prompt":"p","external_task_id":"{name}"}`
	if path == apitest.KlingImage {
		body = strings.Replace(body, `"prompt"`, `"image":"https://x/1.png","prompt"`, 1)
	}
	rows["POST "+path] = makes(subject.Video, path, body)
	rows["GET "+path] = shows(path, path+"?pageNum=1&pageSize=500")
	rows["GET "+path+"/{id}"] = and(byID(http.MethodGet, path+"/{id}"), shows(path+"/"+apitest.AcmeShot))
}

var named = []string{"Idempotency-Key", "{name}"}

var jimengRow = isolation{
	kind:  subject.Video,
	makes: []call{{method: http.MethodPost, path: apitest.JimengSubmit, body: apitest.JimengBody, headers: named}},
	about: func(id string) []call {
		return []call{{method: http.MethodPost, path: apitest.JimengQuery, body: `{"req_key":"sandbox-jimeng","task_id":"` + id + `"}`}}
	},
}

// isolations returns the rows of exactly the mounted paths.
func isolations() map[string]isolation {
	const (
		typed     = `{"request_id":"{name}","video":{"model":"sandbox-video","prompt":"a cat"}}`
		typedChat = `{"request_id":"{name}","chat":{"model":"sandbox-chat","messages":[{"role":"user","text":"hi"}]}}`
	)
	after, afterChat := byID(http.MethodGet, "/v1/videos?after={id}"), byID(http.MethodGet, "/v1/chat/completions?after={id}")
	rows := map[string]isolation{
		"GET /healthz": {open: true}, "GET /readyz": {open: true}, "GET /readyz/jobs": {open: true}, "GET /metrics": {open: true},
		"GET /openapi.json": {open: true}, "GET /asyncapi.json": {open: true}, "GET /docs": {open: true}, "GET /favicon.ico": {open: true},
		"GET /genbus/v1/descriptor.binpb": {open: true}, "GET /genbus/v1/proto/{file}": {open: true},
		"GET /{$}": {open: true}, "GET /console": {open: true}, "GET /console/": {open: true}, "POST /console/": {open: true}, // operators log in there

		"POST /v1/video/generations":            makes(subject.Video, "/v1/video/generations", apitest.VideoBody, named...),
		"GET /v1/video/generations/{id}":        byID(http.MethodGet, "/v1/video/generations/{id}"),
		"GET /v1/video/generations/{id}/events": byID(http.MethodGet, "/v1/video/generations/{id}/events"),
		"POST /v1/videos":                       makes(subject.Video, "/v1/videos", apitest.VideosBody, named...),
		"GET /v1/videos":                        and(after, shows("/v1/videos", "/v1/videos?limit=100&order=asc")),
		"GET /v1/videos/{id}":                   byID(http.MethodGet, "/v1/videos/{id}"),
		"DELETE /v1/videos/{id}":                byID(http.MethodDelete, "/v1/videos/{id}"),
		"GET /v1/videos/{id}/content":           byID(http.MethodGet, "/v1/videos/{id}/content"),
		"POST /v1/chat/completions":             makes(subject.Chat, "/v1/chat/completions", apitest.TalkBody("hi"), append(named, "Prefer", "respond-async")...),
		"GET /v1/chat/completions":              and(afterChat, shows("/v1/chat/completions", "/v1/chat/completions?limit=100&order=desc")),
		"GET /v1/models":                        shows("/v1/models"),
		"GET /v1/models/{model...}":             shows("/v1/models/sandbox-video", "/v1/models/"+apitest.AcmeMark[:4]+"x"),

		"GET /genbus/v1/videos/{id}/events":  byID(http.MethodGet, "/genbus/v1/videos/{id}/events"),
		"GET /genbus/v1/videos/{id}/content": byID(http.MethodGet, "/genbus/v1/videos/{id}/content"),
		"GET /genbus/v1/chats/{id}/events":   byID(http.MethodGet, "/genbus/v1/chats/{id}/events"),
		"POST /genbus/v1/videos":             makes(subject.Video, "/genbus/v1/videos", typed),
		"GET /genbus/v1/videos":              shows("/genbus/v1/videos", "/genbus/v1/videos?page_size=1&page_token={token}"),
		"GET /genbus/v1/videos/{id}":         byID(http.MethodGet, "/genbus/v1/videos/{id}"),
		"POST /genbus/v1/videos/{id}/cancel": byID(http.MethodPost, "/genbus/v1/videos/{id}/cancel"),
		"DELETE /genbus/v1/videos/{id}":      byID(http.MethodDelete, "/genbus/v1/videos/{id}"),
		"POST /genbus/v1/chats":              makes(subject.Chat, "/genbus/v1/chats", typedChat),
		"GET /genbus/v1/chats":               shows("/genbus/v1/chats", "/genbus/v1/chats?page_size=1&page_token={token}"),
		"GET /genbus/v1/chats/{id}":          byID(http.MethodGet, "/genbus/v1/chats/{id}"),
		"POST /genbus/v1/chats/{id}/cancel":  byID(http.MethodPost, "/genbus/v1/chats/{id}/cancel"),
		"GET /genbus/v1/models":              shows("/genbus/v1/models"),

		"POST /jimeng/{$}": jimengRow,
	}
	klingPaths(apitest.KlingText, rows)
	klingPaths(apitest.KlingImage, rows)
	return rows
}

// TestTenantsAreApartOnEveryPath checks that globex, which knows acme's job ids and request ids,
// gets the same answers as for invented ones.
func TestTenantsAreApartOnEveryPath(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	w.Durables()
	w.deadLetter = w.PutDeadLetter(apitest.OrphanedDeadLetter("acme"))
	rows := isolations()
	for _, pattern := range w.Handler.Patterns() {
		if strings.Contains(pattern, " /genbus/v1/operator/") {
			rows[pattern] = forOperators(pattern)
		}
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(w.Handler.Patterns())), slices.Sorted(maps.Keys(rows))); diff != "" {
		t.Fatalf("every path that is mounted needs a row here:\n%s", diff)
	}
	before := w.States()
	for _, pattern := range slices.Sorted(maps.Keys(rows)) {
		row := rows[pattern]
		if row.about == nil && row.makes == nil && row.shows == nil && row.operators == nil && !row.open {
			t.Errorf("%s: the row is empty", pattern)
		}
		w.checkKeys(t, pattern, row)
		w.checkAbout(t, pattern, row)
		w.checkMakes(t, pattern, row)
		w.checkShows(t, pattern, row)
		w.checkOperators(t, pattern, row)
	}
	if diff := cmp.Diff(before, w.States()); diff != "" {
		t.Errorf("acme's jobs have changed:\n%s", diff)
	}
	w.checkOwner(t, rows)
}

// send makes a call with a fixed request id, so that answers can be compared.
func (w *tenancy) send(c call, headers []string) apitest.Answer {
	w.T.Helper()
	return w.Do(c.method, c.path, c.body, append(append([]string{"X-Request-Id", "call-1"}, c.headers...), headers...)...)
}

func (w *tenancy) every(row isolation) []call {
	out := slices.Clone(row.makes)
	if row.about != nil {
		out = append(out, row.about(w.Queued)...)
	}
	if row.shows != nil {
		out = append(out, row.shows(w)...)
	}
	return out
}

// checkKeys checks that no call is served without a key, with an unknown key or with an operator
// key.
func (w *tenancy) checkKeys(t *testing.T, pattern string, row isolation) {
	t.Helper()
	for _, c := range w.every(row) {
		for name, headers := range map[string][]string{
			"no key": nil, "an unknown key": {"Authorization", "Bearer key-acme2"}, "an operator's key": {"Authorization", "Bearer " + apitest.OperatorKey},
		} {
			if a := w.send(c, headers); a.Status != http.StatusUnauthorized || w.Reveals(a.Body) {
				t.Errorf("%s with %s: %d %s", pattern, name, a.Status, a.Body)
			}
		}
	}
}

// checkOperators checks that no tenant key opens an operator path, not even the key of the job's
// tenant.
func (w *tenancy) checkOperators(t *testing.T, pattern string, row isolation) {
	t.Helper()
	if row.operators == nil {
		return
	}
	c := row.operators(w)
	for name, headers := range map[string][]string{"no key": nil, "an unknown key": {"Authorization", "Bearer key-acme2"}} {
		if a := w.send(c, headers); a.Status != http.StatusUnauthorized || w.Reveals(a.Body) {
			t.Errorf("%s with %s: %d %s", pattern, name, a.Status, a.Body)
		}
	}
	for name, headers := range map[string][]string{"acme": w.Acme(), "globex": w.globex()} {
		if a := w.send(c, headers); a.Status != http.StatusForbidden || a.ErrorCode(t) != "operator_required" || w.Reveals(a.Body) {
			t.Errorf("%s with the key of %s: %d %s", pattern, name, a.Status, a.Body)
		}
	}
}

func (w *tenancy) checkAbout(t *testing.T, pattern string, row isolation) {
	t.Helper()
	if row.about == nil {
		return
	}
	for id := range w.IDs() {
		unknown := row.about(apitest.Never(id))
		for i, c := range row.about(id) {
			got, want := w.send(c, w.globex()), w.send(unknown[i], w.globex())
			if diff := cmp.Diff(seen(want), seen(got)); diff != "" || w.Reveals(strings.ReplaceAll(got.Body, id, "")) {
				t.Errorf("%s: acme's %s is not answered as an id that never was:\n%s", pattern, id, diff)
			}
			if got.Status != http.StatusNotFound && !strings.Contains(got.Body, "not_found") {
				t.Errorf("%s: %d %s", pattern, got.Status, got.Body)
			}
		}
	}
}

// seen returns the visible parts of an answer without ids.
func seen(a apitest.Answer) map[string]string {
	out := map[string]string{"body": apitest.AnyID.ReplaceAllString(a.Body, "ID"), "status": http.StatusText(a.Status)}
	for name, values := range a.Header {
		if name != "Date" && name != "Content-Length" {
			out[name] = apitest.AnyID.ReplaceAllString(strings.Join(values, ","), "ID")
		}
	}
	return out
}

// checkMakes checks that the same request of two tenants makes two jobs, and that a repeat returns
// the tenant's job.
func (w *tenancy) checkMakes(t *testing.T, pattern string, row isolation) {
	t.Helper()
	for _, c := range row.makes {
		c = c.as(regexp.MustCompile(`\W`).ReplaceAllString(pattern, "-"))
		ours, theirs := w.made(t, c, w.Acme()), w.made(t, c, w.globex())
		if theirs == ours || w.made(t, c, w.globex()) != theirs || w.made(t, c, w.Acme()) != ours {
			t.Errorf("%s: acme's job is %s, that of globex %s", pattern, ours, theirs)
		}
		if e := w.Entry(row.kind, "globex", theirs); e.Job.GetTenant() != "globex" {
			t.Errorf("%s made a job of %s", pattern, e.Job.GetTenant())
		}
	}
}

// as sets the request id.
func (c call) as(name string) call {
	c.body, c.headers = strings.ReplaceAll(c.body, "{name}", name), slices.Clone(c.headers)
	for i := range c.headers {
		c.headers[i] = strings.ReplaceAll(c.headers[i], "{name}", name)
	}
	return c
}

func (w *tenancy) made(t *testing.T, c call, headers []string) (id string) {
	t.Helper()
	a := w.send(c, headers)
	if id = a.Header.Get("Genbus-Job-Id"); a.Status/100 != 2 || id == "" {
		t.Errorf("%s: %d %s", c.path, a.Status, a.Body)
	}
	return id
}

func (w *tenancy) checkShows(t *testing.T, pattern string, row isolation) {
	t.Helper()
	var shown []call
	if row.shows != nil {
		shown = row.shows(w)
	}
	if row.open {
		_, path, _ := strings.Cut(pattern, " ")
		shown = []call{{method: http.MethodGet, path: path}}
	}
	for _, c := range shown {
		headers := w.globex()
		if row.open {
			headers = nil
		}
		// A refusal may repeat the request's parameters.
		if a := w.send(c, headers); a.Status == http.StatusOK && w.Reveals(a.Body) {
			t.Errorf("%s %s shows acme's: %s", pattern, c.path, a.Body)
		}
	}
}

// checkOwner checks that the calls of the rows do find jobs: acme finds each of its jobs by the
// calls that told globex nothing. Erasing comes last.
func (w *tenancy) checkOwner(t *testing.T, rows map[string]isolation) {
	t.Helper()
	(&world{w.World}).letGo()
	patterns := slices.Sorted(maps.Keys(rows))
	slices.SortStableFunc(patterns, func(a, b string) int { return deletes(a) - deletes(b) })
	for _, pattern := range patterns {
		row := rows[pattern]
		if row.about == nil {
			continue
		}
		id := w.Ended
		if strings.Contains(pattern, "/chat") {
			id = w.Talked
		}
		if pattern == "DELETE /v1/videos/{id}" {
			id = w.Queued
		}
		for _, c := range row.about(id) {
			if a := w.send(c, w.Acme()); a.Status/100 != 2 || strings.Contains(a.Body, "not_found") {
				t.Errorf("%s of its owner: %d %s", pattern, a.Status, a.Body)
			}
		}
	}
}

func deletes(pattern string) int {
	if strings.HasPrefix(pattern, "DELETE") {
		return 1
	}
	return 0
}

func (w *tenancy) globex(headers ...string) []string {
	return append([]string{"Authorization", "Bearer key-globex"}, headers...)
}
