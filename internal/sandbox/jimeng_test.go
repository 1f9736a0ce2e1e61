package sandbox_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/sandbox"
)

const (
	submitQuery = "?Action=CVSync2AsyncSubmitTask&Version=2022-08-31"
	resultQuery = "?Action=CVSync2AsyncGetResult&Version=2022-08-31"
)

func (b bundle) submit(t *testing.T, body string) string {
	t.Helper()
	a := b.do(t, http.MethodPost, "/jimeng/"+submitQuery, body)
	id, _ := at(a.json(t), "data", "task_id").(string)
	if id == "" {
		t.Fatalf("submit answered %d %s, want data.task_id", a.status, a.body)
	}
	return id
}

func (b bundle) result(t *testing.T, reqKey, id string, headers ...string) answer {
	t.Helper()
	return b.do(t, http.MethodPost, "/jimeng/"+resultQuery, `{"req_key":"`+reqKey+`","task_id":"`+id+`"}`, headers...)
}

func TestJimengLife(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/", "/jimeng/"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			b := setup(t, sandbox.Options{VideoDuration: 300 * time.Millisecond})
			a := b.do(t, http.MethodPost, path+submitQuery, `{"req_key":"sandbox_jimeng_t2v_v30","prompt":"a cat","frames":121,"aspect_ratio":"9:16","seed":-1}`)
			made := a.json(t)
			id, _ := at(made, "data", "task_id").(string)
			if a.status != 200 || made["code"] != 10000.0 || made["status"] != 10000.0 || made["message"] != "Success" || !regexp.MustCompile(`^\d{19}$`).MatchString(id) {
				t.Errorf("submitted: %d %s", a.status, a.body)
			}
			poll := func() answer {
				return b.do(t, http.MethodPost, path+resultQuery, `{"req_key":"sandbox_jimeng_t2v_v30","task_id":"`+id+`"}`)
			}
			done := follow(t, poll, envelopeStatus, "in_queue", "generating", "done")
			if done["code"] != 10000.0 || at(done, "data", "video_url") != b.URL()+"/files/"+id+".mp4" || at(done, "data", "aigc_meta_tagged") != true {
				t.Errorf("done: %v", done)
			}
			if stats := b.Sandbox.Stats(); stats.CreatesPerProtocol["jimeng"] != 1 || stats.Polls == 0 {
				t.Errorf("stats: %+v", stats)
			}
		})
	}
}

func TestJimengStates(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	const key = "sandbox-jimeng:duration_ms=0"
	id := b.submit(t, `{"req_key":"`+key+`","prompt":"p"}`)
	for _, c := range []struct{ reqKey, id, want string }{
		{key, id, "done"}, {"sandbox-jimeng", id, "not_found"}, {key, "1", "not_found"},
	} {
		if a := b.result(t, c.reqKey, c.id); a.status != 200 || envelopeStatus(a.json(t)) != c.want {
			t.Errorf("%s of %s: %d %s, want %s", c.id, c.reqKey, a.status, a.body, c.want)
		}
	}
	other := idOf(t, b.create(t, `{"model":"sandbox-video","prompt":"p"}`))
	if v := b.result(t, "sandbox-video", other).json(t); envelopeStatus(v) != "not_found" {
		t.Errorf("a task of another protocol: %v", v)
	}
	for reqKey, want := range map[string]float64{
		"sandbox-jimeng:duration_ms=0,fail=Pre Img Risk,fail_code=50411": 50411, "sandbox-jimeng:duration_ms=0,fail=x": 50413,
	} {
		a := b.result(t, reqKey, b.submit(t, `{"req_key":"`+reqKey+`","prompt":"p"}`))
		v := a.json(t)
		if data, has := v["data"]; a.status != 400 || v["code"] != want || v["status"] != want || data != nil || !has {
			t.Errorf("%s: %d %s, want code %v", reqKey, a.status, a.body, want)
		}
	}
	const expired = "sandbox-jimeng:duration_ms=0,statuses=in_queue|expired"
	if a := b.result(t, expired, b.submit(t, `{"req_key":"`+expired+`","prompt":"p"}`)); a.status != 200 || envelopeStatus(a.json(t)) != "expired" {
		t.Errorf("expired: %d %s", a.status, a.body)
	}
}

func TestJimengRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	for _, c := range []struct {
		name, body string
		status     int
		code       float64
	}{
		{"not JSON", `{"req_key":`, 400, 50215},
		{"unknown req_key", `{"req_key":"jimeng_t2v_v30","prompt":"p"}`, 400, 50400},
		{"no prompt", `{"req_key":"sandbox-jimeng"}`, 400, 50215},
		{"three images", `{"req_key":"sandbox-jimeng","image_urls":["a","b"],"binary_data_base64":["c"]}`, 400, 50215},
		{"empty image", `{"req_key":"sandbox-jimeng","image_urls":[""]}`, 400, 50215},
		{"odd frames", `{"req_key":"sandbox-jimeng","prompt":"p","frames":120}`, 400, 50215},
		{"odd ratio", `{"req_key":"sandbox-jimeng","prompt":"p","aspect_ratio":"2:1"}`, 400, 50215},
		{"misspelt fault", `{"req_key":"sandbox-jimeng:statu=1","prompt":"p"}`, 400, 50215},
		{"in the body", `{"req_key":"sandbox-jimeng","prompt":"p","metadata":{"sandbox":{"status":429,"code":"50430"}}}`, 429, 50430},
		{"with status 200", `{"req_key":"sandbox-jimeng:status=200,code=50411","prompt":"p"}`, 200, 50411},
		{"429", `{"req_key":"sandbox-jimeng:status=429","prompt":"p"}`, 429, 50429},
		{"500", `{"req_key":"sandbox-jimeng:status=500","prompt":"p"}`, 500, 50500},
	} {
		a := b.do(t, http.MethodPost, "/jimeng/"+submitQuery, c.body)
		if v := a.json(t); a.status != c.status || v["code"] != c.code || v["status"] != c.code || v["data"] != nil {
			t.Errorf("%s: %d %s, want %d with code %v", c.name, a.status, a.body, c.status, c.code)
		}
	}
	for _, c := range []struct {
		name, query, body string
		status            int
		code              string
	}{
		{"no action", "?Version=2022-08-31", `{}`, 404, "InvalidActionOrVersion"},
		{"another action", "?Action=CVProcess&Version=2022-08-31", `{}`, 404, "InvalidActionOrVersion"},
		{"another version", "?Action=CVSync2AsyncSubmitTask&Version=2024-01-01", `{}`, 404, "InvalidActionOrVersion"},
		{"asked for", submitQuery, `{"req_key":"sandbox-jimeng:status=429,code=FlowLimitExceeded","prompt":"p"}`, 429, "FlowLimitExceeded"},
		{"401", submitQuery, `{"req_key":"sandbox-jimeng:status=401","prompt":"p"}`, 401, "InvalidAuthorization"},
		{"403", submitQuery, `{"req_key":"sandbox-jimeng:status=403","prompt":"p"}`, 403, "SignatureDoesNotMatch"},
	} {
		a := b.do(t, http.MethodPost, "/"+c.query, c.body)
		if a.status != c.status || at(a.json(t), "ResponseMetadata", "Error", "Code") != c.code {
			t.Errorf("%s: %d %s, want %d with %s", c.name, a.status, a.body, c.status, c.code)
		}
	}
	if n := b.Sandbox.Stats().Tasks; n != 0 {
		t.Errorf("%d tasks after refusals only", n)
	}
}

func TestJimengQueryFaults(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	for body, want := range map[string]float64{`{`: 50215, `{"req_key":"sandbox-jimeng"}`: 50215, `{"task_id":"1"}`: 50215} {
		if a := b.do(t, http.MethodPost, "/"+resultQuery, body); a.status != 400 || a.json(t)["code"] != want {
			t.Errorf("query %s: %d %s", body, a.status, a.body)
		}
	}
	const key = "sandbox-jimeng:poll_status=429,poll_code=50429,poll_fail_times=1"
	id := b.submit(t, `{"req_key":"`+key+`","prompt":"p"}`)
	for i, want := range []float64{50429, 10000} {
		if v := b.result(t, key, id).json(t); v["code"] != want {
			t.Errorf("query %d: %v, want code %v", i, v, want)
		}
	}
	for i, want := range []float64{50501, 10000} {
		if v := b.result(t, key, id, "X-Sandbox", `{"status":500,"code":"50501","times":1}`).json(t); v["code"] != want {
			t.Errorf("query %d with a fault: %v, want code %v", i, v, want)
		}
	}
}

// sign returns the headers of a signed request. It does not use the code under test. path is "/" or
// "/jimeng/".
func sign(b bundle, accessKey, secretKey, path, query, body string, at time.Time) []string {
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])
	}
	mac := func(key, text string) string {
		m := hmac.New(sha256.New, []byte(key))
		m.Write([]byte(text))
		return string(m.Sum(nil))
	}
	date := at.UTC().Format("20060102T150405Z")
	scope := date[:8] + "/cn-north-1/cv/request"
	const names = "content-type;host;x-content-sha256;x-date"
	canonical := "POST\n" + path + "\n" + strings.TrimPrefix(query, "?") + "\ncontent-type:application/json\nhost:" + strings.TrimPrefix(b.URL(), "http://") +
		"\nx-content-sha256:" + hash(body) + "\nx-date:" + date + "\n\n" + names + "\n" + hash(body)
	key := mac(mac(mac(mac(secretKey, date[:8]), "cn-north-1"), "cv"), "request")
	signature := hex.EncodeToString([]byte(mac(key, "HMAC-SHA256\n"+date+"\n"+scope+"\n"+hash(canonical))))
	return []string{
		"Content-Type", "application/json", "X-Date", date, "X-Content-Sha256", hash(body),
		"Authorization", "HMAC-SHA256 Credential=" + accessKey + "/" + scope + ", SignedHeaders=" + names + ", Signature=" + signature,
	}
}

func TestJimengAuthorization(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{Key: "sk-1"})
	const body = `{"req_key":"sandbox-jimeng","prompt":"p"}`
	for _, c := range []struct {
		name    string
		headers []string
		status  int
		code    string // of the API front end
	}{
		{"key", []string{"Authorization", "Bearer sk-1"}, 200, ""},
		{"nothing", nil, 400, "InvalidAuthorization"},
		{"wrong key", []string{"Authorization", "Bearer sk-2"}, 400, "InvalidAuthorization"},
		{"no signature", []string{"Authorization", "HMAC-SHA256 Credential=ak-1/20260101/cn-north-1/cv/request"}, 400, "InvalidAuthorization"},
		{"signature", sign(b, "ak-1", "secret-1", "/", submitQuery, body, time.Now()), 403, "SignatureDoesNotMatch"},
	} {
		a := b.do(t, http.MethodPost, "/"+submitQuery, body, c.headers...)
		code, _ := at(a.json(t), "ResponseMetadata", "Error", "Code").(string)
		if a.status != c.status || code != c.code {
			t.Errorf("%s: %d %s, want %d %s", c.name, a.status, a.body, c.status, c.code)
		}
	}
	if n := b.Sandbox.Stats().Creates; n != 1 {
		t.Errorf("%d creates counted, want the one that was let in", n)
	}
}
