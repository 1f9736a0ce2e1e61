package upstream

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/upstream/chat/chattest"
)

var errorBodies = []struct {
	name, body string
	want       ErrorBody
	readable   bool
}{
	{"openai", `{"error":{"message":"m","type":"t","param":"p","code":"c"}}`, ErrorBody{Code: "c", Type: "t", Param: "p", Message: "m"}, true},
	{"nulls", `{"error":{"message":"m","type":"t","param":null,"code":null}}`, ErrorBody{Type: "t", Message: "m"}, true},
	{"integer code", `{"error":{"message":"m","code":502}}`, ErrorBody{Code: "502", Message: "m"}, true},
	{"empty code", `{"error":{"code":"","message":"Invalid token","type":"new_api_error"}}`, ErrorBody{Type: "new_api_error", Message: "Invalid token"}, true},
	{"code 0 with message", `{"error":{"code":0,"message":"m"}}`, ErrorBody{Message: "m"}, true},
	{"code 0", `{"error":{"code":0,"message":""}}`, ErrorBody{Message: "JSON that is not an error"}, false},
	{"text", `{"error":"boom"}`, ErrorBody{Message: "boom"}, true},
	{"text beside code", `{"error":"boom","code":17}`, ErrorBody{Code: "17", Message: "boom"}, true},
	{"flat", `{"code":"invalid_request","message":"prompt is required","data":null}`, ErrorBody{Code: "invalid_request", Message: "prompt is required"}, true},
	{"flat nulls", `{"code":null,"message":"m","param":"","type":""}`, ErrorBody{Message: "m"}, true},
	{"flat integer", `{"code":50411,"message":"m"}`, ErrorBody{Code: "50411", Message: "m"}, true},
	{"vllm", `{"object":"error","message":"m","type":"BadRequestError","code":400}`, ErrorBody{Code: "400", Type: "BadRequestError", Message: "m"}, true},
	{"detail", `{"detail":"Not authenticated"}`, ErrorBody{Message: "Not authenticated"}, true},
	{"detail list", `{"detail":[{"loc":["body","x"],"msg":"field required"}]}`, ErrorBody{Message: "field required"}, true},
	{"detail object", `{"detail":{"message":"m"}}`, ErrorBody{Message: "m"}, true},
	{"detail nested lists", `{"detail":[[["m"]]]}`, ErrorBody{Message: "m"}, true},
	{"message", `{"message":"m"}`, ErrorBody{Message: "m"}, true},
	{"msg", `{"msg":"m"}`, ErrorBody{Message: "m"}, true},
	{"chinese", `{"code":"x","message":"当前分组上游负载已饱和"}`, ErrorBody{Code: "x", Message: "当前分组上游负载已饱和"}, true},
	{"request id", `{"code":1303,"message":"parallel task over resource pack limit","request_id":"c2a1"}`, ErrorBody{Code: "1303", Message: "parallel task over resource pack limit", RequestID: "c2a1"}, true},
	{"request id, data null", `{"code":50411,"data":null,"message":"Pre Img Risk Not Pass","request_id":"2026","status":50411,"time_elapsed":"9ms"}`, ErrorBody{Code: "50411", Message: "Pre Img Risk Not Pass", RequestID: "2026"}, true},
	{"request id beside the error", `{"error":{"message":"m"},"request_id":"r"}`, ErrorBody{Message: "m", RequestID: "r"}, true},
	{"request id of no error", `{"code":0,"message":"","request_id":"r","data":{}}`, ErrorBody{Message: "JSON that is not an error", RequestID: "r"}, false},
	{"request id of another type", `{"message":"m","request_id":7}`, ErrorBody{Message: "m"}, true},
	{"metadata", `{"ResponseMetadata":{"RequestId":"r","Action":"CVProcess","Version":"2022-08-31","Service":"cv","Region":"cn-north-1","Error":{"CodeN":100010,"Code":"SignatureDoesNotMatch","Message":"m"}}}`, ErrorBody{Code: "SignatureDoesNotMatch", Message: "m", RequestID: "r"}, true},
	{"metadata, number only", `{"ResponseMetadata":{"RequestId":"r","Error":{"CodeN":100009,"Message":"m"}}}`, ErrorBody{Code: "100009", Message: "m", RequestID: "r"}, true},
	{"metadata, code only", `{"ResponseMetadata":{"Error":{"Code":"FlowLimitExceeded"}}}`, ErrorBody{Code: "FlowLimitExceeded"}, true},
	{"metadata beside a message", `{"ResponseMetadata":{"RequestId":"r","Error":{"Code":"InvalidAuthorization"}},"message":"m"}`, ErrorBody{Code: "InvalidAuthorization", Message: "m", RequestID: "r"}, true},
	{"metadata of no error", `{"ResponseMetadata":{"RequestId":"r"},"Result":{}}`, ErrorBody{Message: "JSON that is not an error", RequestID: "r"}, false},
	{"metadata of odd types", `{"ResponseMetadata":{"RequestId":[],"Error":"x"}}`, ErrorBody{Message: "JSON that is not an error"}, false},
	{"metadata null", `{"ResponseMetadata":null,"message":"m"}`, ErrorBody{Message: "m"}, true},
	{"html", "\n<html><head><title>502 Bad Gateway</title></head></html>", ErrorBody{Message: "an HTML page 502 Bad Gateway"}, false},
	{"html without title", `<!doctype html>`, ErrorBody{Message: "an HTML page"}, false},
	{"plain", "upstream connect error\n", ErrorBody{Message: "upstream connect error"}, false},
	{"empty", "", ErrorBody{}, false},
	{"empty object", `{}`, ErrorBody{Message: "JSON that is not an error"}, false},
	{"null error", `{"error":null}`, ErrorBody{Message: "JSON that is not an error"}, false},
	{"empty error", `{"error":{}}`, ErrorBody{Message: "JSON that is not an error"}, false},
	{"array", `[{"message":"m"}]`, ErrorBody{Message: "JSON that is not an error"}, false},
	{"cut off", `{"error":{"message":"m"`, ErrorBody{Message: "JSON that is not an error"}, false},
	{"odd types", `{"error":{"message":{},"code":[],"type":7},"message":1}`, ErrorBody{Message: "JSON that is not an error"}, false},
}

func TestParseErrorBody(t *testing.T) {
	t.Parallel()
	for _, c := range errorBodies {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, readable := ParseErrorBody([]byte(c.body))
			if diff := cmp.Diff(c.want, got); diff != "" || readable != c.readable {
				t.Errorf("readable = %v, want %v; (-want +got):\n%s", readable, c.readable, diff)
			}
		})
	}
}

// TestResponseErrorRequestID checks that a request ID in a header takes precedence over one in the
// body.
func TestResponseErrorRequestID(t *testing.T) {
	t.Parallel()
	ep := &Endpoint{Name: "test"}
	body := []byte(`{"code":1303,"message":"m","request_id":"of-the-body"}`)
	for header, want := range map[string]string{"": "of-the-body", "of-the-header": "of-the-header"} {
		resp := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"X-Request-Id": {header}}}
		e, readable := ep.ResponseError(OpCreate, resp, body)
		if !readable || e.RequestID != want || e.Code != "1303" || e.HTTPStatus != http.StatusTooManyRequests {
			t.Errorf("header %q: %#v", header, e)
		}
	}
}

func FuzzParseErrorBody(f *testing.F) {
	for _, c := range errorBodies {
		f.Add([]byte(c.body))
	}
	f.Add([]byte("{\"message\":\"\xff\xfe\"}"))
	for _, a := range chattest.Seeds(f, "chat/testdata") {
		f.Add(a.Body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e, readable := ParseErrorBody(body)
		if said := e.Code + e.Type; (readable && said+e.Message == "") || (!readable && said != "") {
			t.Errorf("readable = %v with %+v", readable, e)
		}
		for _, word := range []string{e.Code, e.Type, e.Param, e.RequestID} {
			if len(word) > maxWord || !utf8.ValidString(word) {
				t.Errorf("bad word %q", word)
			}
		}
		if len(e.Message) > maxMessage || !utf8.ValidString(e.Message) {
			t.Errorf("bad message %q", e.Message)
		}
	})
}

func TestCutMessageAtRuneBorder(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "a", "ab"} {
		got := CutMessage(prefix + strings.Repeat("好", 1000))
		if !utf8.ValidString(got) || len(got) > maxMessage || len(got) < maxMessage-2 || strings.ContainsRune(got, utf8.RuneError) {
			t.Errorf("cut to %d bytes: %q", len(got), got[len(got)-4:])
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	date := "Mon, 02 Nov 2026 10:00:00 GMT"
	cases := []struct {
		after, ms, date string
		want            time.Duration
	}{
		{after: "7", want: 7 * time.Second},
		{after: " 1.5 ", want: 1500 * time.Millisecond},
		{after: "Mon, 02 Nov 2026 10:00:30 GMT", date: date, want: 30 * time.Second},
		{after: "Mon, 02 Nov 2026 09:00:00 GMT", date: date},
		{after: "7", ms: "250", want: 250 * time.Millisecond},
		{after: "7", ms: "soon", want: 7 * time.Second},
		{after: "-3"}, {after: "NaN"}, {after: "soon"}, {after: ""},
		{after: "86400", want: 10 * time.Minute},
		{after: "1e300", want: maxRetryAfter},
		{after: "Inf", want: maxRetryAfter},
		{after: "999999999999999999999", want: maxRetryAfter},
	}
	for _, c := range cases {
		h := http.Header{}
		h.Set("Retry-After", c.after)
		h.Set("Date", c.date)
		if c.ms != "" {
			h.Set("Retry-After-Ms", c.ms)
		}
		if got := RetryAfter(h); got != c.want {
			t.Errorf("RetryAfter(%+v) = %v, want %v", c, got, c.want)
		}
	}
	h := http.Header{"Retry-After": {time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)}}
	if got := RetryAfter(h); got < 30*time.Second || got > time.Minute {
		t.Errorf("RetryAfter without Date = %v, want about 1m", got)
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("7", "250", "")
	f.Add("Mon, 02 Nov 2026 10:00:30 GMT", "", "Mon, 02 Nov 2026 10:00:00 GMT")
	f.Fuzz(func(t *testing.T, after, ms, date string) {
		h := http.Header{"Retry-After": {after}, "Retry-After-Ms": {ms}, "Date": {date}}
		if got := RetryAfter(h); got < 0 || got > maxRetryAfter {
			t.Errorf("RetryAfter = %v", got)
		}
	})
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	for _, name := range []string{"X-Generation-Id", "X-Oneapi-Request-Id", "X-Request-Id"} {
		h.Set(name, name+strings.Repeat("x", 500))
		if got := RequestID(h); !strings.HasPrefix(got, name) || len(got) != maxWord {
			t.Errorf("RequestID = %q, want that of %s", got, name)
		}
	}
}
