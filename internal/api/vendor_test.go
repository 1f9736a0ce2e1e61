package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/jimeng"
	"github.com/genbus/genbus/internal/upstream/kling"
)

const (
	klingText  = "/kling/v1/videos/text2video"
	klingImage = "/kling/v1/videos/image2video"
	klingBody  = `{"model_name":"sandbox-kling","prompt":"a cat","duration":"5"}`

	jimengSubmit = "/jimeng/?Action=CVSync2AsyncSubmitTask&Version=2022-08-31"
	jimengQuery  = "/jimeng/?Action=CVSync2AsyncGetResult&Version=2022-08-31"
	jimengBody   = `{"req_key":"sandbox-jimeng","prompt":"a cat"}`
)

// vendorCode is the code in a vendor's envelope, which must be whole.
func (a answer) vendorCode(t testing.TB) int {
	t.Helper()
	v := a.json(t)
	id := v["request_id"]
	if meta, ok := v["ResponseMetadata"].(map[string]any); ok {
		inner, _ := meta["Error"].(map[string]any)
		v, id = map[string]any{"code": inner["CodeN"], "message": inner["Message"]}, meta["RequestId"]
	}
	code, isInt := v["code"].(float64)
	if !isInt || v["message"] == "" || v["message"] == nil || id != a.header.Get("X-Request-Id") || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("not the vendor's envelope: %v %s", a.header, a.body)
	}
	return int(code)
}

// TestVendorRefusals: whatever is wrong with a call on a vendor's path, its
// client reads it in the vendor's own envelope.
func TestVendorRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, twoTenants, func(c *config.Config) { c.HTTP.MaxBodyBytes = 1 << 10 })
	long := strings.Repeat("x", 2<<10)
	form := []string{"Content-Type", "multipart/form-data; boundary=x"}
	for name, row := range map[string]struct {
		method, path, body string
		headers            []string
		status, code       int
		genbus             string // Genbus-Error-Code
	}{
		"kling, no JSON":             {"POST", klingText, `{"model_name":`, nil, 400, 1201, "invalid_json"},
		"kling, a list":              {"POST", klingText, `[]`, nil, 400, 1201, "invalid_json"},
		"kling, a form":              {"POST", klingText, klingBody, form, 400, 1201, "unsupported_media_type"},
		"kling, too large":           {"POST", klingText, `{"model_name":"sandbox-kling","prompt":"` + long + `"}`, nil, 400, 1201, "body_too_large"},
		"kling, no model":            {"POST", klingText, `{"prompt":"p"}`, nil, 400, 1201, "invalid_request"},
		"kling, an unknown model":    {"POST", klingText, `{"model_name":"none","prompt":"p"}`, nil, 404, 1203, "model_not_found"},
		"kling, a model of another":  {"POST", klingText, `{"model_name":"sandbox-video","prompt":"p"}`, nil, 400, 1200, "wrong_protocol"},
		"kling, a wrong duration":    {"POST", klingText, `{"model_name":"sandbox-kling","prompt":"p","duration":5}`, nil, 400, 1201, "invalid_request"},
		"kling, an image as text":    {"POST", klingText, `{"model_name":"sandbox-kling","prompt":"p","image":"aGk="}`, nil, 400, 1201, "invalid_request"},
		"kling, text as an image":    {"POST", klingImage, klingBody, nil, 400, 1201, "invalid_request"},
		"kling, a data URL":          {"POST", klingImage, `{"model_name":"sandbox-kling","image":"data:image/png;base64,aGk="}`, nil, 400, 1201, "invalid_request"},
		"kling, a callback":          {"POST", klingText, `{"model_name":"sandbox-kling","prompt":"p","callback_url":"http://x"}`, nil, 400, 1201, "invalid_request"},
		"kling, a bad external id":   {"POST", klingText, `{"model_name":"sandbox-kling","prompt":"p","external_task_id":"a b"}`, nil, 400, 1201, "invalid_request"},
		"kling, no such task":        {"GET", klingText + "/video_none", "", nil, 404, 1203, "task_not_found"},
		"kling, no such external id": {"GET", klingText + "/my-own-id", "", nil, 404, 1203, "task_not_found"},
		"kling, a page out of range": {"GET", klingText + "?pageNum=1001", "", nil, 400, 1201, "invalid_request"},
		"kling, too far back":        {"GET", klingText + "?pageNum=21&pageSize=500", "", nil, 400, 1201, "invalid_page_token"},
		"kling, labels":              {"POST", klingText, klingBody, []string{"Genbus-Labels", "k"}, 400, 1201, "invalid_request"},
		"kling, nobody":              {"POST", klingText, klingBody, []string{"Authorization", ""}, 401, 1000, "invalid_api_key"},
		"kling, a wrong key":         {"GET", klingText, "", []string{"Authorization", "Bearer no"}, 401, 1000, "invalid_api_key"},

		"jimeng, no JSON":            {"POST", jimengSubmit, `{"req_key":`, nil, 400, 50215, "invalid_json"},
		"jimeng, a query without id": {"POST", jimengQuery, `{"req_key":"sandbox-jimeng"}`, nil, 400, 50215, "invalid_request"},
		"jimeng, a query, no JSON":   {"POST", jimengQuery, `{`, nil, 400, 50215, "invalid_json"},
		"jimeng, a form":             {"POST", jimengSubmit, jimengBody, form, 400, 50215, "unsupported_media_type"},
		"jimeng, too large":          {"POST", jimengSubmit, `{"req_key":"sandbox-jimeng","prompt":"` + long + `"}`, nil, 413, 50215, "body_too_large"},
		"jimeng, no req_key":         {"POST", jimengSubmit, `{"prompt":"p"}`, nil, 400, 50215, "invalid_request"},
		"jimeng, an unknown req_key": {"POST", jimengSubmit, `{"req_key":"none","prompt":"p"}`, nil, 400, 50215, "model_not_found"},
		"jimeng, of another":         {"POST", jimengSubmit, `{"req_key":"sandbox-video","prompt":"p"}`, nil, 400, 50215, "wrong_protocol"},
		"jimeng, no Action":          {"POST", "/jimeng/?Version=2022-08-31", jimengBody, nil, 400, 50215, "invalid_request"},
		"jimeng, no Version":         {"POST", "/jimeng/?Action=CVSync2AsyncSubmitTask", jimengBody, nil, 400, 50215, "invalid_request"},
		"jimeng, another Action":     {"POST", "/jimeng/?Action=CVProcess&Version=2022-08-31", jimengBody, nil, 400, 50215, "invalid_request"},
		"jimeng, two Actions":        {"POST", jimengSubmit + "&Action=CVProcess", jimengBody, nil, 400, 50215, "invalid_request"},
		"jimeng, nobody":             {"POST", jimengSubmit, jimengBody, []string{"Authorization", ""}, 401, 100024, "invalid_api_key"},
		"jimeng, half a signature":   {"POST", jimengSubmit, jimengBody, []string{"Authorization", "HMAC-SHA256 Credential=x"}, 401, 100024, "invalid_api_key"},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.do(row.method, row.path, row.body, append([]string{"Authorization", "Bearer key-acme"}, row.headers...)...)
			if code := a.vendorCode(t); a.status != row.status || code != row.code || a.header.Get("Genbus-Error-Code") != row.genbus {
				t.Errorf("%d %d %s; want %d %d %s: %s", a.status, code, a.header.Get("Genbus-Error-Code"), row.status, row.code, row.genbus, a.body)
			}
		})
	}
	t.Run("while draining", func(t *testing.T) {
		w.api.Drain(nil)
		for path, body := range map[string]string{klingText: klingBody, jimengSubmit: jimengBody} {
			a := w.post(path, body, "Authorization", "Bearer key-acme")
			if code := a.vendorCode(t); a.status != http.StatusServiceUnavailable || code != 5001 && code != 50500 || a.header.Get("Genbus-Error-Code") != "shutting_down" {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
		}
	})
}

// TestVendorMalformedSignatureSaysWhatIsWrong, and not that a key is unknown.
func TestVendorMalformedSignatureSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, twoTenants)
	a := w.post(jimengSubmit, jimengBody, "Authorization", "HMAC-SHA256 Credential=x")
	if a.status != http.StatusUnauthorized || !strings.Contains(a.body, "SignedHeaders=") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestVendorUnknownTaskIsAStateForJimeng: its clients read not_found with 200.
func TestVendorUnknownTaskIsAStateForJimeng(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.post(jimengQuery, `{"req_key":"sandbox-jimeng","task_id":"7392616336519610409"}`)
	data, _ := a.json(t)["data"].(map[string]any)
	if a.status != http.StatusOK || a.vendorCode(t) != 10000 || data["status"] != "not_found" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestVendorPathsBelowAnotherSegment: http.segments moves them, and a signature
// is of the path that was called.
func TestVendorPathsBelowAnotherSegment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config.Config) {
		c.HTTP.Segments = map[string]string{"kling": "vendor_a", "jimeng": "vendor_b"}
		c.APIKeys = []config.APIKey{{Tenant: "acme", AccessKey: "ak", SecretKey: config.NewSecret("secret-key-of-acme")}}
	})
	for path, row := range map[string]struct {
		body string
		sign upstream.Authorizer
	}{
		strings.Replace(klingText, "kling", "vendor_a", 1):     {klingBody, kling.NewJWT("ak", "secret-key-of-acme")},
		strings.Replace(jimengSubmit, "jimeng", "vendor_b", 1): {jimengBody, jimeng.NewSigner("ak", "secret-key-of-acme")},
	} {
		r := w.request(http.MethodPost, path, row.body)
		if err := row.sign.Authorize(r, []byte(row.body)); err != nil {
			t.Fatal(err)
		}
		res, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
	for _, path := range []string{klingText, jimengSubmit} {
		if a := w.post(path, klingBody); a.status != http.StatusNotFound {
			t.Errorf("%s is still there: %d", path, a.status)
		}
	}
}

// TestVendorListByPageNumber passes over the pages before it, and holds tasks of
// every protocol.
func TestVendorListByPageNumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 7
	for i := range n {
		path, body := klingText, klingBody
		if i == 3 {
			path, body = "/v1/videos", videosBody
		}
		if a := w.post(path, body); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	list := func(query string) []any {
		t.Helper()
		a := w.get(klingImage + query)
		if a.vendorCode(t) != 0 {
			t.Fatalf("%s: %d %s", query, a.status, a.body)
		}
		data, ok := a.json(t)["data"].([]any)
		if !ok {
			t.Errorf("%s: no list: %s", query, a.body)
		}
		return data
	}
	w.await("the list", func() bool { return len(list("")) == n })
	seen := map[string]bool{}
	for page, want := range map[int]int{1: 3, 2: 3, 3: 1, 4: 0} {
		data := list(fmt.Sprintf("?pageNum=%d&pageSize=3", page))
		if len(data) != want {
			t.Errorf("page %d has %d tasks, want %d", page, len(data), want)
		}
		for _, d := range data {
			m, _ := d.(map[string]any)
			seen[fmt.Sprint(m["task_id"])] = true
		}
	}
	if len(seen) != n {
		t.Errorf("the pages have %d tasks", len(seen))
	}
}

// TestVendorHeadReads: HEAD reads as GET does.
func TestVendorHeadReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	created := w.post(klingText, klingBody)
	a := w.do(http.MethodHead, klingText+"/"+created.header.Get("Genbus-Job-Id"), "")
	if a.status != http.StatusOK || a.body != "" {
		t.Errorf("%d %s", a.status, a.body)
	}
}
