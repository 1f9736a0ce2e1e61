package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/config"
)

func TestVideoCreateAndGet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.Post("/v1/video/generations", apitest.VideoBody, "Genbus-Labels", "k=v,l=m", "X-Request-Id", "call-1")
	if a.Status != http.StatusOK || a.Header.Get("X-Request-Id") != "call-1" {
		t.Fatalf("%d %v %s", a.Status, a.Header, a.Body)
	}
	v := a.JSON(t)
	id, _ := v["task_id"].(string)
	if id == "" || v["id"] != id || a.Header.Get("Genbus-Job-Id") != id || v["status"] != "queued" || v["object"] != "video" || v["progress"] != 0.0 {
		t.Errorf("created %s", a.Body)
	}
	w.EndVideo(w.StartVideo("default", id))
	a = w.Get("/v1/video/generations/" + id)
	v = a.JSON(t)
	if v["status"] != "completed" || v["url"] != "http://x/1.mp4" || v["completed_at"] == nil || v["progress"] != 100.0 || v["error"] != nil {
		t.Errorf("got %s", a.Body)
	}
	if labels, _ := v["labels"].(map[string]any); labels["k"] != "v" || labels["l"] != "m" {
		t.Errorf("labels %v", v["labels"])
	}
	if a.Header.Get("Genbus-Job-Id") != id || a.Header.Get("X-Request-Id") == "" {
		t.Errorf("headers %v", a.Header)
	}
	head := w.Do(http.MethodHead, "/v1/video/generations/"+id, "")
	if head.Status != http.StatusOK || head.Body != "" || head.Header.Get("Content-Length") != a.Header.Get("Content-Length") {
		t.Errorf("HEAD: %+v, want the headers of %v", head, a.Header)
	}
}

func TestVideoIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.Post("/v1/video/generations", apitest.VideoBody, "Idempotency-Key", "k1")
	again := w.Post("/v1/video/generations", `{"prompt":"a cat", "model":"sandbox-video"}`, "Idempotency-Key", "k1")
	if again.Status != http.StatusOK || again.JSON(t)["id"] != first.JSON(t)["id"] {
		t.Errorf("first %s, again %s", first.Body, again.Body)
	}
	other := w.Post("/v1/video/generations", `{"model":"sandbox-video","prompt":"a dog"}`, "Idempotency-Key", "k1")
	if other.Status != http.StatusUnprocessableEntity || other.ErrorCode(t) != "idempotency_key_reused" ||
		other.Header.Get("Genbus-Job-Id") != first.Header.Get("Genbus-Job-Id") {
		t.Errorf("%d %v %s", other.Status, other.Header, other.Body)
	}
}

func TestVideoRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config.Config) { c.HTTP.MaxBodyBytes = 1 << 10 })
	const path = "/v1/video/generations"
	for name, row := range map[string]struct {
		body    string
		headers []string
		status  int
		code    string
	}{
		"no JSON":             {`{"model":`, nil, 400, "invalid_json"},
		"no model":            {`{"prompt":"p"}`, nil, 400, "invalid_request"},
		"no such model":       {`{"model":"other","prompt":"p"}`, nil, 404, "model_not_found"},
		"a form":              {apitest.VideoBody, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"},
		"labels":              {apitest.VideoBody, []string{"Genbus-Labels", "k"}, 400, "invalid_request"},
		"too large":           {`{"model":"sandbox-video","prompt":"` + strings.Repeat("x", 2<<10) + `"}`, nil, 413, "body_too_large"},
		"an unreadable key":   {apitest.VideoBody, []string{"Idempotency-Key", "ä"}, 400, "invalid_request"},
		"an empty body":       {"", nil, 400, "invalid_json"},
		"another JSON type":   {apitest.VideoBody, []string{"Content-Type", "application/vnd.x+json; charset=utf-8"}, 200, ""},
		"no type":             {apitest.VideoBody, []string{"Content-Type", ""}, 200, ""},
		"JSON with a charset": {apitest.VideoBody, []string{"Content-Type", "application/json; charset=utf-8"}, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.Post(path, row.body, row.headers...)
			if a.Status != row.status || row.code != "" && a.ErrorCode(t) != row.code {
				t.Errorf("%d %s, want %d %s", a.Status, a.Body, row.status, row.code)
			}
			if a.Header.Get("Content-Type") != "application/json" || a.Header.Get("X-Request-Id") == "" {
				t.Errorf("headers %v", a.Header)
			}
		})
	}
	t.Run("too large and chunked", func(t *testing.T) {
		r := w.Request(http.MethodPost, path, `{"model":"`+strings.Repeat("x", 2<<10)+`"}`)
		r.ContentLength = -1
		res, err := w.Client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d", res.StatusCode)
		}
	})
}

// TestMaxBodyBytesAboveTheDefault checks that every path accepts bodies up to http.max_body_bytes
// and answers longer ones with 413.
func TestMaxBodyBytesAboveTheDefault(t *testing.T) {
	t.Parallel()
	const limit = 34 << 20
	w := newWorld(t, func(c *config.Config) {
		c.HTTP.MaxBodyBytes, c.GRPC.MaxMessageBytes = limit, 2*limit
	})
	of := func(begin, end string, size int) string {
		return begin + strings.Repeat("x", size-len(begin)-len(end)) + end
	}
	for _, row := range []struct{ path, begin, end string }{
		{"/v1/video/generations", `{"model":"sandbox-video","prompt":"p","image":"data:image/png;base64,`, `"}`},
		{"/v1/chat/completions", `{"model":"sandbox-chat","messages":[{"role":"user","content":"`, `"}]}`},
	} {
		if a := w.Post(row.path, of(row.begin, row.end, 33<<20)); a.Status != http.StatusOK {
			t.Errorf("%s with 33 MiB: %d %.200s", row.path, a.Status, a.Body)
		}
		if a := w.Post(row.path, of(row.begin, row.end, limit+1)); a.Status != http.StatusRequestEntityTooLarge || a.ErrorCode(t) != "body_too_large" {
			t.Errorf("%s with more than the limit: %d %.200s", row.path, a.Status, a.Body)
		}
	}
}

func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants)
	acme, globex := []string{"Authorization", "Bearer key-acme"}, []string{"Authorization", "bearer key-globex"}
	id := w.CreateVideo(acme...)
	for _, path := range []string{"/v1/video/generations/" + id, "/v1/video/generations/" + id + "/events", "/genbus/v1/videos/" + id} {
		if a := w.Get(path, globex...); a.Status != http.StatusNotFound || a.ErrorCode(t) != "task_not_found" {
			t.Errorf("%s of another tenant: %d %s", path, a.Status, a.Body)
		}
	}
	if a := w.Post("/genbus/v1/videos/"+id+"/cancel", "", globex...); a.Status != http.StatusNotFound {
		t.Errorf("cancel by another tenant: %d %s", a.Status, a.Body)
	}
	if a := w.Get("/v1/video/generations/"+id, acme...); a.Status != http.StatusOK {
		t.Errorf("its own: %d %s", a.Status, a.Body)
	}
	for _, headers := range [][]string{nil, {"Authorization", "Bearer key-other"}, {"Authorization", "Basic key-acme"}, {"Authorization", "key-acme"}} {
		for _, path := range []string{"/v1/models", "/genbus/v1/videos"} {
			a := w.Get(path, headers...)
			if a.Status != http.StatusUnauthorized || a.ErrorCode(t) != "invalid_api_key" {
				t.Errorf("%s with %v: %d %s", path, headers, a.Status, a.Body)
			}
		}
	}
}

func TestIDsOfAnotherKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateVideo()
	chatID := "chat_" + strings.TrimPrefix(id, "video_")
	for path, code := range map[string]string{
		"/v1/video/generations/" + chatID:     "task_not_found",
		"/v1/video/generations/%2A":           "task_not_found",
		"/genbus/v1/videos/%3E":               "task_not_found",
		"/v1/video/generations/video_x":       "task_not_found",
		"/v1/video/generations/a%20b.%2A.%3E": "task_not_found",
		"/genbus/v1/chats/" + id:              "chat_not_found",
		"/genbus/v1/chats/" + chatID:          "chat_not_found",
		"/genbus/v1/chats/" + id + "/events":  "chat_not_found",
	} {
		if a := w.Get(path); a.Status != http.StatusNotFound || a.ErrorCode(t) != code {
			t.Errorf("%s: %d %s, want %s", path, a.Status, a.Body, code)
		}
	}
}
