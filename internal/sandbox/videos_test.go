package sandbox_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/sandbox"
)

func (b bundle) createVideos(t *testing.T, body string, headers ...string) string {
	t.Helper()
	a := b.do(t, http.MethodPost, "/v1/videos", body, headers...)
	id, _ := a.json(t)["id"].(string)
	if id == "" {
		t.Fatalf("create answered %d %s, want an id", a.status, a.body)
	}
	return id
}

// follow polls until status returns the last of words, and returns that answer. A slow test may
// miss earlier words, but they must arrive in order.
func follow(t *testing.T, poll func() answer, status func(map[string]any) any, words ...string) map[string]any {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for turn := 0; time.Now().Before(deadline); <-time.After(pollEvery) {
		v := poll().json(t)
		word, _ := status(v).(string)
		at := slices.Index(words, word)
		if at < turn {
			t.Fatalf("the task is %q after %q, want the turn %v", word, words[turn], words)
		}
		if turn = at; turn == len(words)-1 {
			return v
		}
	}
	t.Fatalf("the task was never %s", words[len(words)-1])
	return nil
}

func TestVideosOfAGateway(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{VideoDuration: 300 * time.Millisecond})
	before := time.Now().UnixMilli()
	a := b.do(t, http.MethodPost, "/v1/videos", `{"model":"sandbox-videos-gateway","prompt":"p","seconds":"5","input_reference":"https://x.example/i.png"}`)
	made := a.json(t)
	id := idOf(t, a)
	if a.status != 200 || made["status"] != "queued" || made["id"] != id || made["model"] != "sandbox-videos-gateway" {
		t.Errorf("created: %s", a.body)
	}
	poll := func() answer { return b.do(t, http.MethodGet, "/v1/videos/"+id, "") }
	done := follow(t, poll, flatStatus, "unknown", "processing", "completed")
	if ms, _ := done["created_at"].(float64); int64(ms) < before || done["model"] != "" || done["seconds"] != "5.1" ||
		at(done, "metadata", "url") != b.URL()+"/files/"+id+".mp4" {
		t.Errorf("completed: %v", done)
	}
	// The gateway also serves its tasks on the primary path, and deletes none.
	if v := b.poll(t, id).json(t); at(v, "data", "status") != "SUCCESS" || at(v, "data", "task_id") != id {
		t.Errorf("on the primary path: %v", v)
	}
	if a := b.do(t, http.MethodDelete, "/v1/videos/"+id, ""); a.status != 404 || at(a.json(t), "error", "message") != "Invalid URL (DELETE /v1/videos/"+id+")" {
		t.Errorf("delete: %d %s", a.status, a.body)
	}
	id = b.createVideos(t, `{"model":"sandbox-videos-gateway:duration_ms=0,fail=Post Text Risk,fail_code=50413","prompt":"p"}`)
	want := map[string]any{"code": "50413", "message": "Post Text Risk"}
	if v := poll().json(t); v["status"] != "failed" || !cmp.Equal(want, v["error"]) {
		t.Errorf("failed: %v", v)
	}
}

func TestVideosFailure(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	id := b.createVideos(t, `{"model":"sandbox-videos","prompt":"p","metadata":{"sandbox":{"duration_ms":0,"fail":"blocked","fail_code":"moderation_blocked"}}}`)
	v := b.do(t, http.MethodGet, "/v1/videos/"+id, "").json(t)
	want := map[string]any{"code": "moderation_blocked", "message": "blocked"}
	if v["status"] != "failed" || !cmp.Equal(want, v["error"]) || v["seconds"] != "4" || v["size"] != "720x1280" {
		t.Errorf("failed: %v", v)
	}
	if a := b.do(t, http.MethodGet, "/v1/videos/"+id+"/content", ""); a.status != 400 {
		t.Errorf("content of a failed video: %d", a.status)
	}
}

func TestVideosRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	for _, c := range []struct {
		name, body string
		status     int
		code       string // at error.code, or at code for the gateway
	}{
		{"not JSON", `{"model":`, 400, "invalid_json"},
		{"no model", `{"prompt":"p"}`, 400, "missing_model"},
		{"unknown model", `{"model":"sora-2","prompt":"p"}`, 503, "model_not_found"},
		{"model of another path", `{"model":"sandbox-video","prompt":"p"}`, 503, "model_not_found"},
		{"no prompt", `{"model":"sandbox-videos"}`, 400, "invalid_request"},
		{"seconds as a number", `{"model":"sandbox-videos","prompt":"p","seconds":4}`, 400, "invalid_json"},
		{"seconds of nothing", `{"model":"sandbox-videos","prompt":"p","seconds":"NaN"}`, 400, "invalid_request"},
		{"odd size", `{"model":"sandbox-videos","prompt":"p","size":"16:9"}`, 400, "invalid_size"},
		{"reference as a string", `{"model":"sandbox-videos","prompt":"p","input_reference":"https://x.example/i.png"}`, 400, "invalid_json"},
		{"reference of two kinds", `{"model":"sandbox-videos","prompt":"p","input_reference":{"image_url":"u","file_id":"f"}}`, 400, "invalid_json"},
		{"misspelt fault", `{"model":"sandbox-videos:statu=429","prompt":"p"}`, 400, "invalid_request"},
		{"asked for", `{"model":"sandbox-videos:status=429,code=insufficient_quota","prompt":"p"}`, 429, "insufficient_quota"},
		{"gateway, seconds as a number", `{"model":"sandbox-videos-gateway","prompt":"p","seconds":4}`, 400, "invalid_json"},
		{"gateway, reference as an object", `{"model":"sandbox-videos-gateway","prompt":"p","input_reference":{"image_url":"u"}}`, 400, "invalid_json"},
		{"gateway, asked for", `{"model":"sandbox-videos-gateway:status=403","prompt":"p"}`, 403, "insufficient_user_quota"},
		{"gateway, refused with 200", `{"model":"sandbox-videos-gateway:status=200,code=fail_to_fetch_task","prompt":"p"}`, 200, "fail_to_fetch_task"},
	} {
		a := b.do(t, http.MethodPost, "/v1/videos", c.body)
		code := at(a.json(t), "error", "code")
		if strings.HasPrefix(c.name, "gateway") {
			code = a.json(t)["code"]
		}
		if a.status != c.status || code != c.code {
			t.Errorf("%s: %d %s, want %d with code %q", c.name, a.status, a.body, c.status, c.code)
		}
	}
	for path, want := range map[string]int{
		"/v1/videos/video_none": 404, "/v1/videos/task_none": 400, "/v1/videos/video_none/content": 404, "/v1/videos/video_none/remix": 404,
		"/v1/videos?limit=101": 400, "/v1/videos?order=up": 400, "/v1/videos?after=video_none": 404,
	} {
		if a := b.do(t, http.MethodGet, path, ""); a.status != want {
			t.Errorf("%s: %d %s, want %d", path, a.status, a.body, want)
		}
	}
	running := b.createVideos(t, `{"model":"sandbox-videos:duration_ms=60000","prompt":"p"}`)
	if a := b.do(t, http.MethodDelete, "/v1/videos/"+running, ""); a.status != 400 {
		t.Errorf("delete of a running video: %d %s", a.status, a.body)
	}
}

func TestVideosList(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	idOf(t, b.create(t, `{"model":"sandbox-video","prompt":"of another protocol"}`))
	var made []any
	for range 3 {
		made = append(made, b.createVideos(t, `{"model":"sandbox-videos:duration_ms=0","prompt":"p"}`))
	}
	list := func(query string) (ids []any, page map[string]any) {
		page = b.do(t, http.MethodGet, "/v1/videos"+query, "").json(t)
		for _, v := range page["data"].([]any) {
			ids = append(ids, at(v, "id"))
		}
		return ids, page
	}
	for _, c := range []struct {
		query string
		want  []any
		more  bool
	}{
		{"", []any{made[2], made[1], made[0]}, false},
		{"?order=asc", []any{made[0], made[1], made[2]}, false},
		{"?limit=2", []any{made[2], made[1]}, true},
		{"?limit=2&after=" + made[1].(string), []any{made[0]}, false},
		{"?after=" + made[0].(string), nil, false},
	} {
		ids, page := list(c.query)
		if diff := cmp.Diff(c.want, ids); diff != "" || page["has_more"] != c.more || page["object"] != "list" {
			t.Errorf("%s: %v; (-want +got):\n%s", c.query, page, diff)
		}
		if len(ids) > 0 && (page["first_id"] != ids[0] || page["last_id"] != ids[len(ids)-1]) {
			t.Errorf("%s: first %v, last %v", c.query, page["first_id"], page["last_id"])
		}
	}
	b.do(t, http.MethodDelete, "/v1/videos/"+made[1].(string), "")
	if ids, _ := list(""); !cmp.Equal(ids, []any{made[2], made[0]}) {
		t.Errorf("after a delete: %v", ids)
	}
	if n := b.Sandbox.Stats().Tasks; n != 3 {
		t.Errorf("%d tasks after a delete, want 3", n)
	}
}

func TestVideosForm(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	form := func(fields [][2]string, file string) (body, contentType string) {
		var buf bytes.Buffer
		w := multipart.NewWriter(&buf)
		for _, f := range fields {
			if err := w.WriteField(f[0], f[1]); err != nil {
				t.Fatal(err)
			}
		}
		if file != "" {
			part, err := w.CreateFormFile(file, "i.png")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := part.Write([]byte("\x89PNG")); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return buf.String(), w.FormDataContentType()
	}
	model, prompt := [2]string{"model", sandbox.ModelVideos}, [2]string{"prompt", "p"}
	for _, c := range []struct {
		name   string
		fields [][2]string
		file   string
		status int
	}{
		{"file", [][2]string{model, prompt}, "input_reference", 200},
		{"URL", [][2]string{model, prompt, {"input_reference[image_url]", "https://x.example/i.png"}, {"vendor", "x"}}, "", 200},
		{"text for a gateway", [][2]string{{"model", sandbox.ModelVideosGateway}, prompt, {"input_reference", "https://x.example/i.png"}}, "", 200},
		{"behaviour", [][2]string{model, prompt, {"metadata", `{"sandbox":{"status":418}}`}}, "", 418},
		{"file, no prompt", [][2]string{model}, "input_reference", 200},
		{"URL, no prompt", [][2]string{model, {"input_reference[image_url]", "https://x.example/i.png"}}, "", 200},
		{"empty reference", [][2]string{model, prompt, {"input_reference", ""}}, "", 400},
		{"prompt as a file", [][2]string{model}, "prompt", 400},
		{"no prompt", [][2]string{model}, "", 400},
	} {
		body, contentType := form(c.fields, c.file)
		if a := b.do(t, http.MethodPost, "/v1/videos", body, "Content-Type", contentType); a.status != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, a.status, a.body, c.status)
		}
	}
	body, contentType := form([][2]string{model, prompt}, "")
	if a := b.do(t, http.MethodPost, "/v1/videos", body[:len(body)-8], "Content-Type", contentType); a.status != 400 {
		t.Errorf("a form without its end: %d %s", a.status, a.body)
	}
	if a := b.do(t, http.MethodPost, "/v1/videos", body, "Content-Type", "multipart/form-data"); a.status != 400 {
		t.Errorf("a form without a boundary: %d %s", a.status, a.body)
	}
}

// TestVideosFaults proves that the faults and the ledger of the primary path also apply here.
func TestVideosFaults(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	const body = `{"model":"sandbox-videos:drop=after_create,times=1","prompt":"p"}`
	if a := b.do(t, http.MethodPost, "/v1/videos", body, "Idempotency-Key", "k"); a.err == nil {
		t.Errorf("dropped create: %d %s", a.status, a.body)
	}
	b.createVideos(t, body, "Idempotency-Key", "k")
	if stats := b.Sandbox.Stats(); stats.Tasks != 1 || stats.MaxAcceptsPerKey != 2 || stats.CreatesPerProtocol["videos"] != 2 {
		t.Errorf("stats: %+v", stats)
	}
	id := b.createVideos(t, `{"model":"sandbox-videos:poll_status=500,poll_fail_times=1","prompt":"p"}`)
	for i, want := range []int{500, 200} {
		if a := b.do(t, http.MethodGet, "/v1/videos/"+id, ""); a.status != want {
			t.Errorf("poll %d: %d %s, want %d", i, a.status, a.body, want)
		}
	}
	if a := b.do(t, http.MethodPost, "/v1/videos", `{"model":"sandbox-videos:status=201,no_id","prompt":"p"}`); a.status != 201 || a.json(t)["id"] != nil {
		t.Errorf("without an id: %d %s", a.status, a.body)
	}
	if a := b.do(t, http.MethodGet, "/v1/videos/"+id, "", "X-Sandbox", `{"status":429,"retry_after":"3"}`); a.status != 429 ||
		a.header.Get("Retry-After") != "3" || at(a.json(t), "error", "type") != "rate_limit_error" {
		t.Errorf("fault of a read: %d %s", a.status, a.body)
	}
}
