package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/jimeng"
	"github.com/genbus/genbus/internal/upstream/kling"
)

// withPairs gives two tenants a key pair each, and one of them also an API key.
func withPairs(c *config.Config) {
	c.APIKeys = []config.APIKey{
		{Tenant: "acme", Key: config.NewSecret("key-acme"), AccessKey: "ak-acme", SecretKey: config.NewSecret("secret-key-of-acme")},
		{Tenant: "globex", AccessKey: "ak-globex", SecretKey: config.NewSecret("secret-key-of-globex")},
	}
}

// authorise authenticates a request with this body.
type authorise func(r *http.Request, body []byte) error

func bearer(key string) authorise {
	return func(r *http.Request, _ []byte) error {
		r.Header.Set("Authorization", "Bearer "+key)
		return nil
	}
}

func signedBy(a upstream.Authorizer) authorise { return a.Authorize }

// vendorCall sends a request and decodes the vendor's envelope.
func (w *world) vendorCall(t *testing.T, auth authorise, method, path, body string) (status int, answer map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, w.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if err := auth(r, []byte(body)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatalf("%s %s: %s: %v", method, path, resp.Status, err)
	}
	return resp.StatusCode, answer
}

// aToken returns a Kling token, a JWT with HS256, made without genbus code.
func aToken(secret, claims string) string {
	part := base64.RawURLEncoding.EncodeToString
	signed := part([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + part([]byte(claims))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(signed))
	return signed + "." + part(mac.Sum(nil))
}

func claims(accessKey string, notBefore, expires time.Time) string {
	return fmt.Sprintf(`{"iss":%q,"exp":%d,"nbf":%d}`, accessKey, expires.Unix(), notBefore.Unix())
}

const (
	klingText  = "/kling/v1/videos/text2video"
	klingImage = "/kling/v1/videos/image2video"
)

// TestKlingClient proves that a Kling client with a key pair can use all features.
func TestKlingClient(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: 300 * time.Millisecond}, withPairs)
	now := time.Now()
	acme, globex := signedBy(kling.NewJWT("ak-acme", "secret-key-of-acme")), signedBy(kling.NewJWT("ak-globex", "secret-key-of-globex"))
	byHand := bearer(aToken("secret-key-of-acme", claims("ak-acme", now.Add(-5*time.Second), now.Add(30*time.Minute))))
	create := func(t *testing.T, auth authorise, path, body string) map[string]any {
		t.Helper()
		status, answer := w.vendorCall(t, auth, http.MethodPost, path, body)
		if status != http.StatusOK || answer["code"] != 0.0 || answer["message"] != "SUCCEED" || word(inner(answer, "data")["task_id"]) == "" {
			t.Fatalf("create: %d %v", status, answer)
		}
		return inner(answer, "data")
	}
	t.Run("create, query by task id, download", func(t *testing.T) {
		for _, auth := range []authorise{acme, byHand, bearer("key-acme")} {
			made := create(t, auth, klingText, `{"model_name":"sandbox-kling","prompt":"a cat","duration":"5"}`)
			if made["task_status"] != "submitted" || made["created_at"].(float64) < 1e12 {
				t.Errorf("created %v", made)
			}
			w.checkKlingResult(t, auth, klingText+"/"+word(made["task_id"]))
		}
	})
	t.Run("a repeated external_task_id attaches, and names the task", func(t *testing.T) {
		const body = `{"model_name":"sandbox-kling","prompt":"a cat","external_task_id":"order-7"}`
		first, again := create(t, acme, klingText, body), create(t, byHand, klingText, body)
		if first["task_id"] != again["task_id"] || inner(again, "task_info")["external_task_id"] != "order-7" {
			t.Errorf("first %v, again %v", first, again)
		}
		w.checkKlingResult(t, acme, klingText+"/order-7")
		status, answer := w.vendorCall(t, acme, http.MethodPost, klingText, strings.Replace(body, "cat", "dog", 1))
		if status != http.StatusBadRequest || answer["code"] != 1201.0 {
			t.Errorf("another body under it: %d %v", status, answer)
		}
		if status, answer := w.vendorCall(t, globex, http.MethodGet, klingText+"/order-7", ""); status != http.StatusNotFound || answer["code"] != 1203.0 {
			t.Errorf("another tenant reads it: %d %v", status, answer)
		}
		if other := create(t, globex, klingText, body); other["task_id"] == first["task_id"] {
			t.Error("another tenant's external_task_id names the same task")
		}
	})
	t.Run("an image in Base64 reaches the upstream as it is", func(t *testing.T) {
		arrived := make(chan string, 1)
		w.up.Sandbox.SetBehaviour(func(r *http.Request, body []byte) *sandbox.Behaviour {
			if r.Method == http.MethodPost && r.URL.Path == klingImage {
				arrived <- string(body)
			}
			return nil
		})
		defer w.up.Sandbox.SetBehaviour(nil)
		body := `{"model_name":"sandbox-kling","image":"` + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("\x89PNG\r\n\x1a\n"), 40_000)) + `","prompt":"it moves"}`
		made := create(t, acme, klingImage, body)
		if got := <-arrived; !strings.HasPrefix(got, strings.TrimSuffix(body, "}")+`,"external_task_id":"`) {
			t.Errorf("the upstream got %.200s", got)
		}
		w.checkKlingResult(t, acme, klingImage+"/"+word(made["task_id"]))
	})
	t.Run("a failed task is a good answer", func(t *testing.T) {
		made := create(t, acme, klingText, `{"model_name":"sandbox-kling:fail=text risk","prompt":"a cat"}`)
		done := w.klingEnd(t, acme, klingText+"/"+word(made["task_id"]))
		if done["task_status"] != "failed" || done["task_status_msg"] != "text risk" || len(inner(done, "task_result")) != 0 {
			t.Errorf("%v", done)
		}
	})
	t.Run("tasks are listed by page, those of the tenant alone", func(t *testing.T) {
		list := func(auth authorise, query string) []any {
			_, answer := w.vendorCall(t, auth, http.MethodGet, klingText+query, "")
			data, _ := answer["data"].([]any)
			return data
		}
		await(t, "the list", func() bool { return len(list(acme, "")) == 6 && len(list(globex, "")) == 1 })
		if a, b, c := len(list(acme, "?pageNum=1&pageSize=4")), len(list(acme, "?pageNum=2&pageSize=4")), len(list(acme, "?pageNum=3&pageSize=4")); a != 4 || b != 2 || c != 0 {
			t.Errorf("pages of %d, %d and %d tasks", a, b, c)
		}
	})
	for name, row := range map[string]struct {
		auth authorise
		code float64
	}{
		"a token of a wrong key is refused":          {bearer(aToken("secret-key-of-globex", claims("ak-acme", now, now.Add(time.Hour)))), 1002},
		"a token of another's access key is refused": {bearer(aToken("secret-key-of-acme", claims("ak-globex", now, now.Add(time.Hour)))), 1002},
		"a token of the future is refused":           {bearer(aToken("secret-key-of-acme", claims("ak-acme", now.Add(10*time.Minute), now.Add(time.Hour)))), 1003},
		"an expired token is refused":                {bearer(aToken("secret-key-of-acme", claims("ak-acme", now.Add(-2*time.Hour), now.Add(-time.Hour)))), 1004},
		"a token without an end is refused":          {bearer(aToken("secret-key-of-acme", `{"iss":"ak-acme"}`)), 1004},
		"a token of an unknown access key is refused": {
			bearer(aToken("secret-key-of-acme", claims("ak-none", now, now.Add(time.Hour)))), 1000},
		"a token that is not signed is refused": {bearer("eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString([]byte(claims("ak-acme", now, now.Add(time.Hour)))) + "."), 1000},
		"no token is refused":                   {func(*http.Request, []byte) error { return nil }, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			status, answer := w.vendorCall(t, row.auth, http.MethodPost, klingText, `{"model_name":"sandbox-kling","prompt":"a cat"}`)
			if status != http.StatusUnauthorized || answer["code"] != row.code || word(answer["message"]) == "" {
				t.Errorf("%d %v", status, answer)
			}
		})
	}
}

func (w *world) klingEnd(t *testing.T, auth authorise, path string) (data map[string]any) {
	t.Helper()
	await(t, path, func() bool {
		status, answer := w.vendorCall(t, auth, http.MethodGet, path, "")
		if status != http.StatusOK || answer["code"] != 0.0 {
			t.Fatalf("query: %d %v", status, answer)
		}
		data = inner(answer, "data")
		return data["task_status"] == "succeed" || data["task_status"] == "failed"
	})
	return data
}

// checkKlingResult polls a task until it succeeds, and downloads its video.
func (w *world) checkKlingResult(t *testing.T, auth authorise, path string) {
	t.Helper()
	data := w.klingEnd(t, auth, path)
	videos, _ := inner(data, "task_result")["videos"].([]any)
	if data["task_status"] != "succeed" || len(videos) != 1 || data["final_unit_deduction"] != "5" {
		t.Fatalf("ended %v", data)
	}
	video, _ := videos[0].(map[string]any)
	if video["duration"] != "5.1" || !bytes.Equal(download(t, word(video["url"])), theClip(t)) {
		t.Errorf("video %v", video)
	}
}

// volcSigned signs as documented by Volcengine, without genbus code.
func volcSigned(accessKey, secretKey string, at time.Time) authorise {
	return func(r *http.Request, body []byte) error {
		hash := func(b []byte) string { sum := sha256.Sum256(b); return hex.EncodeToString(sum[:]) }
		mac := func(key []byte, text string) []byte {
			m := hmac.New(sha256.New, key)
			m.Write([]byte(text))
			return m.Sum(nil)
		}
		date := at.UTC().Format("20060102T150405Z")
		scope := date[:8] + "/cn-north-1/cv/request"
		r.Header.Set("X-Date", date)
		r.Header.Set("X-Content-Sha256", hash(body))
		canonical := "POST\n/jimeng/\n" + r.URL.Query().Encode() + "\ncontent-type:application/json\nhost:" + r.URL.Host +
			"\nx-content-sha256:" + hash(body) + "\nx-date:" + date + "\n\ncontent-type;host;x-content-sha256;x-date\n" + hash(body)
		key := mac(mac(mac(mac([]byte(secretKey), date[:8]), "cn-north-1"), "cv"), "request")
		signature := hex.EncodeToString(mac(key, "HMAC-SHA256\n"+date+"\n"+scope+"\n"+hash([]byte(canonical))))
		r.Header.Set("Authorization", "HMAC-SHA256 Credential="+accessKey+"/"+scope+
			", SignedHeaders=content-type;host;x-content-sha256;x-date, Signature="+signature)
		return nil
	}
}

const (
	jimengSubmitPath = jimengQuery + "CVSync2AsyncSubmitTask"
	jimengResultPath = jimengQuery + "CVSync2AsyncGetResult"
)

// TestJimengClient proves that a Jimeng client with a key pair can use all features.
func TestJimengClient(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: 300 * time.Millisecond}, withPairs)
	now := time.Now()
	const body = `{"req_key":"sandbox-jimeng","prompt":"a cat"}`
	submit := func(t *testing.T, auth authorise, body string) string {
		t.Helper()
		status, answer := w.vendorCall(t, auth, http.MethodPost, jimengSubmitPath, body)
		id := word(inner(answer, "data")["task_id"])
		if status != http.StatusOK || answer["code"] != 10000.0 || answer["message"] != "Success" || id == "" {
			t.Fatalf("submit: %d %v", status, answer)
		}
		return id
	}
	query := func(t *testing.T, auth authorise, id string) (int, map[string]any) {
		t.Helper()
		return w.vendorCall(t, auth, http.MethodPost, jimengResultPath, fmt.Sprintf(`{"req_key":"sandbox-jimeng","task_id":%q}`, id))
	}
	byHand, acme := volcSigned("ak-acme", "secret-key-of-acme", now), signedBy(jimeng.NewSigner("ak-acme", "secret-key-of-acme"))
	t.Run("submit, query until done, download", func(t *testing.T) {
		for _, auth := range []authorise{byHand, acme, bearer("key-acme")} {
			id, data := submit(t, auth, body), map[string]any{}
			await(t, "done", func() bool {
				status, answer := query(t, auth, id)
				data = inner(answer, "data")
				return status == http.StatusOK && data["status"] == "done"
			})
			if !bytes.Equal(download(t, word(data["video_url"])), theClip(t)) {
				t.Errorf("result %v", data)
			}
		}
	})
	t.Run("a failed task is HTTP 400 with the vendor's code", func(t *testing.T) {
		id := submit(t, byHand, `{"req_key":"sandbox-jimeng:fail=Post Text Risk Not Pass","prompt":"a cat"}`)
		await(t, "failed", func() bool {
			status, answer := query(t, byHand, id)
			return status == http.StatusBadRequest && answer["code"] == 50413.0 && answer["data"] == nil && answer["message"] == "Post Text Risk Not Pass"
		})
	})
	t.Run("another tenant's task is not_found", func(t *testing.T) {
		status, answer := query(t, volcSigned("ak-globex", "secret-key-of-globex", now), submit(t, byHand, body))
		if status != http.StatusOK || inner(answer, "data")["status"] != "not_found" {
			t.Errorf("%d %v", status, answer)
		}
	})
	t.Run("an Action must be there", func(t *testing.T) {
		status, answer := w.vendorCall(t, byHand, http.MethodPost, "/jimeng/?Version=2022-08-31", body)
		if status != http.StatusBadRequest || answer["code"] != 50215.0 || !strings.Contains(word(answer["message"]), "Action") {
			t.Errorf("%d %v", status, answer)
		}
	})
	for name, auth := range map[string]authorise{
		"a signature of a wrong key is refused":           volcSigned("ak-acme", "secret-key-of-globex", now),
		"a signature of an unknown access key is refused": volcSigned("ak-none", "secret-key-of-acme", now),
		"an old signature is refused":                     volcSigned("ak-acme", "secret-key-of-acme", now.Add(-16*time.Minute)),
		"a body changed after signing is refused": func(r *http.Request, body []byte) error {
			return byHand(r, append(bytes.Clone(body), ' '))
		},
		"a query changed after signing is refused": func(r *http.Request, body []byte) error {
			err := byHand(r, body)
			r.URL.RawQuery += "&x=1"
			return err
		},
		"a date changed after signing is refused": func(r *http.Request, body []byte) error {
			err := byHand(r, body)
			r.Header.Set("X-Date", now.Add(-time.Second).UTC().Format("20060102T150405Z"))
			return err
		},
		"no signature is refused": func(*http.Request, []byte) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			status, answer := w.vendorCall(t, auth, http.MethodPost, jimengSubmitPath, body)
			if e := inner(inner(answer, "ResponseMetadata"), "Error"); status != http.StatusUnauthorized || e["Code"] != "InvalidAuthorization" || word(e["Message"]) == "" {
				t.Errorf("%d %v", status, answer)
			}
		})
	}
}

// TestGenbusBehindGenbus proves that genbus can be the upstream of another genbus, for every
// protocol and kind of credentials, including content.
func TestGenbusBehindGenbus(t *testing.T) {
	t.Parallel()
	far := newClientWorld(t, sandbox.Options{VideoDuration: 200 * time.Millisecond}, withPairs)
	near := startService(t, far.up.URL(), func(c *config.Config) {
		for _, p := range wires {
			u := config.NewUpstream(far.base)
			u.PrivateResults = true // the far genbus returns URLs of its own upstream
			switch p.name {
			case "kling", "jimeng":
				u.Auth, u.VendorPath = config.AuthSigned, "/"+p.name
				u.AccessKey, u.SecretKey = config.NewSecret("ak-acme"), config.NewSecret("secret-key-of-acme")
			default:
				u.Key = config.NewSecret("key-acme")
			}
			c.Upstreams["far-"+p.name] = u
			route := config.NewRoute("far-"+p.name, config.KindVideo, "far-"+p.name, "far-"+p.name)
			route.Protocol, route.UpstreamModel, route.Poll.Interval = p.name, p.model, 250*time.Millisecond
			c.Routes = append(c.Routes, route)
		}
	})
	for _, p := range wires {
		t.Run(p.name, func(t *testing.T) {
			status, answer := near.post(t, p.create, p.body("far-"+p.name))
			id := word(p.id(answer))
			if status != http.StatusOK || id == "" {
				t.Fatalf("create: %d %v", status, answer)
			}
			got := near.ended(t, id)
			if got.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || !strings.HasPrefix(got.GetUpstreamTaskId(), "video_") {
				t.Fatalf("ended %v: %v, the far id is %q", got.GetStatus(), got.GetError(), got.GetUpstreamTaskId())
			}
			near.checkContent(t, id)
			if _, data := near.fetch(t, http.MethodGet, "/v1/videos/"+id+"/content", ""); !bytes.Equal(data, theClip(t)) {
				t.Errorf("the content has %d bytes", len(data))
			}
			far.checkTaskOf(t, "key-acme", got.GetUpstreamTaskId(), p.model)
		})
	}
	if n := far.up.Sandbox.Stats().Creates; n != int64(len(wires)) {
		t.Errorf("the last upstream saw %d creates", n)
	}
}

func (w *world) checkTaskOf(t *testing.T, key, id, model string) {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+key)
	got, err := genbusv1grpc.NewVideoServiceClient(w.grpc).GetVideoTask(ctx, &genbusv1.GetVideoTaskRequest{Id: id}, grpc.WaitForReady(true))
	if err != nil || got.GetTask().GetModel() != model || got.GetTask().GetTenant() != "acme" {
		t.Errorf("the far task: %v, %v", got, err)
	}
}
