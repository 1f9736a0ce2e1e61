package hostile

import (
	"fmt"
	"strings"
)

// Request returns one hostile HTTP/1 request as the bytes of a connection. If possible, the request
// asks the server to close the connection, so that the sender can read to the end.
func Request(s *Source, t Target) Input {
	if s.Chance(40) {
		return odd(s, t)
	}
	r := plain(s, t)
	change := One(s, changes)
	change.make(s, t, &r)
	return Input{Name: r.method + ": " + change.name, Bytes: r.bytes(), Cut: r.cut}
}

type request struct {
	method, target, version string
	header                  []string // whole lines
	body                    string
	cut                     bool
	// whole replaces all fields above unless it is nil.
	whole []byte
}

// bytes returns the request with unchanged header lines.
func (r *request) bytes() []byte {
	if r.whole != nil {
		return r.whole
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s%s\r\n", r.method, r.target, r.version)
	for _, line := range r.header {
		_, _ = b.WriteString(line + "\r\n")
	}
	_, _ = b.WriteString("\r\n" + r.body)
	return []byte(b.String())
}

// drop removes the lines of a header.
func (r *request) drop(name string) {
	kept := r.header[:0]
	for _, line := range r.header {
		if !strings.HasPrefix(line, name+":") {
			kept = append(kept, line)
		}
	}
	r.header = kept
}

func (r *request) add(lines ...string) { r.header = append(r.header, lines...) }

// Endpoint is a path of the service that accepts a body.
type Endpoint struct {
	Path string
	Kind Kind
}

// Creates lists the paths that create a job.
var Creates = []Endpoint{
	{"/v1/video/generations", Primary}, {"/v1/videos", Videos}, {"/kling/v1/videos/text2video", Kling}, {"/kling/v1/videos/image2video", Kling},
	{"/jimeng/?Action=CVSync2AsyncSubmitTask&Version=2022-08-31", Jimeng}, {"/v1/chat/completions", Chat}, {"/genbus/v1/videos", Primary}, {"/genbus/v1/chats", Chat},
}

// reads lists the paths that only read. %v is replaced by a video ID and %c by a chat ID.
var reads = []string{
	"/v1/video/generations/%v", "/v1/video/generations/%v/events", "/v1/videos", "/v1/videos/%v", "/v1/videos/%v/content", "/v1/models", "/v1/models/%v",
	"/kling/v1/videos/text2video/%v", "/kling/v1/videos/text2video", "/kling/v1/videos/image2video/%v", "/genbus/v1/videos", "/genbus/v1/videos/%v", "/genbus/v1/videos/%v/events",
	"/genbus/v1/videos/%v/content", "/genbus/v1/chats/%c", "/genbus/v1/chats/%c/events", "/genbus/v1/models", "/healthz", "/readyz", "/readyz/jobs", "/metrics",
}

func read(s *Source, t Target) string {
	return strings.NewReplacer("%v", t.video(s), "%c", t.chat(s)).Replace(One(s, reads))
}

func plain(s *Source, t Target) request {
	if s.Chance(50) {
		return t.get(read(s, t))
	}
	e := One(s, Creates)
	return t.post(e.Path, t.Body(e))
}

// Body returns a valid body for an endpoint.
func (t Target) Body(e Endpoint) string {
	body := render(e.Kind.good(t))
	switch e.Path {
	case "/genbus/v1/videos":
		return `{"video":` + body + `}`
	case "/genbus/v1/chats":
		return `{"chat":` + strings.ReplaceAll(body, `"content":`, `"text":`) + `}`
	}
	return body
}

func (t Target) get(path string) request { return t.request("GET", path) }

func (t Target) post(path, body string) request {
	r := t.request("POST", path)
	r.add("Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body)))
	r.body = body
	return r
}

func (t Target) request(method, path string) request {
	return request{
		method: method, target: path, version: " HTTP/1.1",
		header: []string{"Host: hostile.example", "Authorization: " + t.Authorization, "Connection: close"},
	}
}

// Post returns a whole POST request with this body. One in ten gets a hostile header.
func Post(s *Source, t Target, path, contentType string, body []byte) []byte {
	r := t.post(path, string(body))
	r.drop("Content-Type")
	r.add("Content-Type: " + contentType)
	if s.Chance(10) {
		name, value := Header(s)
		if name != "Authorization" && name != "Content-Type" && name != "Expect" {
			r.add(name + ": " + value)
		}
	}
	return r.bytes()
}

// change makes one part of a valid request hostile.
type change struct {
	name string
	make func(s *Source, t Target, r *request)
}

var changes = []change{
	{"a header", func(s *Source, _ Target, r *request) {
		name, value := Header(s)
		r.drop(name)
		r.add(name + ": " + value)
	}},
	{"headers", func(s *Source, _ Target, r *request) {
		for range 2 + s.N(6) {
			name, value := Header(s)
			r.add(name + ": " + value)
		}
	}},
	{"a query", func(s *Source, _ Target, r *request) { r.target += "?" + Query(s) }},
	{"queries", func(s *Source, _ Target, r *request) { r.target += "?" + Query(s) + "&" + Query(s) + "&" + Query(s) }},
	{"a path", func(s *Source, t Target, r *request) { r.target = path(s, t) }},
	{"a method", func(s *Source, _ Target, r *request) { r.method = One(s, methods) }},
	{"a version", func(s *Source, _ Target, r *request) {
		r.version = One(s, []string{" HTTP/1.0", " HTTP/0.9", " HTTP/2.0", " HTTP/3", " HTTP/1.2", " HTTP/9.9", " HTTP/1.1x", " HTTP/1.", " HTTP/", " http/1.1", "", " ", "\tHTTP/1.1", " HTTP/1.1 HTTP/1.1", " HTTP/-1.1", " HTTP/11"})
	}},
	{"a signature", func(s *Source, t Target, r *request) {
		r.drop("Authorization")
		r.add(Signature(s, t)...)
	}},
	{"no key", func(_ *Source, _ Target, r *request) { r.drop("Authorization") }},
}

var methods = []string{
	"get", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "PRI", "GE T", "G\x00ET", "", "GET\r", "\xff", strings.Repeat("A", 3000), "POST", "GET,POST", "M-SEARCH", "QUERY",
}

func path(s *Source, t Target) string {
	at := read(s, t)
	if s.Chance(50) {
		return One(s, paths)
	}
	switch s.N(9) {
	case 0:
		return strings.ReplaceAll(at, "/", "//")
	case 1:
		return "/." + at + "/../" + at[1:] + "/."
	case 2:
		return strings.ReplaceAll(at, "/v1", "/%76%31")
	case 3:
		return at + "/"
	case 4:
		return at + One(s, []string{"%00", "%0d%0aX-Injected:1", "%2f", "%2e%2e%2f", "%ff", ";a=b", "%", "%zz", "%e2%82", "#x", " x", "\x00", "\x7f", "\xff", "*", ".", "%2525"})
	case 5:
		return "http://evil.example" + at
	case 6:
		return "//evil.example" + at
	case 7:
		return strings.ToUpper(at)
	default:
		return strings.Replace(strings.Replace(at, t.video(s), strings.Repeat("v", 1+s.N(9000)), 1), t.chat(s), "chat_"+HeaderText(s), 1)
	}
}

var paths = []string{
	"/", "*", "", "x", "//", "///", "/.", "/..", "/../..", "/%2e%2e/%2e%2e/etc/passwd", "/%", "/%zz", "/%00", "/\x00", "/\xff", "/ ", "/?", "/#", "/;", "/*", "/>", "/v1/models/" + strings.Repeat("m/", 4000),
	"/v1/models/..%2f..%2fmetrics", "/v1/models/%2e%2e/%2e%2e/metrics", "/v1/videos/video_%2a", "/v1/videos/%3e", "/v1/videos/a.b", "/v1/videos/a/b/c/d/content", "/v1/videos//content", "/v1/videos/%2f/content",
	"/genbus/v1/videos/a%2fb", "/genbus/v1/videos/a:cancel", "/genbus/v1/videos/a/cancel/", "/genbus/v1/videos/%00/cancel", "/genbus/v1/chats/%ff", "/genbus.v1.VideoService/CreateVideoTask", "/grpc.health.v1.Health/Check",
	"/debug/pprof/", "/debug/vars", "/.git/config", "/.env", "/robots.txt", "/metrics/", "/metrics/..", "/readyz?x", "http://", "http:///", "http://[::1", "http://[::1%25en0]/v1/models", "http://a b/", "http://user:pass@evil.example/v1/models",
	"https://evil.example/v1/models", "ftp://evil.example/", "evil.example:443", "file:///etc/passwd", `/\evil.example`, `\\evil.example\x`, "/.//evil.example/..", "//evil.example/%2e%2e", "/" + strings.Repeat("a", 8000), "/" + strings.Repeat("a/", 30_000), "/" + strings.Repeat("%41", 20_000),
	"/v1/video/generations/" + strings.Repeat("../", 2000), "/kling/../v1/models", "/kling/v1/videos/text2video/" + strings.Repeat("x", 2000), "/kling/v1/videos/../../../metrics", "/jimeng", "/jimeng/x", "/jimeng//?Action=CVSync2AsyncGetResult",
}
