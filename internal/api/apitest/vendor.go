package apitest

import "testing"

// Paths of vendors' APIs, and request bodies for creating tasks there.
const (
	KlingText  = "/kling/v1/videos/text2video"
	KlingImage = "/kling/v1/videos/image2video"
	KlingBody  = `{"model_name":"sandbox-kling","prompt":"a cat","duration":"5"}`

	JimengSubmit = "/jimeng/?Action=CVSync2AsyncSubmitTask&Version=2022-08-31"
	JimengQuery  = "/jimeng/?Action=CVSync2AsyncGetResult&Version=2022-08-31"
	JimengBody   = `{"req_key":"sandbox-jimeng","prompt":"a cat"}`
)

// VendorCode returns the code in a vendor's envelope and fails the test if the envelope is
// incomplete.
func (a Answer) VendorCode(t testing.TB) int {
	t.Helper()
	v := a.JSON(t)
	id := v["request_id"]
	if meta, ok := v["ResponseMetadata"].(map[string]any); ok {
		inner, _ := meta["Error"].(map[string]any)
		v, id = map[string]any{"code": inner["CodeN"], "message": inner["Message"]}, meta["RequestId"]
	}
	code, isInt := v["code"].(float64)
	if !isInt || v["message"] == "" || v["message"] == nil || id != a.Header.Get("X-Request-Id") || a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("not the vendor's envelope: %v %s", a.Header, a.Body)
	}
	return int(code)
}
