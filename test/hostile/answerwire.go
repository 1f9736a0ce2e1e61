package hostile

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// wire makes an answer whose framing, length or timing is hostile.
type wire struct {
	large bool
	make  func(s *Source, call Call, where []string) Answer
}

// fixed returns a wire that sends these bytes.
func fixed(name, text string) wire {
	return wire{make: func(*Source, Call, []string) Answer {
		return Answer{Name: name, Steps: []Step{{Bytes: []byte(text)}}}
	}}
}

// silent is like fixed but for an answer that does not reveal what became of the request.
func silent(name, text string) wire {
	return wire{make: func(*Source, Call, []string) Answer {
		return Answer{Name: name, Silent: true, Steps: []Step{{Bytes: []byte(text)}}}
	}}
}

// long returns a wire with a body of about times bytes, sent in pieces of 64 KiB.
func long(name, head, piece string, times int) wire {
	return wire{large: true, make: func(*Source, Call, []string) Answer {
		return Answer{Name: name, Steps: []Step{{Bytes: []byte(head)}, {Bytes: bytes.Repeat([]byte(piece), 64<<10/len(piece)), Times: times / (64 << 10)}}}
	}}
}

const (
	jsonHead   = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
	eventsHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
)

var wires = []wire{
	silent("nothing", ""),
	silent("no HTTP", "SSH-2.0-x\r\n"),
	silent("a broken status", "HTTP/1.1 abc OK\r\n\r\n"),
	fixed("status 0", "HTTP/1.1 000 X\r\nContent-Length: 0\r\n\r\n"),
	fixed("status 999", "HTTP/1.1 999 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
	fixed("status 101", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
	fixed("early hints", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 200)),
	fixed("204 with a body", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"),
	silent("a negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}"),
	silent("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}"),
	silent("a length that does not come", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{}"),
	silent("a length of 2^63-1", "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\nConnection: close\r\n\r\n{}"),
	fixed("length and chunks", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"),
	silent("broken chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"),
	silent("a chunk that is cut off", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n{\"id\":"),
	silent("a header that is none", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n{}"),
	fixed("odd headers", "HTTP/1.1 200 OK\r\nX-Request-Id: \xff\xfe\x80\r\nX-Oneapi-Request-Id: "+strings.Repeat("r", 9000)+"\r\nRetry-After: 99999999999999999999\r\nContent-Type: \xff\r\nConnection: close\r\n\r\n{}"),
	fixed("not found, strangely", "HTTP/1.1 404 \xff\xff\r\nX-Request-Id: \xff\r\nContent-Length: 2\r\nConnection: close\r\n\r\n\xff\xfe"),
	fixed("too many requests, for ever", "HTTP/1.1 429 X\r\nRetry-After: 9223372036854775807\r\nRetry-After-Ms: 1e308\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"),
	fixed("too many requests, in the past", "HTTP/1.1 429 X\r\nRetry-After: -1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"),
	fixed("gzip", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n\x1f\x8b\x08\x00"),
	silent("many headers", "HTTP/1.1 200 OK\r\n"+strings.Repeat("X-A: b\r\n", 20_000)+"\r\n{}"),
	{make: refusals}, {make: redirects}, {make: drip}, {make: reset},
	{large: true, make: func(*Source, Call, []string) Answer {
		return Answer{Name: "a gzip bomb", Steps: []Step{{Bytes: append([]byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n"), GzipBomb(64<<20)...)}}}
	}},
	long("headers of 100 MB", "HTTP/1.1 200 OK\r\n", "X-A: "+strings.Repeat("b", 1017)+"\r\n", 100<<20),
	long("100 MB of white space", jsonHead, " ", 100<<20),
	long("a text of 100 MB", jsonHead+`{"id":"`, "a", 100<<20),
	long("brackets of 64 MB", jsonHead, "[", 64<<20),
	long("a line of 64 MB", eventsHead+"data: ", "a", 64<<20),
	long("an event of 64 MB", eventsHead, "data: "+strings.Repeat("a", 1017)+"\n", 64<<20),
	long("comments of 64 MB", eventsHead, ": ping\n\n", 64<<20),
}

func refusals(s *Source, _ Call, _ []string) Answer {
	code := One(s, []int{400, 401, 402, 403, 404, 405, 408, 409, 410, 413, 422, 425, 429, 451, 500, 501, 502, 503, 504, 520, 599})
	text := strings.ToValidUTF8(Text(s), "?")
	body := One(s, []string{
		fmt.Sprintf(`{"error":{"message":%q,"type":%[1]q,"code":%[1]q,"param":%[1]q}}`, text), fmt.Sprintf(`{"error":%q}`, text), fmt.Sprintf(`{"code":%q,"message":%[1]q}`, text),
		`{"detail":[{"msg":` + deep(500) + `}]}`, "<html><title>" + text + "</title>", `{"error":{"code":` + strings.Repeat("9", 5000) + `}}`, strings.Repeat("x", 70_000), "", "null",
	})
	return Answer{Name: fmt.Sprintf("a refusal, %d", code), Steps: []Step{{Bytes: fmt.Appendf(nil, "HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", code, len(body), body)}}}
}

func redirects(s *Source, _ Call, where []string) Answer {
	to := One(s, append([]string{"/elsewhere", "//evil.example/", "file:///etc/passwd"}, where...))
	return Answer{Name: "a redirect to " + to, Steps: []Step{{Bytes: fmt.Appendf(nil,
		"HTTP/1.1 %d X\r\nLocation: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", One(s, []int{300, 301, 302, 303, 304, 307, 308}), to)}}}
}

// drip sends a byte every 50 ms for 20 s, longer than a client should wait.
func drip(s *Source, _ Call, _ []string) Answer {
	head := One(s, []string{jsonHead, eventsHead, "HTTP/1.1 200 OK\r\nX-Slow: "})
	return Answer{Name: "a slow drip", Silent: true, Steps: []Step{{Bytes: []byte(head)}, {Bytes: []byte(" "), Times: 400, Pause: 50 * time.Millisecond}}}
}

func reset(s *Source, _ Call, _ []string) Answer {
	return Answer{Name: "a reset", Silent: true, Reset: true, Steps: []Step{{Bytes: []byte(jsonHead[:s.N(len(jsonHead)+1)])}}}
}

// stream returns an answer to a streamed chat.
func stream(s *Source) Answer {
	const first = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"he"}}]}` + "\n\n"
	const last = `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	middle := One(s, streamParts)
	tail := One(s, []string{last + "data: [DONE]\n\n", last, "data: [DONE]\n\n", "", "data: [DONE]", last + "data: [DONE]\n\n" + first})
	return Answer{Name: "stream: " + middle.name, Steps: []Step{{Bytes: []byte(eventsHead + first + middle.values[0] + tail)}}}
}

var streamParts = []header{
	{"nothing odd", []string{""}},
	{"no JSON", []string{"data: x\n\n"}},
	{"JSON cut short", []string{`data: {"choices":[{"index"` + "\n\n"}},
	{"another JSON", []string{"data: []\n\ndata: null\n\ndata: 7\n\n"}},
	{"an error", []string{`data: {"error":{"message":"a\nb","code":"x"}}` + "\n\n"}},
	{"an error event", []string{"event: error\ndata: \xff\xfe\n\n"}},
	{"no UTF-8", []string{"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xff\xfe\"}}]}\n\n"}},
	{"half a pair", []string{`data: {"choices":[{"index":0,"delta":{"content":"\ud83d"}}]}` + "\n\n"}},
	{"an index of 2^63", []string{`data: {"choices":[{"index":9223372036854775808,"delta":{"content":"x"}}]}` + "\n\n"}},
	{"a negative index", []string{`data: {"choices":[{"index":-1,"delta":{"content":"x"}}]}` + "\n\n"}},
	{"2,000 choices", []string{`data: {"choices":[` + strings.Repeat(`{"index":1,"delta":{}},`, 1999) + `{"index":2000,"delta":{}}]}` + "\n\n"}},
	{"tool calls without an end", []string{strings.Repeat(`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":999999999,"function":{"arguments":"{"}}]}}]}`+"\n\n", 50)}},
	{"wrong types", []string{`data: {"choices":{"index":"0"},"usage":[],"id":7,"model":{}}` + "\n\n"}},
	{"a deep block", []string{`data: {"x":` + deep(20_000) + `}` + "\n\n"}},
	{"many members", []string{`data: {"x":` + manyMembers(3000) + `}` + "\n\n"}},
	{"a retry for ever", []string{"retry: 99999999999999999999\nid: \x00\nid: " + strings.Repeat("i", 9000) + "\n\n"}},
	{"bare CRs", []string{"data: {}\r\rdata: {}\r\r"}},
	{"data in many lines", []string{strings.Repeat("data: [\n", 500) + strings.Repeat("data: ]\n", 500) + "\n"}},
	{"fields that nobody knows", []string{strings.Repeat("x: y\n:\n\n", 2000)}},
	{"a long block", []string{`data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 400_000) + `"}}]}` + "\n\n"}},
	{"1,000 blocks", []string{strings.Repeat(`data: {"choices":[{"index":0,"delta":{"content":"x"}}]}`+"\n\n", 1000)}},
}
