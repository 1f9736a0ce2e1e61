package httpapi_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/config"
)

func TestGatewayVideo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const create = `{"video":{"model":"sandbox-video","prompt":"a cat","seed":"12345678901"},"labels":{"a":"b"}}`
	a := w.Post("/genbus/v1/videos", create, "Idempotency-Key", "k1", "Genbus-Labels", "c=d", "X-Request-Id", "call-1")
	task, _ := a.JSON(t)["task"].(map[string]any)
	id, _ := task["id"].(string)
	if a.Status != http.StatusOK || task["status"] != "JOB_STATUS_QUEUED" || task["request_id"] != "k1" ||
		a.Header.Get("Genbus-Job-Id") != id || a.Header.Get("X-Request-Id") != "call-1" || len(a.Header.Values("X-Request-Id")) != 1 {
		t.Fatalf("%d %v %s", a.Status, a.Header, a.Body)
	}
	labels, _ := task["labels"].(map[string]any)
	if labels["a"] != "b" || labels["c"] != "d" {
		t.Errorf("labels %v", labels)
	}
	if n := w.counter("genbus_jobs_accepted_total", map[string]string{"ingress": "http"}); n != 1 {
		t.Errorf("%v jobs came by HTTP", n)
	}
	w.Listed(id, genbusv1.JobStatus_JOB_STATUS_QUEUED)
	for _, path := range []string{"/genbus/v1/videos/" + id, "/genbus/v1/videos?status=JOB_STATUS_QUEUED&page_size=5"} {
		a := w.Get(path)
		if a.Status != http.StatusOK || !strings.Contains(a.Body, id) || strings.Contains(a.Body, "execution") || strings.Contains(a.Body, "createdAt") {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
		head := w.Do(http.MethodHead, path, "")
		if head.Status != http.StatusOK || head.Header.Get("Content-Length") != a.Header.Get("Content-Length") {
			t.Errorf("HEAD %s: %d %v", path, head.Status, head.Header)
		}
	}
	a = w.Post("/genbus/v1/videos/"+id+"/cancel", "")
	if task, _ := a.JSON(t)["task"].(map[string]any); a.Status != http.StatusOK || task["status"] != "JOB_STATUS_CANCELLED" {
		t.Errorf("cancel: %d %s", a.Status, a.Body)
	}
}

func TestGatewayErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config.Config) { c.HTTP.MaxBodyBytes = 1 << 10 })
	for name, row := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		code               string
	}{
		"no such task":      {http.MethodGet, "/genbus/v1/videos/video_x", "", nil, 404, "task_not_found"},
		"no body":           {http.MethodPost, "/genbus/v1/videos", "", nil, 400, "invalid_request"},
		"no JSON":           {http.MethodPost, "/genbus/v1/videos", `{"video":`, nil, 400, "invalid_json"},
		"an unknown field":  {http.MethodPost, "/genbus/v1/videos", `{"nothing":1}`, nil, 400, "invalid_request"},
		"a form":            {http.MethodPost, "/genbus/v1/videos", `a=b`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"},
		"too large":         {http.MethodPost, "/genbus/v1/chats", `{"request_id":"` + strings.Repeat("x", 2<<10) + `"}`, nil, 413, "body_too_large"},
		"two request ids":   {http.MethodPost, "/genbus/v1/videos", `{"request_id":"a","video":{}}`, []string{"Idempotency-Key", "b"}, 400, "invalid_request"},
		"an unreadable id":  {http.MethodPost, "/genbus/v1/videos", `{}`, []string{"Idempotency-Key", "ä"}, 400, "invalid_request"},
		"a page token":      {http.MethodGet, "/genbus/v1/videos?page_token=x!", "", nil, 400, "invalid_page_token"},
		"a status":          {http.MethodGet, "/genbus/v1/videos?status=none", "", nil, 400, "invalid_request"},
		"an unknown filter": {http.MethodGet, "/genbus/v1/videos?state=queued", "", nil, 400, "invalid_request"},
		"a slash in an id":  {http.MethodGet, "/genbus/v1/videos/a%2Fb", "", nil, 404, "task_not_found"},
		"no UTF-8 in an id": {http.MethodPost, "/genbus/v1/chats/%ff/cancel", "", nil, 404, "chat_not_found"},
		"no UTF-8":          {http.MethodGet, "/genbus/v1/videos?page_token=%ff", "", nil, 400, "invalid_request"},
		"an unknown kind":   {http.MethodGet, "/genbus/v1/models?kind=audio", "", nil, 400, "invalid_request"},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.Do(row.method, row.path, row.body, row.headers...)
			if a.Status != row.status || a.ErrorCode(t) != row.code {
				t.Errorf("%d %s, want %d %s", a.Status, a.Body, row.status, row.code)
			}
			if a.Header.Get("Content-Type") != "application/json" || len(a.Header.Values("X-Request-Id")) != 1 {
				t.Errorf("headers %v", a.Header)
			}
		})
	}
}

// TestEveryRuleIsMounted checks that each path of http.yaml is answered by its service and not by
// the mux.
func TestEveryRuleIsMounted(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../proto/genbus/v1/http.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, apitest.WithOperator)
	w.Durables()
	fill := strings.NewReplacer("{id}", apitest.Never("video_"), "{sequence}", "1000", "{kind}", "video", "{name}", "none")
	rules := regexp.MustCompile(`(?m)^ +(get|post|put|delete|patch): (\S+)`).FindAllStringSubmatch(string(data), -1)
	if len(rules) < 24 {
		t.Fatalf("%d rules", len(rules))
	}
	for _, rule := range rules {
		var headers []string
		path := fill.Replace(rule[2])
		if strings.HasPrefix(path, operatorPrefix) {
			headers = apitest.ByOperator
		}
		if rule[2] == operatorPrefix+"jobs/{id}" {
			path += "?kind=video&tenant=acme" // otherwise the service answers not_found
		}
		a := w.Do(strings.ToUpper(rule[1]), path, "", headers...)
		if a.Status == http.StatusMethodNotAllowed || a.Status == http.StatusNotFound && a.ErrorCode(t) == "not_found" {
			t.Errorf("%s %s: %d %s", rule[1], rule[2], a.Status, a.Body)
		}
	}
}
