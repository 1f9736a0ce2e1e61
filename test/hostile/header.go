package hostile

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
)

// Header returns the name and value of one hostile header. The value may contain any bytes except
// CR, LF and NUL.
func Header(s *Source) (name, value string) {
	h := One(s, headers)
	if s.Chance(25) {
		return h.name, HeaderText(s)
	}
	return h.name, One(s, h.values)
}

// header holds values that violate the grammar of one header.
type header struct {
	name   string
	values []string
}

var headers = []header{
	{"Idempotency-Key", []string{"", " ", strings.Repeat("k", 255), strings.Repeat("k", 256), strings.Repeat("k", 60_000), "a\tb", "ключ", "\xff", "a b", "external_task_id:x", "video_aaaaaaaaaaaaaaaaaaaaaaaaaa"}},
	{"Genbus-Labels", []string{
		"", "=", "k", "k=", "=v", "k=v,", ",", ",,,,", "k=v,k=v", "k=%", "k=%zz", "k=%00", "k=%0d%0aX-Injected:1", "%=%", "k=" + strings.Repeat("v", 129), strings.Repeat("k", 129) + "=v",
		strings.Repeat("k=v,", 64), strings.Repeat("a,", 50_000), manyLabels(16), manyLabels(17), "k=%ff%fe", "k=\xff", "k=v;q=1", "k==v", " k = v ", "traceparent=x",
	}},
	{"Prefer", []string{"respond-async", "respond-async;", "respond-async, respond-async", "RESPOND-ASYNC;wait=99999999999", "respond-async=\"", ",;,;", strings.Repeat("a,", 30_000), "return=minimal; respond-async"}},
	{"Range", []string{
		"bytes=", "bytes=0-", "bytes=-1", "bytes=-0", "bytes=0-0", "bytes=5-2", "bytes=9223372036854775807-", "bytes=0-9223372036854775808", "bytes=18446744073709551616-", "bytes=-9223372036854775808",
		"bytes=0-0,1-1", "bytes=" + strings.Repeat("0-0,", 10_000) + "0-0", "items=0-1", "bytes 0-1", "bytes=a-b", "bytes=+1-2", "bytes=1-2x", "bytes= 1 - 2 ", "Bytes=0-1", "bytes=0x1-2",
	}},
	{"If-Range", []string{`""`, `W/"x"`, `"` + strings.Repeat("e", 5000) + `"`, "Mon, 99 Foo 0000 99:99:99 GMT", "*"}},
	{"Last-Event-ID", []string{"0", "1", "-1", "+1", "1.5", "1e3", "9223372036854775807", "9223372036854775808", "99999999999999999999999", "0x10", " 1", "AQ", "AQAAAAA", strings.Repeat("A", 10_000), "////", "=", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}},
	{"Content-Type", []string{
		"", "application/json; charset=utf-16", "application/json;;", "application/json; boundary", "application/json, text/html", "text/html", "application/x-www-form-urlencoded", "multipart/form-data",
		"application/octet-stream", "*/*", "/", "application/", "application/json" + strings.Repeat("; a=b", 5000), "APPLICATION/JSON", "application/vnd.x+json", "application/json\xff", "application/grpc", "application/grpc-web+proto",
	}},
	{"Content-Encoding", []string{"gzip", "deflate", "br", "zstd", "identity", "gzip, gzip, gzip", "aes128gcm"}},
	{"Accept", []string{"", "text/event-stream", "*/*;q=-1", "application/json;q=99999", strings.Repeat("a/b,", 20_000), "image/png"}},
	{"Accept-Encoding", []string{"gzip;q=0", "*;q=0", strings.Repeat("gzip,", 20_000)}},
	{"Authorization", []string{
		"", "Bearer", "Bearer ", "bearer x", "Basic Og==", "Basic !!!!", "Bearer " + strings.Repeat("k", 60_000), "Bearer a b c", "Digest username=\"\"", "HMAC-SHA256", "Bearer null", "Bearer \xff", "Negotiate AAAA", "Bearer a.b.c",
	}},
	{"X-Request-Id", []string{"", strings.Repeat("i", 128), strings.Repeat("i", 129), strings.Repeat("i", 50_000), "a b", "a\"b", `a\b`, "\xff", "level=ERROR msg=forged"}},
	{"Traceparent", []string{
		"", "00-", "00-00000000000000000000000000000000-0000000000000000-00", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x", "00-ZZf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", strings.Repeat("0", 20_000),
	}},
	{"Tracestate", []string{"=", "a=b,a=b", strings.Repeat("a=b,", 20_000), "a=" + strings.Repeat("b", 50_000), "\xff=\xff"}},
	{"Baggage", []string{strings.Repeat("k=v,", 10_000), "k=%"}},
	{"Grpc-Timeout", []string{"", "1n", "0S", "-1S", "99999999H", "999999999H", "x", "1", "S", "1m"}},
	{"Grpc-Metadata-Authorization", []string{"Bearer x"}},
	{"Grpc-Metadata-X-Bin", []string{"!!!!", "AAAA"}},
	{"Idempotency-Key-Bin", []string{"AAAA"}},
	{"X-Http-Method-Override", []string{"DELETE", "TRACE", "\xff"}},
	{"X-Forwarded-For", []string{"127.0.0.1", "::1", strings.Repeat("1.1.1.1,", 5000), "\xff"}},
	{"X-Forwarded-Host", []string{"evil.example", "a\"b"}},
	{"X-Forwarded-Proto", []string{"https", "javascript"}},
	{"Forwarded", []string{"for=\"[::1]\";host=evil.example;proto=gopher"}},
	{"Expect", []string{"100-continue", "200-ok", "100-continue, 100-continue", ""}},
	{"Upgrade", []string{"h2c", "websocket", "HTTP/2.0", "TLS/1.0"}},
	{"HTTP2-Settings", []string{"AAMAAABkAARAAAAAAAIAAAAA", "!"}},
	{"Te", []string{"trailers", "chunked", "gzip;q=1", strings.Repeat("a,", 5000)}},
	{"Trailer", []string{"Content-Length", "Authorization", "a,b,c", ","}},
	{"Connection", []string{"close", "upgrade", "authorization", "te, close", "\xff"}},
	{"Keep-Alive", []string{"timeout=-1, max=99999999999999"}},
	{"Cookie", []string{strings.Repeat("a=b; ", 5000), "=;=;="}},
	{"Origin", []string{"null", "http://evil.example"}},
	{"Date", []string{"yesterday"}},
	{"X-Date", []string{"", "20260102T150405Z", "99999999T999999Z", "20260102T150405Z, 20260102T150405Z"}},
	{"X-Content-Sha256", []string{"", strings.Repeat("0", 64), "zz"}},
	{"X-Sandbox", []string{"{", `{"status":200}`}},
}

func manyLabels(n int) string {
	pairs := make([]string, n)
	for i := range pairs {
		pairs[i] = fmt.Sprintf("k%d=v", i)
	}
	return strings.Join(pairs, ",")
}

// Query returns a hostile query without the question mark. It contains no white space and no
// control characters.
func Query(s *Source) string {
	if s.Chance(30) {
		return One(s, queries)
	}
	q := One(s, parameters)
	if s.Chance(40) {
		return q.name + "=" + url.QueryEscape(Text(s))
	}
	return q.name + "=" + One(s, q.values)
}

var numbers = []string{"", "0", "-1", "1", "101", "1e3", "0x10", "1.5", "+1", "%201", "2147483648", "9223372036854775808", "99999999999999999999", "NaN", "1,2"}

var times = []string{"", "0", "yesterday", "2026-01-31", "2026-01-31T00:00:00Z", "9999-12-31T23:59:59.999999999999Z", "-0001-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "2026-13-45T99:99:99Z", "1e18"}

var parameters = []header{
	{"limit", numbers}, {"page_size", numbers}, {"pageNum", numbers}, {"pageSize", numbers}, {"index", numbers}, {"after_version", numbers},
	{"order", []string{"asc", "DESC", "", "asc,desc", "rand()"}},
	{"after", []string{"", "video_", "video_aaaaaaaaaaaaaaaaaaaaaaaaaa", "chat_aaaaaaaaaaaaaaaaaaaaaaaaaa", strings.Repeat("v", 5000), "../x"}},
	{"page_token", tokens}, {"resume_token", tokens},
	{"status", []string{"", "JOB_STATUS_COMPLETED", "completed", "99", "-1", "99999999999", "JOB_STATUS_COMPLETED&status=JOB_STATUS_FAILED"}},
	{"created_after", times}, {"created_before", times},
	{"created_after.seconds", numbers}, {"created_after.nanos", numbers},
	{"kind", []string{"", "video", "chat", "VIDEO", "video,chat", "0"}},
	{"variant", []string{"", "video", "thumbnail", "spritesheet", "../x"}},
	{"Action", []string{"CVSync2AsyncSubmitTask", "CVSync2AsyncGetResult", "", "cvsync2asyncsubmittask", "CVSync2AsyncSubmitTask&Action=CVSync2AsyncGetResult"}},
	{"Version", []string{"2022-08-31", "", "9999-99-99"}},
	{"request.video.model", []string{"x"}}, {"id", []string{"x"}},
}

// tokens are page tokens and resume tokens that genbus never issued.
var tokens = []string{
	"", "x", "AQ", "AQAAAAA", "====", "%00", strings.Repeat("A", 20_000), base64.RawURLEncoding.EncodeToString([]byte(`{"c":9223372036854775807,"i":"video_aaaaaaaaaaaaaaaaaaaaaaaaaa"}`)),
	base64.RawURLEncoding.EncodeToString([]byte(`{"c":-9223372036854775808,"i":"*"}`)), base64.RawURLEncoding.EncodeToString([]byte(`{"c":1e99,"i":">"}`)),
	base64.RawURLEncoding.EncodeToString([]byte(`{"c":0,"i":"a.b"}`)), base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("[", 5000))),
	base64.RawURLEncoding.EncodeToString([]byte("\x01\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00\x00\x00")),
}

var queries = []string{
	"%", "%zz", "&&&&", "=", "a", ";", "a;b", "?", "a=b?c=d", "%00=%00", "%0d%0aX-Injected:1", "a[]=1&a[b][c]=2", strings.Repeat("a=b&", 12_000), strings.Repeat("a", 60_000), "limit=1&limit=2&limit=x", "\xff=\xff",
	"limit=1&order=asc&after=&after=x", "page_size=1&page_token=&page_token=x", "__proto__=1", "%F0%9F%92%A9=%F0%9F%92%A9",
}
