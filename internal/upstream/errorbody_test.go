package upstream

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var errorBodies = []struct {
	name, body string
	want       ErrorBody
	readable   bool
}{
	{"openai", `{"error":{"message":"m","type":"t","param":"p","code":"c"}}`, ErrorBody{"c", "t", "p", "m"}, true},
	{"nulls", `{"error":{"message":"m","type":"t","param":null,"code":null}}`, ErrorBody{"", "t", "", "m"}, true},
	{"integer code", `{"error":{"message":"m","code":502}}`, ErrorBody{"502", "", "", "m"}, true},
	{"empty code", `{"error":{"code":"","message":"Invalid token","type":"new_api_error"}}`, ErrorBody{"", "new_api_error", "", "Invalid token"}, true},
	{"code 0 with message", `{"error":{"code":0,"message":"m"}}`, ErrorBody{"", "", "", "m"}, true},
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

func FuzzParseErrorBody(f *testing.F) {
	for _, c := range errorBodies {
		f.Add([]byte(c.body))
	}
	f.Add([]byte("{\"message\":\"\xff\xfe\"}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, readable := ParseErrorBody(body)
		if said := e.Code + e.Type; (readable && said+e.Message == "") || (!readable && said != "") {
			t.Errorf("readable = %v with %+v", readable, e)
		}
		for _, word := range []string{e.Code, e.Type, e.Param} {
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
		{after: "1e300", want: 24 * time.Hour},
		{after: "Inf", want: 24 * time.Hour},
		{after: "999999999999999999999", want: 24 * time.Hour},
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
	h := http.Header{"Retry-After": {time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}}
	if got := RetryAfter(h); got < 50*time.Minute || got > time.Hour {
		t.Errorf("RetryAfter without Date = %v, want about 1h", got)
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
