package sandbox_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/sandbox"
)

func klingStatus(v map[string]any) any { return at(v, "data", "task_status") }

func (b bundle) createKling(t *testing.T, path, body string, headers ...string) string {
	t.Helper()
	a := b.do(t, http.MethodPost, path, body, headers...)
	id, _ := at(a.json(t), "data", "task_id").(string)
	if id == "" {
		t.Fatalf("create answered %d %s, want data.task_id", a.status, a.body)
	}
	return id
}

// jwt returns a signed token. It does not use the code under test.
func jwt(accessKey, secretKey string, expires, notBefore time.Duration) string {
	now := time.Now()
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	signed := part(`{"alg":"HS256","typ":"JWT"}`) + "." +
		part(fmt.Sprintf(`{"iss":%q,"exp":%d,"nbf":%d}`, accessKey, now.Add(expires).Unix(), now.Add(notBefore).Unix()))
	mac := hmac.New(sha256.New, []byte(secretKey))
	mac.Write([]byte(signed))
	return "Bearer " + signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func TestKlingLife(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1/videos/text2video", "/kling/v1/videos/text2video"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			b := setup(t, sandbox.Options{VideoDuration: 300 * time.Millisecond})
			before := time.Now().UnixMilli()
			a := b.do(t, http.MethodPost, path, `{"model_name":"sandbox-kling-v1-6","prompt":"a cat","duration":"10","aspect_ratio":"9:16","external_task_id":"mine"}`)
			made := a.json(t)
			id, _ := at(made, "data", "task_id").(string)
			if a.status != 200 || made["code"] != 0.0 || made["message"] != "SUCCEED" || !regexp.MustCompile(`^\d{18}$`).MatchString(id) ||
				klingStatus(made) != "submitted" || at(made, "data", "task_info", "external_task_id") != "mine" || at(made, "data", "task_result") != nil {
				t.Errorf("created: %s", a.body)
			}
			if ms, _ := at(made, "data", "created_at").(float64); int64(ms) < before {
				t.Errorf("created at %v, want milliseconds", ms)
			}
			poll := func() answer { return b.do(t, http.MethodGet, path+"/"+id, "") }
			done := follow(t, poll, klingStatus, "submitted", "processing", "succeed")
			video := at(done, "data", "task_result", "videos", 0)
			if at(video, "url") != b.URL()+"/files/"+id+".mp4" || at(video, "duration") != "10.1" || at(done, "data", "final_unit_deduction") != "10" {
				t.Errorf("succeeded: %v", done)
			}
			if v := b.do(t, http.MethodGet, path+"/mine", "").json(t); at(v, "data", "task_id") != id {
				t.Errorf("by the client's own id: %v", v)
			}
			young := b.createKling(t, path, `{"model_name":"sandbox-kling:duration_ms=600000","prompt":"p"}`)
			v := b.do(t, http.MethodGet, path+"/"+young, "").json(t)
			if klingStatus(v) != "submitted" || !cmp.Equal(at(v, "data", "task_result"), any(map[string]any{})) || at(v, "data", "task_status_msg") != "" {
				t.Errorf("at first: %v", v)
			}
		})
	}
}

func TestKlingFailure(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	id := b.createKling(t, "/v1/videos/image2video", `{"model_name":"sandbox-kling:duration_ms=0,fail=blocked by policy","image":"https://x.example/i.png"}`)
	a := b.do(t, http.MethodGet, "/v1/videos/image2video/"+id, "")
	if v := a.json(t); a.status != 200 || v["code"] != 0.0 || klingStatus(v) != "failed" || at(v, "data", "task_status_msg") != "blocked by policy" {
		t.Errorf("failed: %d %s", a.status, a.body)
	}
	if a := b.do(t, http.MethodGet, "/v1/videos/text2video/"+id, ""); a.status != 404 || a.json(t)["code"] != 1203.0 {
		t.Errorf("on the path of the other kind: %d %s", a.status, a.body)
	}
}

func TestKlingRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	b.createKling(t, "/v1/videos/text2video", `{"model_name":"sandbox-kling","prompt":"p","external_task_id":"taken"}`)
	for _, c := range []struct {
		name, kind, body string
		status           int
		code             float64
	}{
		{"not JSON", "text2video", `{"model_name":`, 400, 1201},
		{"no model, which means kling-v1", "text2video", `{"prompt":"p"}`, 404, 1203},
		{"unknown model", "text2video", `{"model_name":"kling-v1","prompt":"p"}`, 404, 1203},
		{"no prompt", "text2video", `{"model_name":"sandbox-kling"}`, 400, 1201},
		{"long prompt", "text2video", `{"model_name":"sandbox-kling","prompt":"` + strings.Repeat("猫", 2501) + `"}`, 400, 1201},
		{"no image", "image2video", `{"model_name":"sandbox-kling","prompt":"p"}`, 400, 1201},
		{"image as a data URL", "image2video", `{"model_name":"sandbox-kling","image":"data:image/png;base64,AA=="}`, 400, 1201},
		{"duration as a number", "text2video", `{"model_name":"sandbox-kling","prompt":"p","duration":5}`, 400, 1201},
		{"odd duration", "text2video", `{"model_name":"sandbox-kling","prompt":"p","duration":"5.5"}`, 400, 1201},
		{"odd ratio", "text2video", `{"model_name":"sandbox-kling","prompt":"p","aspect_ratio":"2:1"}`, 400, 1201},
		{"external id again", "text2video", `{"model_name":"sandbox-kling","prompt":"p","external_task_id":"taken"}`, 400, 1201},
		{"misspelt fault", "text2video", `{"model_name":"sandbox-kling:statu=1","prompt":"p"}`, 400, 1201},
		{"in the body", "text2video", `{"model_name":"sandbox-kling","prompt":"p","metadata":{"sandbox":{"status":429,"code":"1303"}}}`, 429, 1303},
		{"in the model", "text2video", `{"model_name":"sandbox-kling-v2:status=429,code=1102","prompt":"p"}`, 429, 1102},
		{"with status 200", "text2video", `{"model_name":"sandbox-kling:status=200,code=1303","prompt":"p"}`, 200, 1303},
		{"401", "text2video", `{"model_name":"sandbox-kling:status=401","prompt":"p"}`, 401, 1000},
		{"403", "text2video", `{"model_name":"sandbox-kling:status=403","prompt":"p"}`, 403, 1103},
		{"429", "text2video", `{"model_name":"sandbox-kling:status=429","prompt":"p"}`, 429, 1302},
		{"500", "text2video", `{"model_name":"sandbox-kling:status=500","prompt":"p"}`, 500, 5000},
		{"502", "text2video", `{"model_name":"sandbox-kling:status=502","prompt":"p"}`, 502, 5000},
		{"503", "text2video", `{"model_name":"sandbox-kling:status=503","prompt":"p"}`, 503, 5001},
		{"504", "text2video", `{"model_name":"sandbox-kling:status=504","prompt":"p"}`, 504, 5002},
	} {
		a := b.do(t, http.MethodPost, "/v1/videos/"+c.kind, c.body)
		if v := a.json(t); a.status != c.status || v["code"] != c.code || v["data"] != nil || v["request_id"] == "" {
			t.Errorf("%s: %d %s, want %d with code %v", c.name, a.status, a.body, c.status, c.code)
		}
	}
	if n := b.Sandbox.Stats().Tasks; n != 1 {
		t.Errorf("%d tasks after refusals, want the first", n)
	}
	if a := b.do(t, http.MethodGet, "/v1/videos/text2video/1", "", "X-Sandbox", `{"status":503}`); a.status != 503 || a.json(t)["code"] != 5001.0 {
		t.Errorf("fault of a read: %d %s", a.status, a.body)
	}
	id := b.createKling(t, "/v1/videos/text2video", `{"model_name":"sandbox-kling:poll_status=429,poll_code=1302,poll_fail_times=1","prompt":"p"}`)
	for i, want := range []float64{1302, 0} {
		if v := b.do(t, http.MethodGet, "/v1/videos/text2video/"+id, "").json(t); v["code"] != want {
			t.Errorf("poll %d: %v, want code %v", i, v, want)
		}
	}
}

func TestKlingList(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	const path = "/kling/v1/videos/text2video"
	var made []any
	for range 3 {
		made = append(made, b.createKling(t, path, `{"model_name":"sandbox-kling","prompt":"p"}`))
	}
	b.createKling(t, "/kling/v1/videos/image2video", `{"model_name":"sandbox-kling","image":"AAAA"}`)
	for query, want := range map[string][]any{
		"": {made[2], made[1], made[0]}, "?pageSize=2": {made[2], made[1]}, "?pageNum=2&pageSize=2": {made[0]}, "?pageNum=1000&pageSize=500": nil,
	} {
		var got []any
		for _, task := range b.do(t, http.MethodGet, path+query, "").json(t)["data"].([]any) {
			got = append(got, at(task, "task_id"))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
	for _, query := range []string{"?pageNum=0", "?pageNum=1001", "?pageSize=501", "?pageSize=x"} {
		if a := b.do(t, http.MethodGet, path+query, ""); a.status != 400 || a.json(t)["code"] != 1201.0 {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
}

func TestKlingThroughAGateway(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	const path = "/kling/v1/videos/text2video"
	a := b.do(t, http.MethodPost, path, `{"model_name":"sandbox-kling-gateway","prompt":"p"}`)
	if a.status != 400 || at(a.json(t), "error", "message") != "Model name not specified" {
		t.Errorf("without model: %d %s", a.status, a.body)
	}
	a = b.do(t, http.MethodPost, path,
		`{"model":"sandbox-kling-gateway:duration_ms=0","model_name":"sandbox-kling-gateway","prompt":"p","duration":"15","metadata":{"duration":"10"}}`)
	id := idOf(t, a)
	if v := a.json(t); a.status != 200 || v["object"] != "video" || v["status"] != "queued" || v["id"] != id || !strings.HasPrefix(id, "task_") {
		t.Errorf("created: %d %s", a.status, a.body)
	}
	v := b.do(t, http.MethodGet, path+"/"+id, "").json(t)
	vendor := at(v, "data", "data", "data", "task_result", "videos", 0)
	if v["code"] != "success" || envelopeStatus(v) != "SUCCESS" || at(vendor, "duration") != "10" || at(vendor, "url") != at(v, "data", "result_url") {
		t.Errorf("polled: %v", v)
	}
	if a := b.do(t, http.MethodGet, path+"/task_none", ""); a.status != 400 || a.json(t)["code"] != "task_not_exist" {
		t.Errorf("unknown: %d %s", a.status, a.body)
	}
	for body, want := range map[string]string{
		`{"model":"sandbox-kling-gateway:status=403","prompt":"p"}`:                        "insufficient_user_quota",
		`{"model":"sandbox-kling-gateway"}`:                                                "invalid_request",
		`{"model":"sandbox-kling-gateway","prompt":"p","metadata":{"duration":10}}`:        "invalid_request",
		`{"model":"sandbox-kling-gateway","prompt":"p","metadata":{"aspect_ratio":"2:1"}}`: "invalid_request",
	} {
		if a := b.do(t, http.MethodPost, path, body); a.status/100 != 4 || a.json(t)["code"] != want {
			t.Errorf("%s: %d %s, want code %s", body, a.status, a.body, want)
		}
	}
}

func TestKlingAuthorization(t *testing.T) {
	t.Parallel()
	token := jwt("ak-1", "secret-1", 30*time.Minute, -5*time.Second)
	keyed, open := setup(t, sandbox.Options{Key: "sk-1"}), setup(t, sandbox.Options{})
	for _, c := range []struct {
		name          string
		at            bundle
		authorization string
		code          float64
	}{
		{"key", keyed, "Bearer sk-1", 0},
		{"nothing is wanted", open, "", 0},
		{"nothing is verified", open, token, 0},
		{"nothing", keyed, "", 1001},
		{"another scheme", keyed, "Basic c2stMTo=", 1002},
		{"wrong key", keyed, "Bearer sk-2", 1002},
		{"broken token", keyed, token[:len(token)-1] + "!", 1002},
		{"token", keyed, token, 1000},
	} {
		a := c.at.do(t, http.MethodPost, "/v1/videos/text2video", `{"model_name":"sandbox-kling","prompt":"p"}`, "Authorization", c.authorization)
		want := http.StatusOK
		if c.code != 0 {
			want = http.StatusUnauthorized
		}
		if a.status != want || a.json(t)["code"] != c.code {
			t.Errorf("%s: %d %s, want %d with code %v", c.name, a.status, a.body, want, c.code)
		}
	}
}
