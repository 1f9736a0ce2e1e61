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
	{"code 0 as text", `{"code":"0","message":"m"}`, ErrorBody{Message: "m"}, true},
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
	{"google", `[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com","metadata":{"service":"s"}},{"@type":"type.googleapis.com/google.rpc.LocalizedMessage","message":"x"}]}}]`, ErrorBody{Code: "API_KEY_INVALID", Type: "INVALID_ARGUMENT", Message: "API key not valid."}, true},
	{"google without a list", `{"error":{"code":404,"message":"m","status":"NOT_FOUND"}}`, ErrorBody{Code: "NOT_FOUND", Message: "m"}, true},
	{"google's wait", `[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"@type":"t/google.rpc.QuotaFailure","violations":[{"quotaMetric":"q"}]},{"@type":"t/google.rpc.RetryInfo","retryDelay":"34.07s"}]}}]`, ErrorBody{Code: "RESOURCE_EXHAUSTED", Message: "m", RetryAfter: 34070 * time.Millisecond}, true},
	{"google, older", `{"error":{"code":400,"message":"m","errors":[{"message":"n","domain":"usageLimits","reason":"keyInvalid"}]}}`, ErrorBody{Code: "keyInvalid", Message: "n"}, true},
	{"status of a task", `{"id":"v","status":"UNKNOWN"}`, ErrorBody{Message: "JSON that is not an error"}, false},
	{"details of another kind", `{"error":{"code":"c","message":"m","details":"d"}}`, ErrorBody{Code: "c", Message: "m"}, true},
	{"grpc-gateway", `{"code":16,"message":"m","details":[]}`, ErrorBody{Code: "16", Message: "m"}, true},
	{"kratos", `{"code":403,"reason":"NOT_ENOUGH_BALANCE","message":"m","metadata":{"raw":1}}`, ErrorBody{Code: "NOT_ENOUGH_BALANCE", Message: "m"}, true},
	{"reason in words", `{"code":403,"reason":"not enough","message":"m"}`, ErrorBody{Code: "403", Message: "m"}, true},
	{"anthropic", `{"type":"error","error":{"type":"overloaded_error","message":"m"},"request_id":"r"}`, ErrorBody{Type: "overloaded_error", Message: "m", RequestID: "r"}, true},
	{"cloudflare", `{"success":false,"errors":[{"code":7003,"message":"m"}],"messages":[],"result":null}`, ErrorBody{Code: "7003", Message: "m"}, true},
	{"cloudflare's gateway", `{"success":false,"error":[{"code":2001,"message":"m"}]}`, ErrorBody{Code: "2001", Message: "m"}, true},
	{"errors as texts", `{"id":"1","name":"bad_request","errors":["m","n"]}`, ErrorBody{Message: "m"}, true},
	{"no errors", `{"errors":[],"error":null}`, ErrorBody{Message: "JSON that is not an error"}, false},
	{"problem details", `{"type":"about:blank","title":"Not Found","status":404,"detail":"m"}`, ErrorBody{Type: "about:blank", Message: "m"}, true},
	{"minimax", `{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`, ErrorBody{Code: "1008", Message: "insufficient balance"}, true},
	{"minimax, success", `{"task_id":"t","base_resp":{"status_code":0,"status_msg":"success"}}`, ErrorBody{Message: "JSON that is not an error"}, false},
	{"baidu", `{"error_code":110,"error_msg":"m"}`, ErrorBody{Code: "110", Message: "m"}, true},
	{"pixverse", `{"ErrCode":400011,"ErrMsg":"m","Resp":null}`, ErrorBody{Code: "400011", Message: "m"}, true},
	{"pixverse, success", `{"ErrCode":0,"ErrMsg":"Success","Resp":{}}`, ErrorBody{Message: "JSON that is not an error"}, false},
	{"302", `{"error":{"err_code":-10003,"message":"m","message_cn":"n","type":"api_error"}}`, ErrorBody{Code: "-10003", Type: "api_error", Message: "m"}, true},
	{"tencent", `{"Response":{"Error":{"Code":"AuthFailure.SignatureFailure","Message":"m"},"RequestId":"r"}}`, ErrorBody{Code: "AuthFailure.SignatureFailure", Message: "m", RequestID: "r"}, true},
	{"apigee", `{"fault":{"faultstring":"m","detail":{"errorcode":"oauth.v2.InvalidApiKey"}}}`, ErrorBody{Message: "m"}, true},
	{"tgi", `{"error":"m","error_type":"overloaded"}`, ErrorBody{Type: "overloaded", Message: "m"}, true},
	{"hugging face, loading", `{"error":"m","estimated_time":20.0}`, ErrorBody{Message: "m", RetryAfter: 20 * time.Second}, true},
	{"mistral", `{"object":"error","message":{"detail":[{"type":"missing","loc":["body"],"msg":"m"}]},"type":"t","code":null}`, ErrorBody{Type: "t", Message: "m"}, true},
	{"deepinfra", `{"detail":{"error":"m"}}`, ErrorBody{Message: "m"}, true},
	{"word beside a message", `{"error":"Unauthorized","message":"m"}`, ErrorBody{Code: "Unauthorized", Message: "m"}, true},
	{"spring", `{"timestamp":"t","status":404,"error":"Not Found","message":"n","path":"/x"}`, ErrorBody{Message: "Not Found"}, true},
	{"error in an error", `{"error":{"error":{"message":"m","code":"c"}}}`, ErrorBody{Code: "c", Message: "m"}, true},
	{"error of a choice", `{"id":"c","choices":[{"index":0},{"error":{"code":502,"message":"m"}}]}`, ErrorBody{Code: "502", Message: "m"}, true},
	{"openrouter", `{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"{\"error\":{\"message\":\"m\",\"code\":\"invalid_api_key\"}}","provider_name":"p"}},"user_id":"u"}`, ErrorBody{Code: "429", Message: "Provider returned error: m"}, true},
	{"openrouter, text", `{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"m","retry_after_seconds":7}}}`, ErrorBody{Code: "429", Message: "Provider returned error: m", RetryAfter: 7 * time.Second}, true},
	{"headers of the error", `{"error":{"message":"m","headers":{"Retry-After":"9"}}}`, ErrorBody{Message: "m", RetryAfter: 9 * time.Second}, true},
	{"retry_after", `{"message":"m","retry_after":64.5}`, ErrorBody{Message: "m", RetryAfter: 64500 * time.Millisecond}, true},
	{"retry_after_ms", `{"error":{"message":"m","retryAfterMs":"1500"}}`, ErrorBody{Message: "m", RetryAfter: 1500 * time.Millisecond}, true},
	{"retry_after of a day", `{"message":"m","retry_after":86400}`, ErrorBody{Message: "m", RetryAfter: maxRetryAfter}, true},
	{"passed on", `{"code":"fail_to_fetch_task","message":"{\"code\":1102,\"message\":\"m\",\"request_id\":\"r\"}","data":null}`, ErrorBody{Code: "1102", Wrapped: "fail_to_fetch_task", Message: "m", RequestID: "r"}, true},
	{"passed on in a sentence", `{"error":{"code":"bad_response_status_code","type":"upstream_error","message":"bad response status code 400, body: [{\"error\":{\"message\":\"m\",\"details\":[{\"reason\":\"API_KEY_INVALID\"}]}}] (request id: 1)"}}`, ErrorBody{Code: "API_KEY_INVALID", Type: "upstream_error", Wrapped: "bad_response_status_code", Message: "m"}, true},
	{"a request that quotes an error", `{"error":{"code":"invalid_value","message":"Invalid value: {\"code\":\"invalid_api_key\"}"}}`, ErrorBody{Code: "invalid_value", Message: `Invalid value: {"code":"invalid_api_key"}`}, true},
	{"word as the error", `{"error":"invalid_api_key"}`, ErrorBody{Code: "invalid_api_key", Message: "invalid_api_key"}, true},
	{"passed on without a code", `{"code":"fail_to_fetch_task","message":"{\"error\":\"m\"}"}`, ErrorBody{Code: "fail_to_fetch_task", Message: "m"}, true},
	{"passed on twice", `{"error":{"code":"bad_response","message":"{\"error\":{\"code\":\"bad\",\"message\":\"[{\\\"error\\\":{\\\"message\\\":\\\"m\\\",\\\"status\\\":\\\"UNAUTHENTICATED\\\"}}]\"}}"}}`, ErrorBody{Code: "UNAUTHENTICATED", Wrapped: "bad_response", Message: "m"}, true},
	{"passed on, cut off", `{"code":"c","message":"{\"error\":{\"mess"}`, ErrorBody{Code: "c", Message: `{"error":{"mess`}, true},
	{"a sentence with braces", `{"code":"c","message":"{x} is not valid"}`, ErrorBody{Code: "c", Message: "{x} is not valid"}, true},
	{"bare text", `"Invalid token"`, ErrorBody{Message: "Invalid token"}, true},
	{"event", "event: error\ndata: {\"code\":\"c\",\"message\":\"m\"}\n\n", ErrorBody{Code: "c", Message: "m"}, true},
	{"event without a space", "id:1\nevent:error\n:HTTP_STATUS/400\ndata:{\"code\":\"c\",\"message\":\"m\"}\n\n", ErrorBody{Code: "c", Message: "m"}, true},
	{"byte order mark", "\uFEFF{\"error\":\"m\"}", ErrorBody{Message: "m"}, true},
	{"two values", "{\"error\":\"m\"}\n{\"done\":true}", ErrorBody{Message: "m"}, true},
	{"nested too deep", strings.Repeat(`{"error":`, 20) + `"m"` + strings.Repeat("}", 20), ErrorBody{Message: "JSON that is not an error"}, false},
	{"array of no error", `[{"id":"m"}]`, ErrorBody{Message: "JSON that is not an error"}, false},
	{"cut off", `{"error":{"message":"m"`, ErrorBody{Message: "JSON that is not an error"}, false},
	{"names with and without a value", `{"Message":"m","message":null,"CODE":"c","code":""}`, ErrorBody{Code: "c", Message: "m"}, true},
	{"names that differ in case", `{"Message":"n","message":"m","MESSAGE":"o","@type":"u","type":"t","Code":1,"code":"c"}`, ErrorBody{Code: "c", Type: "t", Message: "m"}, true},
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
		if e.RetryAfter < 0 || e.RetryAfter > maxRetryAfter {
			t.Errorf("wait %v", e.RetryAfter)
		}
		for _, word := range []string{e.Code, e.Type, e.Wrapped, e.Param, e.RequestID} {
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

func TestWaitInText(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]time.Duration{
		"Rate limit reached for gpt-4 in organization org-x on tokens per min. Please try again in 20s. Visit ..": 20 * time.Second,
		"Please try again in 7m38.4s. Need more tokens?":                                                          7*time.Minute + 38400*time.Millisecond,
		"Please try again in 372ms.":                                        372 * time.Millisecond,
		"Please retry in 34.074824224s.":                                    34074824224,
		"Please retry after 20 seconds. Please go here":                     20 * time.Second,
		"Rate limit is exceeded. Try again in 1 minute.":                    time.Minute,
		"Please wait 35000 seconds before retrying.":                        maxRetryAfter,
		"Please retry shortly, or add your own key":                         0,
		"try again in a moment":                                             0,
		"Please try again in 99999999999999999999999999999999999999999999h": 0,
		"": 0,
	} {
		if got := waitInText(message); got != want {
			t.Errorf("%q: %v, want %v", message, got, want)
		}
	}
	ep := &Endpoint{Name: "test"}
	for status, want := range map[int]time.Duration{429: 20 * time.Second, 503: 20 * time.Second, 400: 0, 500: 0} {
		e, _ := ep.ResponseError(OpCreate, &http.Response{StatusCode: status, Header: http.Header{}}, []byte(`{"message":"Please try again in 20s."}`))
		if e.RetryAfter != want {
			t.Errorf("%d: %v, want %v", status, e.RetryAfter, want)
		}
	}
	resp := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"3"}}}
	if e, _ := ep.ResponseError(OpCreate, resp, []byte(`{"message":"m","retry_after":60}`)); e.RetryAfter != 3*time.Second {
		t.Errorf("a header and a body: %v", e.RetryAfter)
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
