package httpapi

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/contract"
	"github.com/genbus/genbus/internal/contract/contracttest"
	"github.com/genbus/genbus/internal/errcode"
)

// TestQueriesAreKnown, of the generated paths and of ours alike.
func TestQueriesAreKnown(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	var got error
	for pattern := range queries {
		mux.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) { got = (&exchange{r: r}).checkQuery() })
	}
	for _, pattern := range []string{"GET /v1/videos", "DELETE /v1/videos/{id}", "DELETE /genbus/v1/videos/{id}", "POST /genbus/v1/videos/{id}/cancel", "POST /genbus/v1/operator/jobs/{id}/cancel"} {
		mux.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) { got = (&exchange{r: r}).checkQuery() })
	}
	for target, unknown := range map[string][]string{
		"/genbus/v1/videos": nil,
		"/genbus/v1/videos?status=JOB_STATUS_QUEUED&page_size=500&page_token=x&created_after=x&created_before=x": nil,
		"/genbus/v1/videos?pageSize=5&created_after.seconds=1":                                                   nil,
		"/genbus/v1/videos?status=1":                              nil,
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
		if strings.Contains(target, "king=") && !strings.Contains(f.Message, "known are kind") {
			t.Errorf("%s: %v", target, got)
		}
	}
}

// TestEveryReadingPathHasItsQuery: what is mounted under /genbus/v1 with GET, and an
// operator's erasure.
func TestEveryReadingPathHasItsQuery(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	if err := cfg.Prepare(); err != nil {
		t.Fatal(err)
	}
	h := &Handler{cfg: config.NewLive(cfg), mux: &patterns{ServeMux: http.NewServeMux()}}
	h.routes()
	for _, pattern := range h.mux.mounted {
		if _, known := queries[pattern]; known != (strings.HasPrefix(pattern, "GET /genbus/v1/") || pattern == "DELETE /genbus/v1/operator/jobs/{id}") {
			t.Errorf("%s: has a row in queries: %v", pattern, known)
		}
	}
}

// TestQueriesAreDocumented: the document has the parameters that a path knows, and no other.
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
	for pattern, known := range queries {
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
		if want := slices.Sorted(slices.Values(known)); !slices.Equal(documented, want) {
			t.Errorf("%s: the document has %v, the path knows %v", pattern, documented, want)
		}
	}
}
