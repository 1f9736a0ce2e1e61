package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/jimeng"
	"github.com/genbus/genbus/internal/upstream/kling"
)

const (
	pairKey    = "ak-acme"
	pairSecret = "sk-acme-0123456789"
)

// onlyAPair configures one tenant with a key pair and no API key.
func onlyAPair(c *config.Config) {
	c.APIKeys = nil
	andAPair(c)
}

func andAPair(c *config.Config) {
	c.APIKeys = append(c.APIKeys, config.APIKey{Tenant: "acme", AccessKey: pairKey, SecretKey: config.NewSecret(pairSecret)})
}

// signedBy returns the headers of a signed request.
func (w *world) signedBy(signer upstream.Authorizer, method, path, body string) []string {
	w.T.Helper()
	r := w.Request(method, path, body)
	var raw []byte
	if body != "" {
		raw = []byte(body)
	}
	if err := signer.Authorize(r, raw); err != nil {
		w.T.Fatal(err)
	}
	var headers []string
	for name, values := range r.Header {
		headers = append(headers, name, values[0])
	}
	return headers
}

// TestNoBodyIsReadOfAStranger checks that an unauthenticated call is refused before its body
// arrives.
func TestNoBodyIsReadOfAStranger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants, andAPair)
	w.Core.BodyTimeout = time.Minute
	token := w.signedBy(kling.NewJWT("nobody", "0123456789abcdef"), http.MethodPost, apitest.KlingText, apitest.KlingBody)
	forged := w.signedBy(kling.NewJWT(pairKey, "another-secret-of-it"), http.MethodPost, apitest.KlingText, apitest.KlingBody)
	for _, path := range []string{
		apitest.KlingText, apitest.KlingImage, apitest.JimengSubmit, apitest.JimengQuery, "/v1/videos", "/v1/video/generations", "/v1/chat/completions",
		"/genbus/v1/videos", "/genbus/v1/chats", "/genbus/v1/videos/x/cancel",
	} {
		for name, headers := range map[string][]string{
			"no key": nil, "a wrong key": {"Authorization", "Bearer no"},
			"the token of nobody":     {"Authorization", valueOf(token, "Authorization")},
			"a forged token":          {"Authorization", valueOf(forged, "Authorization")},
			"the signature of nobody": {"Authorization", "HMAC-SHA256 Credential=nobody/20260102/r/cv/request, SignedHeaders=host;x-date, Signature=00"},
			"half a signature":        {"Authorization", "HMAC-SHA256 Credential=x"},
		} {
			if a := w.Begun(path, headers...); a.Status != http.StatusUnauthorized {
				t.Errorf("%s, %s: %d %s", path, name, a.Status, a.Body)
			}
		}
	}
}

// TestABodyThatASignatureCoversHasTheTenantsLimit checks that the tenant's limit applies to a body
// that is read before its signature is checked.
func TestABodyThatASignatureCoversHasTheTenantsLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants, andAPair, func(c *config.Config) { c.Limits.Tenant.MaxBodyBytes = 1 << 10 })
	body := strings.Replace(apitest.JimengBody, "{", "{"+strings.Repeat(" ", 2<<10), 1)
	forged := w.signedBy(jimeng.NewSigner(pairKey, "another-secret-of-it"), http.MethodPost, apitest.JimengSubmit, body)
	if a := w.Post(apitest.JimengSubmit, body, forged...); a.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func valueOf(headers []string, name string) string {
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == name {
			return headers[i+1]
		}
	}
	return ""
}

// TestAnAPIKeyMayLookLikeASignature checks that a known key counts as a key.
func TestAnAPIKeyMayLookLikeASignature(t *testing.T) {
	t.Parallel()
	const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJnYXRld2F5In0.c2lnbmF0dXJl"
	w := newWorld(t, func(c *config.Config) {
		c.APIKeys = []config.APIKey{{Tenant: "acme", KeyEnv: "ACME", Key: config.NewSecret(jwt)}}
	})
	for path, body := range map[string]string{apitest.KlingText: apitest.KlingBody, "/v1/videos": apitest.VideosBody, apitest.JimengSubmit: apitest.JimengBody} {
		if a := w.Post(path, body, "Authorization", "Bearer "+jwt); a.Status != http.StatusOK {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
}

// TestSignaturesOpenTheContent checks that a tenant with only a key pair can read the content to
// which the vendors' answers link.
func TestSignaturesOpenTheContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.UpstreamAt(apitest.NewHost(t, apitest.ServeFilm)), onlyAPair)
	created := w.Post(apitest.KlingText, apitest.KlingBody, w.signedBy(kling.NewJWT(pairKey, pairSecret), http.MethodPost, apitest.KlingText, apitest.KlingBody)...)
	if created.Status != http.StatusOK {
		t.Fatalf("create: %d %s", created.Status, created.Body)
	}
	id := created.Header.Get("Genbus-Job-Id")
	e := w.StartVideo("acme", id)
	next, err := task.Completed(core.VideoOf(e), time.Now(), task.Result{Videos: []*genbusv1.Video{{Url: w.Cfg.Upstreams["sandbox"].BaseURL + "/x.mp4"}}})
	w.Commit(e, next, err)
	path := apitest.ContentOf(id)
	read := w.Get(apitest.KlingText+"/"+id, w.signedBy(kling.NewJWT(pairKey, pairSecret), http.MethodGet, apitest.KlingText+"/"+id, "")...)
	if !strings.Contains(read.Body, w.HTTP.URL+path) {
		t.Errorf("the answer does not link to the content: %s", read.Body)
	}
	for name, row := range map[string]struct {
		signer upstream.Authorizer
		status int
	}{
		"kling":                 {kling.NewJWT(pairKey, pairSecret), 200},
		"jimeng":                {jimeng.NewSigner(pairKey, pairSecret), 200},
		"kling, another pair":   {kling.NewJWT("ak-nobody", pairSecret), 401},
		"kling, another secret": {kling.NewJWT(pairKey, "another-secret-of-it"), 401},
		"jimeng, another":       {jimeng.NewSigner(pairKey, "another-secret-of-it"), 401},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			a := w.Do(method, path, "", w.signedBy(row.signer, method, path, "")...)
			if a.Status != row.status || method == http.MethodGet && row.status == http.StatusOK && a.Body != string(apitest.Film) {
				t.Errorf("%s, %s: %d %.200s", method, name, a.Status, a.Body)
			}
		}
	}
	if a := w.Get(path); a.Status != http.StatusUnauthorized || a.ErrorCode(t) != "invalid_api_key" {
		t.Errorf("nobody: %d %s", a.Status, a.Body)
	}
	// Other paths accept only API keys, and a signature is valid for its path alone.
	for at, signer := range map[string]upstream.Authorizer{
		"/v1/videos/" + id: kling.NewJWT(pairKey, pairSecret), path + "?index=0": jimeng.NewSigner(pairKey, pairSecret),
	} {
		if a := w.Get(at, w.signedBy(signer, http.MethodGet, path, "")...); a.Status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", at, a.Status, a.Body)
		}
	}
}

// TestResultsThatNeedOurKeyAreReplaced checks that URLs at an upstream that needs a key are
// replaced.
func TestResultsThatNeedOurKeyAreReplaced(t *testing.T) {
	t.Parallel()
	up := apitest.NewHost(t, apitest.ServeFilm)
	ours, other := up.URL+"/v1/videos/task_1/content", "https://cdn.example/1.mp4"
	finish := func(w *world, metadata string, urls ...string) string {
		e := w.StartVideo("default", w.NewVideoObject())
		result := task.Result{Metadata: []byte(metadata)}
		for _, url := range urls {
			result.Videos = append(result.Videos, &genbusv1.Video{Url: url})
		}
		next, err := task.Completed(core.VideoOf(e), time.Now(), result)
		w.Commit(e, next, err)
		return e.Job.GetId()
	}
	w := newWorld(t, apitest.UpstreamAt(up))
	id := finish(w, `{"url":"`+ours+`","b":[1, 2]}`, ours, other, strings.ToUpper(up.URL[:4])+up.URL[4:]+"/3")
	here := w.HTTP.URL + apitest.ContentOf(id)
	object := w.Get("/v1/videos/" + id)
	metadata, _ := object.JSON(t)["metadata"].(map[string]any)
	if metadata["url"] != here || metadata["b"] == nil || strings.Contains(object.Body, up.URL) {
		t.Errorf("%s", object.Body)
	}
	generation := w.Get("/v1/video/generations/" + id)
	videos, _ := generation.JSON(t)["videos"].([]any)
	for i, want := range []string{here, other, here + "?index=2"} {
		if v, _ := videos[i].(map[string]any); v["url"] != want {
			t.Errorf("video %d has the URL %v, want %s", i, v["url"], want)
		}
	}
	w.Await("the list", func() bool { return strings.Contains(w.Get("/v1/videos").Body, here) })
	if a := w.Get(apitest.KlingText + "/" + id); strings.Contains(a.Body, up.URL) {
		t.Errorf("on a vendor's path: %s", a.Body)
	}
	// Only the metadata may contain such a URL. URLs of other hosts stay.
	if a := w.Get("/v1/videos/" + finish(w, `{"url":"`+ours+`"}`, other)); strings.Contains(a.Body, up.URL) {
		t.Errorf("metadata alone: %s", a.Body)
	}
	if a := w.Get("/v1/videos/" + finish(w, `{"url":"`+other+`"}`, other)); strings.Contains(a.Body, "/content") {
		t.Errorf("of another host: %s", a.Body)
	}
	// An expired URL is replaced if there is a copy, in the metadata too.
	blob, _ := w.archived("copy", apitest.Film)
	e := w.StartVideo("default", w.NewVideoObject())
	next, err := task.Completed(core.VideoOf(e), time.Now(), task.Result{
		Metadata: []byte(`{"url":"` + other + `"}`), Archive: &genbusv1.Archive{Files: []*genbusv1.BlobRef{blob}},
		Videos: []*genbusv1.Video{{Url: "https://x/0"}, {Url: other, Archived: blob, ExpiresAt: timestamppb.New(time.Now().Add(-time.Minute))}},
	})
	w.Commit(e, next, err)
	if a := w.Get("/v1/videos/" + e.Job.GetId()); strings.Contains(a.Body, other) || !strings.Contains(a.Body, apitest.ContentOf(e.Job.GetId())+"?index=1") {
		t.Errorf("expired: %s", a.Body)
	}
	open := newWorld(t, apitest.UpstreamAt(up), func(c *config.Config) {
		u := c.Upstreams["sandbox"]
		u.Key = config.Secret{}
		c.Upstreams["sandbox"] = u
	})
	if a := open.Get("/v1/videos/" + finish(open, `{"url":"`+ours+`"}`, ours)); strings.Count(a.Body, ours) != 1 || strings.Contains(a.Body, open.HTTP.URL) {
		t.Errorf("without a key: %s", a.Body)
	}
}

// TestVendorListReadsOnlyItsPage checks that a late page does not read the previous ones.
func TestVendorListReadsOnlyItsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 30
	for range n {
		if a := w.Post(apitest.KlingText, apitest.KlingBody); a.Status != http.StatusOK {
			t.Fatalf("create: %d %s", a.Status, a.Body)
		}
	}
	ids := func(query string) (ids []string) {
		data, _ := w.Get(apitest.KlingText + query).JSON(t)["data"].([]any)
		for _, d := range data {
			m, _ := d.(map[string]any)
			ids = append(ids, fmt.Sprint(m["task_id"]))
		}
		return ids
	}
	var all []string
	w.Await("the list", func() bool { all = ids("?pageSize=500"); return len(all) == n })
	before := w.Broker.Conn().Stats().OutMsgs
	last := ids("?pageNum=30&pageSize=1")
	if read := w.Broker.Conn().Stats().OutMsgs - before; len(last) != 1 || last[0] != all[n-1] || read > 5 {
		t.Errorf("the last page is %v, want %s; %d messages to the broker", last, all[n-1], read)
	}
	if got := ids("?pageNum=31&pageSize=1"); got != nil {
		t.Errorf("beyond the last page: %v", got)
	}
}

// TestNoIDOfAPathIsEchoed checks that a path's id appears in a header only if the task exists.
func TestNoIDOfAPathIsEchoed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"video_none", "a%00%01%0d%0aSet-Cookie:x%ff", "video_aaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		for method, path := range map[string]string{http.MethodGet: apitest.ContentOf(id), http.MethodDelete: "/v1/videos/" + id} {
			a := w.Do(method, path, "")
			if a.Status != http.StatusNotFound || a.Header["Genbus-Job-Id"] != nil {
				t.Errorf("%s %s: %d %v", method, path, a.Status, a.Header)
			}
		}
	}
}

// TestOneKeyNamesATask checks that a request with two unrelated ids is rejected: a query by the
// vendor's id would not find its task.
func TestOneKeyNamesATask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const body = `{"model_name":"sandbox-kling","prompt":"a","external_task_id":"mine"}`
	a := w.Post(apitest.KlingText, body, "Idempotency-Key", "k")
	if a.Status != http.StatusBadRequest || a.VendorCode(t) != 1201 || !strings.Contains(a.Body, "Idempotency-Key") || !strings.Contains(a.Body, "external_task_id") {
		t.Errorf("both: %d %s", a.Status, a.Body)
	}
	if a := w.Get(apitest.KlingText + "/mine"); a.Status != http.StatusNotFound {
		t.Errorf("accepted all the same: %d %s", a.Status, a.Body)
	}
	for _, headers := range [][]string{nil, {"Idempotency-Key", ""}, {"Idempotency-Key", "mine"}} {
		if a := w.Post(apitest.KlingText, body, headers...); a.Status != http.StatusOK {
			t.Errorf("external_task_id alone: %d %s", a.Status, a.Body)
		}
	}
	if a := w.Post(apitest.KlingText, apitest.KlingBody, "Idempotency-Key", "k"); a.Status != http.StatusOK {
		t.Errorf("Idempotency-Key alone: %d %s", a.Status, a.Body)
	}
}

// TestListGoesOnAfterAnErasedTask checks that a client can erase the tasks it lists and continue.
func TestListGoesOnAfterAnErasedTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 5
	for range n {
		w.NewVideoObject()
	}
	w.Await("the list", func() bool { data, _ := w.Get("/v1/videos").JSON(t)["data"].([]any); return len(data) == n })
	w.letGo()
	erased, after := 0, ""
	for more := any(true); more == true; {
		page := w.Get("/v1/videos?limit=2&after=" + after)
		if page.Status != http.StatusOK {
			t.Fatalf("after %s: %d %s", after, page.Status, page.Body)
		}
		v := page.JSON(t)
		after, more = fmt.Sprint(v["last_id"]), v["has_more"]
		data, _ := v["data"].([]any)
		for _, d := range data {
			m, _ := d.(map[string]any)
			if a := w.Do(http.MethodDelete, fmt.Sprintf("/v1/videos/%s", m["id"]), ""); a.Status != http.StatusOK {
				t.Fatalf("erase: %d %s", a.Status, a.Body)
			}
			erased++
		}
	}
	if erased != n {
		t.Errorf("%d tasks were listed and erased, want %d", erased, n)
	}
	for _, id := range []string{"video_none", "video_aaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		if a := w.Get("/v1/videos?after=" + id); a.Status != http.StatusNotFound || a.ErrorCode(t) != "task_not_found" {
			t.Errorf("after %s: %d %s", id, a.Status, a.Body)
		}
	}
}
