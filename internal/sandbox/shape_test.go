package sandbox_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/sandbox"
)

func TestShapes(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	for _, c := range []struct {
		shape, completed string
		url              []any  // path of the URL
		ends             string // suffix of the URL
	}{
		{"old", "succeeded", []any{"url"}, ".mp4"},
		{"result_url", "completed", []any{"result_url"}, ".mp4"},
		{"video_url", "completed", []any{"video_url"}, ".mp4"},
		{"metadata_url", "completed", []any{"metadata", "url"}, ".mp4"},
		{"data_uri", "completed", []any{"url"}, ""},
		{"huawei", "succeeded", []any{"content", "result_url"}, ".mp4"},
		{"ark", "succeeded", []any{"content", "video_url"}, ".mp4"},
		{"output", "completed", []any{"output", "video_url"}, ".mp4"},
		{"together", "completed", []any{"outputs", "video_url"}, ".mp4"},
		{"openrouter", "completed", []any{"unsigned_urls", 1}, ".2.mp4"},
		{"realtime", "succeeded", []any{"data", "url"}, ".mp4"},
		{"fail_reason", "SUCCESS", []any{"data", "fail_reason"}, ".mp4"},
		{"content_path", "SUCCESS", []any{"data", "result_url"}, "/content"},
		{"task_result", "SUCCESS", []any{"data", "data", "task_result", "videos", 1, "url"}, ".2.mp4"},
		{"vendor_video_url", "SUCCESS", []any{"data", "data", "data", "video_url"}, ".mp4"},
	} {
		status := flatStatus
		if c.url[0] == "data" {
			status = envelopeStatus
		}
		id := idOf(t, b.create(t, `{"model":"sandbox-video:duration_ms=0,shape=`+c.shape+`","prompt":"p","n":2}`))
		v := b.poll(t, id).json(t)
		url, _ := at(v, c.url...).(string)
		if status(v) != c.completed || !strings.HasSuffix(url, c.ends) || url == "" {
			t.Errorf("%s: %v", c.shape, v)
		}
		if path, isHere := strings.CutPrefix(url, b.URL()); isHere {
			if a := b.do(t, http.MethodGet, path, ""); a.status != 200 {
				t.Errorf("%s: %s answers %d", c.shape, url, a.status)
			}
		}
		id = idOf(t, b.create(t, `{"model":"sandbox-video:duration_ms=60000,shape=`+c.shape+`","prompt":"p"}`))
		if a := b.poll(t, id); strings.Contains(string(a.body), ".mp4") {
			t.Errorf("%s has a URL at once: %s", c.shape, a.body)
		}
		id = idOf(t, b.create(t, `{"model":"sandbox-video:duration_ms=0,fail=text risk,shape=`+c.shape+`","prompt":"p"}`))
		if a := b.poll(t, id); !strings.Contains(string(a.body), `"text risk"`) || !strings.EqualFold(status(a.json(t)).(string)[:4], "fail") {
			t.Errorf("%s failed: %s", c.shape, a.body)
		}
	}
	for _, shape := range []string{"sora", "Huawei"} {
		if a := b.create(t, `{"model":"sandbox-video:shape=`+shape+`","prompt":"p"}`); a.status != 400 || !strings.Contains(string(a.body), "huawei") {
			t.Errorf("%s: %d %s, want 400 and the known ones", shape, a.status, a.body)
		}
	}
}

func TestAccepted202(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	a := b.create(t, `{"model":"sandbox-video:accept_202,duration_ms=0,shape=openrouter","prompt":"p"}`)
	v := a.json(t)
	id, _ := v["id"].(string)
	if a.status != http.StatusAccepted || len(v) != 3 || v["status"] != "pending" || v["polling_url"] != b.URL()+"/v1/video/generations/"+id {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if v := b.poll(t, id).json(t); v["status"] != "completed" {
		t.Errorf("polled: %v", v)
	}
	a = b.create(t, `{"model":"sandbox-video:accept_202,no_id","prompt":"p"}`)
	if v := a.json(t); a.status != http.StatusAccepted || v["id"] != nil || !strings.Contains(v["polling_url"].(string), "/task_") {
		t.Errorf("without an id: %d %s", a.status, a.body)
	}
}
