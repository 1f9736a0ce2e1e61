package api_test

import (
	"net/http"
	"strings"
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
)

func TestVideoCreateAndGet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.post("/v1/video/generations", videoBody, "Genbus-Labels", "k=v,l=m", "X-Request-Id", "call-1")
	if a.status != http.StatusOK || a.header.Get("X-Request-Id") != "call-1" {
		t.Fatalf("%d %v %s", a.status, a.header, a.body)
	}
	v := a.json(t)
	id, _ := v["task_id"].(string)
	if id == "" || v["id"] != id || a.header.Get("Genbus-Job-Id") != id || v["status"] != "queued" || v["object"] != "video" || v["progress"] != 0.0 {
		t.Errorf("created %s", a.body)
	}
	w.endVideo(w.startVideo("default", id))
	a = w.get("/v1/video/generations/" + id)
	v = a.json(t)
	if v["status"] != "completed" || v["url"] != "http://x/1.mp4" || v["completed_at"] == nil || v["progress"] != 100.0 || v["error"] != nil {
		t.Errorf("got %s", a.body)
	}
	if labels, _ := v["labels"].(map[string]any); labels["k"] != "v" || labels["l"] != "m" {
		t.Errorf("labels %v", v["labels"])
	}
	if a.header.Get("Genbus-Job-Id") != id || a.header.Get("X-Request-Id") == "" {
		t.Errorf("headers %v", a.header)
	}
	head := w.do(http.MethodHead, "/v1/video/generations/"+id, "")
	if head.status != http.StatusOK || head.body != "" || head.header.Get("Content-Length") != a.header.Get("Content-Length") {
		t.Errorf("HEAD: %+v, want the headers of %v", head, a.header)
	}
}

func TestVideoIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.post("/v1/video/generations", videoBody, "Idempotency-Key", "k1")
	again := w.post("/v1/video/generations", `{"prompt":"a cat", "model":"sandbox-video"}`, "Idempotency-Key", "k1")
	if again.status != http.StatusOK || again.json(t)["id"] != first.json(t)["id"] {
		t.Errorf("first %s, again %s", first.body, again.body)
	}
	other := w.post("/v1/video/generations", `{"model":"sandbox-video","prompt":"a dog"}`, "Idempotency-Key", "k1")
	if other.status != http.StatusUnprocessableEntity || other.errorCode(t) != "idempotency_key_reused" ||
		other.header.Get("Genbus-Job-Id") != first.header.Get("Genbus-Job-Id") {
		t.Errorf("%d %v %s", other.status, other.header, other.body)
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
		"a form":              {videoBody, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"},
		"labels":              {videoBody, []string{"Genbus-Labels", "k"}, 400, "invalid_request"},
		"too large":           {`{"model":"sandbox-video","prompt":"` + strings.Repeat("x", 2<<10) + `"}`, nil, 413, "body_too_large"},
		"an unreadable key":   {videoBody, []string{"Idempotency-Key", "ä"}, 400, "invalid_request"},
		"an empty body":       {"", nil, 400, "invalid_json"},
		"another JSON type":   {videoBody, []string{"Content-Type", "application/vnd.x+json; charset=utf-8"}, 200, ""},
		"no type":             {videoBody, []string{"Content-Type", ""}, 200, ""},
		"JSON with a charset": {videoBody, []string{"Content-Type", "application/json; charset=utf-8"}, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.post(path, row.body, row.headers...)
			if a.status != row.status || row.code != "" && a.errorCode(t) != row.code {
				t.Errorf("%d %s, want %d %s", a.status, a.body, row.status, row.code)
			}
			if a.header.Get("Content-Type") != "application/json" || a.header.Get("X-Request-Id") == "" {
				t.Errorf("headers %v", a.header)
			}
		})
	}
	t.Run("too large and chunked", func(t *testing.T) {
		r := w.request(http.MethodPost, path, `{"model":"`+strings.Repeat("x", 2<<10)+`"}`)
		r.ContentLength = -1
		res, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d", res.StatusCode)
		}
	})
}

// TestMaxBodyBytesAboveTheDefault: what http.max_body_bytes allows is accepted by every path
// that takes a body, and what is longer is 413 on each.
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
		if a := w.post(row.path, of(row.begin, row.end, 33<<20)); a.status != http.StatusOK {
			t.Errorf("%s with 33 MiB: %d %.200s", row.path, a.status, a.body)
		}
		if a := w.post(row.path, of(row.begin, row.end, limit+1)); a.status != http.StatusRequestEntityTooLarge || a.errorCode(t) != "body_too_large" {
			t.Errorf("%s with more than the limit: %d %.200s", row.path, a.status, a.body)
		}
	}
}

// TestLargestBodyByGRPC: the message around a body of http.max_body_bytes fits.
func TestLargestBodyByGRPC(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	w := newWorld(t, func(c *config.Config) {
		c.HTTP.MaxBodyBytes, c.GRPC.MaxMessageBytes = limit, limit
	})
	videos := genbusv1.NewVideoServiceClient(w.dial())
	for size, want := range map[int]string{limit: "", limit + 1: "body_too_large"} {
		const begin, end = `{"model":"sandbox-video","prompt":"p","image":"data:image/png;base64,`, `"}`
		body := begin + strings.Repeat("x", size-len(begin)-len(end)) + end
		_, err := videos.CreateVideoTask(t.Context(), &genbusv1.CreateVideoTaskRequest{Request: &genbusv1.VideoRequest{
			Labels: map[string]string{"team": "a"}, Body: &genbusv1.VideoRequest_RawJson{RawJson: []byte(body)},
		}})
		if reason(err) != want || (want == "") != (err == nil) {
			t.Errorf("a body of %d bytes: %v", size, err)
		}
	}
}

func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, twoTenants)
	acme, globex := []string{"Authorization", "Bearer key-acme"}, []string{"Authorization", "bearer key-globex"}
	id := w.createVideo(acme...)
	for _, path := range []string{"/v1/video/generations/" + id, "/v1/video/generations/" + id + "/events", "/genbus/v1/videos/" + id} {
		if a := w.get(path, globex...); a.status != http.StatusNotFound || a.errorCode(t) != "task_not_found" {
			t.Errorf("%s of another tenant: %d %s", path, a.status, a.body)
		}
	}
	if a := w.post("/genbus/v1/videos/"+id+"/cancel", "", globex...); a.status != http.StatusNotFound {
		t.Errorf("cancel by another tenant: %d %s", a.status, a.body)
	}
	if a := w.get("/v1/video/generations/"+id, acme...); a.status != http.StatusOK {
		t.Errorf("its own: %d %s", a.status, a.body)
	}
	for _, headers := range [][]string{nil, {"Authorization", "Bearer key-other"}, {"Authorization", "Basic key-acme"}, {"Authorization", "key-acme"}} {
		for _, path := range []string{"/v1/models", "/genbus/v1/videos"} {
			a := w.get(path, headers...)
			if a.status != http.StatusUnauthorized || a.errorCode(t) != "invalid_api_key" {
				t.Errorf("%s with %v: %d %s", path, headers, a.status, a.body)
			}
		}
	}
}

func TestIDsOfAnotherKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.createVideo()
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
		if a := w.get(path); a.status != http.StatusNotFound || a.errorCode(t) != code {
			t.Errorf("%s: %d %s, want %s", path, a.status, a.body, code)
		}
	}
}
