package httpapi

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/contract"
	"github.com/genbus/genbus/internal/contract/contracttest"
	"github.com/genbus/genbus/internal/errcode"
)

// TestQueriesAreKnown checks that unknown query parameters are rejected on generated paths and on
// ours.
func TestQueriesAreKnown(t *testing.T) {
	t.Parallel()
	h := &Handler{queries: queriesOf(readsRules(t))}
	mux := http.NewServeMux()
	var got error
	for pattern := range h.queries {
		mux.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) { got = (&exchange{r: r, h: h}).checkQuery() })
	}
	for _, pattern := range []string{"GET /v1/videos", "DELETE /v1/videos/{id}", "POST /genbus/v1/videos/{id}/cancel", "POST /genbus/v1/operator/jobs/{id}/cancel"} {
		mux.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) { got = (&exchange{r: r, h: h}).checkQuery() })
	}
	for target, unknown := range map[string][]string{
		"/genbus/v1/videos": nil,
		"/genbus/v1/videos?status=JOB_STATUS_QUEUED&page_size=500&page_token=x&created_after=2026-01-31T12:00:00Z&created_before=2026-01-31T12:00:00.5%2B01:00": nil,
		"/genbus/v1/videos?pageSize=5&created_after.seconds=1":    nil,
		"/genbus/v1/videos?status=1":                              nil,
		"/genbus/v1/videos?created_after.minutes=1":               {"created_after.minutes"},
		"/genbus/v1/videos?page_size.x=1":                         {"page_size.x"},
		"/genbus/v1/videos?afterVersion=1":                        {"afterVersion"},
		"/genbus/v1/videos/video_x/events?afterVersion=3":         {"afterVersion"},
		"/genbus/v1/videos?status=done":                           {"status"},
		"/genbus/v1/videos?status=":                               {"status"},
		"/genbus/v1/videos?page-size=5&stauts=x":                  {"page-size", "stauts"},
		"/genbus/v1/videos/video_x?page_size=5":                   {"page_size"},
		"/genbus/v1/videos/video_x/events?after_version=3":        nil,
		"/genbus/v1/videos/video_x/events?after=3":                {"after"},
		"/genbus/v1/videos/video_x/content?index=0&variant=video": nil,
		"/genbus/v1/videos/video_x/content?i=0":                   {"i"},
		"/genbus/v1/chats/chat_x?x=":                              {"x"},
		"/genbus/v1/chats/chat_x/events?resume_token=x":           nil,
		"/genbus/v1/models?kind=video":                            nil,
		"/genbus/v1/models?king=video":                            {"king"},
		"DELETE /genbus/v1/videos/video_x?dry_run=true":           {"dry_run"},
		"DELETE /v1/videos/video_x?dry_run=true":                  nil,
		"POST /genbus/v1/videos/video_x/cancel?x=y":               {"x"},
		"/v1/videos?x=y":                                          nil,

		"/genbus/v1/operator/jobs?status=unfinished&labels=a=b&labels=c=d&created_after.seconds=1&pageSize=5&oldest_first=true": nil,
		"/genbus/v1/operator/jobs?state=queued":                                {"state"},
		"/genbus/v1/operator/jobs/video_x?kind=video&tenant=acme":              nil,
		"/genbus/v1/operator/jobs/video_x?id=video_y":                          {"id"},
		"DELETE /genbus/v1/operator/jobs/video_x?kind=video&tenant=acme":       nil,
		"DELETE /genbus/v1/operator/jobs/video_x?kind=video&id=x&dry_run=true": {"dry_run", "id"},
		"POST /genbus/v1/operator/jobs/video_x/cancel?kind=video&tenant=acme":  {"kind", "tenant"},
		"/genbus/v1/operator/dead-letters?status=x&code=y":                     {"status"},
		"/genbus/v1/operator/dead-letters/17?kind=video":                       {"kind"},
		"/genbus/v1/operator/routes?kind=video":                                {"kind"},
		"/genbus/v1/operator/orphans?kind=video":                               {"kind"},
	} {
		got = nil
		method, path, other := strings.Cut(target, " ")
		if !other {
			method, path = http.MethodGet, target
		}
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, path, nil))
		var named []string
		f := errcode.From(got)
		if f != nil {
			for _, v := range f.Violations {
				named = append(named, v.Field)
			}
		}
		if !slices.Equal(named, unknown) || f != nil && f.Code != errcode.InvalidRequest {
			t.Errorf("%s: %v, want %v unknown", target, got, unknown)
		}
		if strings.HasSuffix(target, "=done") && !strings.Contains(f.Message, "JOB_STATUS_FAILED") {
			t.Errorf("%s: %v does not say what is a status", target, f)
		}
		if strings.Contains(target, "king=") && !strings.Contains(f.Message, "use one of kind") {
			t.Errorf("%s: %v", target, got)
		}
	}
}

// TestValuesOfQueriesAreExplained checks that the error names the parameter, its value and the
// rule.
func TestValuesOfQueriesAreExplained(t *testing.T) {
	t.Parallel()
	h := &Handler{queries: queriesOf(readsRules(t))}
	mux := http.NewServeMux()
	var got error
	check := func(pattern string, f func(*exchange) error) {
		mux.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) { got = f(&exchange{r: r, h: h}) })
	}
	for pattern := range h.queries {
		check(pattern, (*exchange).checkQuery)
	}
	check("GET /genbus/v1/videos/{id}/after", func(x *exchange) error { _, err := lastVersion(x.r); return err })
	check("GET /v1/videos", h.listVideoObjects)
	check("GET /v1/videos/{id}/content", h.getContent)
	const time = "must be a time such as 2026-01-31T12:00:00Z, not "
	for target, want := range map[string]string{
		"/genbus/v1/videos?page_size=abc":                             `page_size: must be an integer from 0 to 2147483647, not "abc"`,
		"/genbus/v1/videos?pageSize=":                                 `pageSize: must be an integer from 0 to 2147483647, not ""`,
		"/genbus/v1/videos?page_size=2147483648":                      `page_size: must be an integer from 0 to 2147483647, not "2147483648"`,
		"/genbus/v1/videos?page_size=1&page_size=2":                   `page_size: must be given once, not 2 times`,
		"/genbus/v1/videos?created_after=yesterday":                   `created_after: ` + time + `"yesterday"`,
		"/genbus/v1/videos?created_after.seconds=x":                   `created_after.seconds: must be an integer, not "x"`,
		"/genbus/v1/videos?status=done":                               `status: ` + body.StatusRule + `, not "done"`,
		"/genbus/v1/operator/jobs?oldest_first=maybe":                 `oldest_first: must be true or false, not "maybe"`,
		"/genbus/v1/operator/audit?letter=-1":                         `letter: must be an integer from 0 to 18446744073709551615, not "-1"`,
		"/genbus/v1/operator/dead-letters/1?without_data=2":           `without_data: must be true or false, not "2"`,
		"/genbus/v1/videos/video_x/after?after_version=x":             `after_version: must be an event ID, a decimal version, not "x"`,
		"/v1/videos?limit=abc":                                        `limit: must be an integer from 1 to 100, not "abc"`,
		"/v1/videos?order=up":                                         `order: must be asc or desc, not "up"`,
		"/v1/videos/video_x/content?variant=thumbnail":                `variant: must be video: upstreams return nothing else, not "thumbnail"`,
		"/v1/videos/video_x/content?index=" + strings.Repeat("9", 99): `index: must be an integer from 0 to 65536, not "` + strings.Repeat("9", 64),
	} {
		got = nil
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
		f := errcode.From(got)
		if f == nil || f.Code != errcode.InvalidRequest || !strings.Contains(f.Message, want) || strings.Contains(f.Message, "strconv") {
			t.Errorf("%s: %v, want %s", target, got, want)
		}
	}
}

// TestEveryReadingPathHasItsQuery checks that exactly the paths under /genbus/v1 without a body
// have query parameters.
func TestEveryReadingPathHasItsQuery(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	if err := cfg.Prepare(); err != nil {
		t.Fatal(err)
	}
	h := &Handler{cfg: config.NewLive(cfg), mux: &patterns{ServeMux: http.NewServeMux()}}
	rules := readsRules(t)
	h.routes(rules)
	queries := queriesOf(rules)
	for _, pattern := range h.mux.mounted {
		if _, known := queries[pattern]; known != (strings.HasPrefix(pattern, "GET /genbus/v1/") || strings.HasPrefix(pattern, "DELETE /genbus/v1/")) {
			t.Errorf("%s: has a row in queries: %v", pattern, known)
		}
	}
}

// TestQueriesAreDocumented checks that the document lists exactly the parameters that a path
// accepts.
func TestQueriesAreDocumented(t *testing.T) {
	t.Parallel()
	raw, err := contract.OpenAPI(contract.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := contracttest.Load(raw)
	if err != nil {
		t.Fatal(err)
	}
	for pattern, known := range queriesOf(readsRules(t)) {
		method, path, _ := strings.Cut(pattern, " ")
		var documented []string
		list, _ := d.Find("paths", path, strings.ToLower(method), "parameters").([]any)
		for _, p := range list {
			p, _ := p.(map[string]any)
			if to, ok := p["$ref"].(string); ok {
				p, _ = d.Find(strings.Split(strings.TrimPrefix(to, "#/"), "/")...).(map[string]any)
			}
			if name, _ := p["name"].(string); p["in"] == "query" {
				documented = append(documented, name)
			}
		}
		slices.Sort(documented)
		if want := slices.Sorted(slices.Values(known.names)); !slices.Equal(documented, want) {
			t.Errorf("%s: the document has %v, the path knows %v", pattern, documented, want)
		}
	}
}

func readsRules(t testing.TB) []rule {
	t.Helper()
	rules, err := readRules()
	if err != nil {
		t.Fatal(err)
	}
	return rules
}
