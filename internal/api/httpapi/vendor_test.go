package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/jimeng"
	"github.com/genbus/genbus/internal/upstream/kling"
)

// TestVendorRefusals checks that every error on a vendor's path has the vendor's envelope.
func TestVendorRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants, func(c *config.Config) { c.HTTP.MaxBodyBytes = 1 << 10 })
	long := strings.Repeat("x", 2<<10)
	form := []string{"Content-Type", "multipart/form-data; boundary=x"}
	for name, row := range map[string]struct {
		method, path, body string
		headers            []string
		status, code       int
		genbus             string // Genbus-Error-Code
	}{
		"kling, no JSON":             {"POST", apitest.KlingText, `{"model_name":`, nil, 400, 1201, "invalid_json"},
		"kling, a list":              {"POST", apitest.KlingText, `[]`, nil, 400, 1201, "invalid_json"},
		"kling, a form":              {"POST", apitest.KlingText, apitest.KlingBody, form, 415, 1201, "unsupported_media_type"},
		"kling, too large":           {"POST", apitest.KlingText, `{"model_name":"sandbox-kling","prompt":"` + long + `"}`, nil, 400, 1201, "body_too_large"},
		"kling, no model":            {"POST", apitest.KlingText, `{"prompt":"p"}`, nil, 400, 1201, "invalid_request"},
		"kling, an unknown model":    {"POST", apitest.KlingText, `{"model_name":"none","prompt":"p"}`, nil, 404, 1203, "model_not_found"},
		"kling, a model of another":  {"POST", apitest.KlingText, `{"model_name":"sandbox-video","prompt":"p"}`, nil, 400, 1200, "wrong_protocol"},
		"kling, a wrong duration":    {"POST", apitest.KlingText, `{"model_name":"sandbox-kling","prompt":"p","duration":5}`, nil, 400, 1201, "invalid_request"},
		"kling, an image as text":    {"POST", apitest.KlingText, `{"model_name":"sandbox-kling","prompt":"p","image":"aGk="}`, nil, 400, 1201, "invalid_request"},
		"kling, text as an image":    {"POST", apitest.KlingImage, apitest.KlingBody, nil, 400, 1201, "invalid_request"},
		"kling, many images":         {"POST", apitest.KlingImage, `{"model_name":"sandbox-kling","prompt":"p","image_list":[{"image":"aGk="}]}`, nil, 400, 1201, "invalid_request"},
		"kling, a longer video":      {"POST", apitest.KlingText, `{"model_name":"sandbox-kling","prompt":"p","video_id":"8930"}`, nil, 400, 1201, "invalid_request"},
		"kling, a data URL":          {"POST", apitest.KlingImage, `{"model_name":"sandbox-kling","image":"data:image/png;base64,aGk="}`, nil, 400, 1201, "invalid_request"},
		"kling, a callback":          {"POST", apitest.KlingText, `{"model_name":"sandbox-kling","prompt":"p","callback_url":"http://x"}`, nil, 400, 1201, "invalid_request"},
		"kling, a bad external id":   {"POST", apitest.KlingText, `{"model_name":"sandbox-kling","prompt":"p","external_task_id":"a b"}`, nil, 400, 1201, "invalid_request"},
		"kling, no such task":        {"GET", apitest.KlingText + "/video_none", "", nil, 404, 1203, "task_not_found"},
		"kling, no such external id": {"GET", apitest.KlingText + "/my-own-id", "", nil, 404, 1203, "task_not_found"},
		"kling, a page out of range": {"GET", apitest.KlingText + "?pageNum=1001", "", nil, 400, 1201, "invalid_request"},
		"kling, too far back":        {"GET", apitest.KlingText + "?pageNum=21&pageSize=500", "", nil, 400, 1201, "invalid_page_token"},
		"kling, another product":     {"POST", "/kling/v1/videos/lip-sync", apitest.KlingBody, nil, 404, 1203, "not_found"},
		"kling, another product's":   {"GET", "/kling/v1/images/generations/1", "", nil, 404, 1203, "not_found"},
		"kling, the newer API":       {"POST", "/kling/text-to-video/kling-3.0", `{"prompt":"p"}`, nil, 404, 1203, "not_found"},
		"kling, the segment":         {"GET", "/kling", "", nil, 404, 1203, "not_found"},
		"kling, the segment, slash":  {"GET", "/kling/", "", nil, 404, 1203, "not_found"},
		"kling, below a task":        {"POST", apitest.KlingText + "/1/cancel", "", nil, 404, 1203, "not_found"},
		"kling, no such method":      {"DELETE", apitest.KlingText + "/1", "", nil, 404, 1202, "method_not_allowed"},
		"kling, nobody, nowhere":     {"GET", "/kling/nowhere", "", []string{"Authorization", ""}, 404, 1203, "not_found"},
		"kling, labels":              {"POST", apitest.KlingText, apitest.KlingBody, []string{"Genbus-Labels", "k"}, 400, 1201, "invalid_request"},
		"kling, nobody":              {"POST", apitest.KlingText, apitest.KlingBody, []string{"Authorization", ""}, 401, 1000, "invalid_api_key"},
		"kling, a wrong key":         {"GET", apitest.KlingText, "", []string{"Authorization", "Bearer no"}, 401, 1000, "invalid_api_key"},

		"jimeng, no JSON":            {"POST", apitest.JimengSubmit, `{"req_key":`, nil, 400, 50215, "invalid_json"},
		"jimeng, a query without id": {"POST", apitest.JimengQuery, `{"req_key":"sandbox-jimeng"}`, nil, 400, 50215, "invalid_request"},
		"jimeng, a query, no JSON":   {"POST", apitest.JimengQuery, `{`, nil, 400, 50215, "invalid_json"},
		"jimeng, a form":             {"POST", apitest.JimengSubmit, apitest.JimengBody, form, 415, 50215, "unsupported_media_type"},
		"jimeng, too large":          {"POST", apitest.JimengSubmit, `{"req_key":"sandbox-jimeng","prompt":"` + long + `"}`, nil, 413, 50215, "body_too_large"},
		"jimeng, no req_key":         {"POST", apitest.JimengSubmit, `{"prompt":"p"}`, nil, 400, 50215, "invalid_request"},
		"jimeng, an unknown req_key": {"POST", apitest.JimengSubmit, `{"req_key":"none","prompt":"p"}`, nil, 400, 50215, "model_not_found"},
		"jimeng, of another":         {"POST", apitest.JimengSubmit, `{"req_key":"sandbox-video","prompt":"p"}`, nil, 400, 50215, "wrong_protocol"},
		"jimeng, no Action":          {"POST", "/jimeng/?Version=2022-08-31", apitest.JimengBody, nil, 400, 50215, "invalid_request"},
		"jimeng, no Version":         {"POST", "/jimeng/?Action=CVSync2AsyncSubmitTask", apitest.JimengBody, nil, 400, 50215, "invalid_request"},
		"jimeng, another Action":     {"POST", "/jimeng/?Action=CVProcess&Version=2022-08-31", apitest.JimengBody, nil, 400, 50215, "invalid_request"},
		"jimeng, two Actions":        {"POST", apitest.JimengSubmit + "&Action=CVProcess", apitest.JimengBody, nil, 400, 50215, "invalid_request"},
		"jimeng, a path":             {"POST", "/jimeng/v1?Action=CVSync2AsyncSubmitTask&Version=2022-08-31", apitest.JimengBody, nil, 404, 50215, "not_found"},
		"jimeng, no such method":     {"GET", apitest.JimengSubmit, "", nil, 405, 50215, "method_not_allowed"},
		"jimeng, nobody":             {"POST", apitest.JimengSubmit, apitest.JimengBody, []string{"Authorization", ""}, 401, 100024, "invalid_api_key"},
		"jimeng, half a signature":   {"POST", apitest.JimengSubmit, apitest.JimengBody, []string{"Authorization", "HMAC-SHA256 Credential=x"}, 401, 100024, "invalid_api_key"},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.Do(row.method, row.path, row.body, append([]string{"Authorization", "Bearer key-acme"}, row.headers...)...)
			if code := a.VendorCode(t); a.Status != row.status || code != row.code || a.Header.Get("Genbus-Error-Code") != row.genbus {
				t.Errorf("%d %d %s; want %d %d %s: %s", a.Status, code, a.Header.Get("Genbus-Error-Code"), row.status, row.code, row.genbus, a.Body)
			}
		})
	}
	t.Run("while draining", func(t *testing.T) {
		w.Drain(nil)
		for path, body := range map[string]string{apitest.KlingText: apitest.KlingBody, apitest.JimengSubmit: apitest.JimengBody} {
			a := w.Post(path, body, "Authorization", "Bearer key-acme")
			if code := a.VendorCode(t); a.Status != http.StatusServiceUnavailable || code != 5001 && code != 50500 || a.Header.Get("Genbus-Error-Code") != "shutting_down" {
				t.Errorf("%s: %d %s", path, a.Status, a.Body)
			}
		}
	})
}

// TestVendorMalformedSignatureSaysWhatIsWrong checks that a malformed signature is not reported as
// an unknown key.
func TestVendorMalformedSignatureSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants)
	a := w.Post(apitest.JimengSubmit, apitest.JimengBody, "Authorization", "HMAC-SHA256 Credential=x")
	if a.Status != http.StatusUnauthorized || !strings.Contains(a.Body, "SignedHeaders=") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// TestVendorUnknownTaskIsAStateForJimeng checks that Jimeng's clients get not_found with status
// 200.
func TestVendorUnknownTaskIsAStateForJimeng(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.Post(apitest.JimengQuery, `{"req_key":"sandbox-jimeng","task_id":"7392616336519610409"}`)
	data, _ := a.JSON(t)["data"].(map[string]any)
	if a.Status != http.StatusOK || a.VendorCode(t) != 10000 || data["status"] != "not_found" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// TestVendorPathsBelowAnotherSegment checks that http.segments moves the paths and that signatures
// cover the called path.
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
		strings.Replace(apitest.KlingText, "kling", "vendor_a", 1):     {apitest.KlingBody, kling.NewJWT("ak", "secret-key-of-acme")},
		strings.Replace(apitest.JimengSubmit, "jimeng", "vendor_b", 1): {apitest.JimengBody, jimeng.NewSigner("ak", "secret-key-of-acme")},
	} {
		r := w.Request(http.MethodPost, path, row.body)
		if err := row.sign.Authorize(r, []byte(row.body)); err != nil {
			t.Fatal(err)
		}
		res, err := w.Client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
	for _, path := range []string{apitest.KlingText, apitest.JimengSubmit} {
		if a := w.Post(path, apitest.KlingBody); a.Status != http.StatusNotFound {
			t.Errorf("%s is still there: %d", path, a.Status)
		}
	}
}

// TestVendorListByPageNumber checks that a numbered page skips the previous ones and lists tasks of
// every protocol.
func TestVendorListByPageNumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 7
	for i := range n {
		path, body := apitest.KlingText, apitest.KlingBody
		if i == 3 {
			path, body = "/v1/videos", apitest.VideosBody
		}
		if a := w.Post(path, body); a.Status != http.StatusOK {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	list := func(query string) []any {
		t.Helper()
		a := w.Get(apitest.KlingImage + query)
		if a.VendorCode(t) != 0 {
			t.Fatalf("%s: %d %s", query, a.Status, a.Body)
		}
		data, ok := a.JSON(t)["data"].([]any)
		if !ok {
			t.Errorf("%s: no list: %s", query, a.Body)
		}
		return data
	}
	w.Await("the list", func() bool { return len(list("")) == n })
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

// TestVendorHeadReads checks that HEAD works like GET.
func TestVendorHeadReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	created := w.Post(apitest.KlingText, apitest.KlingBody)
	a := w.Do(http.MethodHead, apitest.KlingText+"/"+created.Header.Get("Genbus-Job-Id"), "")
	if a.Status != http.StatusOK || a.Body != "" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
