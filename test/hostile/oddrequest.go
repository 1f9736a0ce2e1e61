package hostile

import (
	"fmt"
	"strings"
)

// odd returns a request that violates HTTP framing.
func odd(s *Source, t Target) Input {
	form := One(s, framings)
	for form.large && !s.Chance(10) {
		form = One(s, framings)
	}
	e := One(s, Creates)
	r := t.post(e.Path, t.Body(e))
	form.make(s, t, &r)
	return Input{Name: "framing: " + form.name, Bytes: r.bytes(), Cut: r.cut}
}

// framing changes a POST with a valid body.
type framing struct {
	name  string
	large bool
	make  func(s *Source, t Target, r *request)
}

// lengths replaces Content-Length with these lines.
func lengths(lines ...string) func(*Source, Target, *request) {
	return func(_ *Source, _ Target, r *request) {
		r.drop("Content-Length")
		r.add(lines...)
		r.cut = true
	}
}

// chunked replaces the body with these chunks.
func chunked(chunks string) func(*Source, Target, *request) {
	return func(_ *Source, _ Target, r *request) {
		r.drop("Content-Length")
		r.add("Transfer-Encoding: chunked")
		r.body, r.cut = chunks, true
	}
}

// lines adds header lines.
func lines(more ...string) func(*Source, Target, *request) {
	return func(_ *Source, _ Target, r *request) { r.add(more...) }
}

// raw replaces the whole request with these bytes.
func raw(text string) func(*Source, Target, *request) {
	return func(_ *Source, _ Target, r *request) {
		*r = request{whole: []byte(text), cut: true}
	}
}

const smuggled = "GET /v1/models HTTP/1.1\r\nHost: smuggled.example\r\nX-Smuggled: 1\r\n\r\n"

var framings = []framing{
	{"two lengths", false, lengths("Content-Length: 5", "Content-Length: 6")},
	{"two equal lengths", false, lengths("Content-Length: 2, 2")},
	{"a negative length", false, lengths("Content-Length: -1")},
	{"a signed length", false, lengths("Content-Length: +5")},
	{"a hexadecimal length", false, lengths("Content-Length: 0x5")},
	{"no number for a length", false, lengths("Content-Length: many")},
	{"an empty length", false, lengths("Content-Length: ")},
	{"a length beyond int64", false, lengths("Content-Length: 9223372036854775808")},
	{"a length of 2^63-1", false, lengths("Content-Length: 9223372036854775807")},
	{"a length beyond the limit", false, lengths("Content-Length: 33554433")},
	{"a length that does not come", false, lengths("Content-Length: 100000")},
	{"a length that is too short", false, lengths("Content-Length: 1")},
	{"no length", false, lengths()},
	{"length and chunks", false, func(_ *Source, _ Target, r *request) {
		r.drop("Content-Length")
		r.add("Content-Length: 6", "Transfer-Encoding: chunked")
		r.body, r.cut = "0\r\n\r\n"+smuggled, true
	}},
	{"chunks and length", false, func(_ *Source, _ Target, r *request) {
		r.drop("Content-Length")
		r.add("Transfer-Encoding: chunked", "Content-Length: 4")
		r.body, r.cut = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(smuggled), smuggled), true
	}},
	{"chunked twice", false, lengths("Transfer-Encoding: chunked", "Transfer-Encoding: chunked")},
	{"chunked, chunked", false, lengths("Transfer-Encoding: chunked, chunked")},
	{"identity", false, lengths("Transfer-Encoding: identity")},
	{"gzip, chunked", false, lengths("Transfer-Encoding: gzip, chunked")},
	{"xchunked", false, lengths("Transfer-Encoding: xchunked", "Content-Length: 2")},
	{"a tab before chunked", false, lengths("Transfer-Encoding:\tchunked\t")},
	{"a vertical tab before chunked", false, lengths("Transfer-Encoding: \vchunked", "Content-Length: 2")},
	{"a space before the colon", false, lengths("Transfer-Encoding : chunked", "Content-Length: 2")},
	{"a folded Transfer-Encoding", false, lengths("Transfer-Encoding:", " chunked", "Content-Length: 2")},
	{"a hidden Transfer-Encoding", false, lengths("X: y\rTransfer-Encoding: chunked", "Content-Length: 2")},
	{"chunks on HTTP/1.0", false, func(_ *Source, _ Target, r *request) {
		r.version = " HTTP/1.0"
		chunked("2\r\n{}\r\n0\r\n\r\n")(nil, Target{}, r)
	}},
	{"a chunk size that is none", false, chunked("x\r\n{}\r\n0\r\n\r\n")},
	{"a negative chunk size", false, chunked("-1\r\n{}\r\n0\r\n\r\n")},
	{"a huge chunk size", false, chunked("ffffffffffffffff\r\n{}\r\n0\r\n\r\n")},
	{"a chunk size beyond 64 bits", false, chunked("10000000000000002\r\n{}\r\n0\r\n\r\n")},
	{"a chunk size with 0x", false, chunked("0x2\r\n{}\r\n0\r\n\r\n")},
	{"a chunk size of spaces", false, chunked("2   \r\n{}\r\n 0 \r\n\r\n")},
	{"a chunk that is too long", false, chunked("2\r\n{}xxxx\r\n0\r\n\r\n")},
	{"a chunk without its end", false, chunked("2\r\n{}")},
	{"line feeds for line ends", false, chunked("2\n{}\n0\n\n")},
	{"a bare CR", false, chunked("2\r{}\r0\r\r")},
	{"a chunk extension", false, chunked("2;a=\"\r\n0\r\n\r\n\"\r\n{}\r\n0\r\n\r\n")},
	{"long chunk extensions", false, chunked(strings.Repeat("1;"+strings.Repeat("a", 4000)+"\r\n \r\n", 50) + "0\r\n\r\n")},
	{"chunks of one byte", false, chunked(strings.Repeat("1\r\n \r\n", 5000) + "0\r\n\r\n")},
	{"trailers", false, chunked("2\r\n{}\r\n0\r\nContent-Length: 5\r\nAuthorization: Bearer x\r\nHost: y\r\n\r\n")},
	{"trailers that do not end", false, chunked("2\r\n{}\r\n0\r\n" + strings.Repeat("A: b\r\n", 2000))},
	{"no chunks", false, chunked("")},
	{"two requests", false, func(_ *Source, _ Target, r *request) { r.body += smuggled }},
	{"a request in a GET's body", false, func(_ *Source, t Target, r *request) {
		*r = t.get("/v1/models")
		r.add(fmt.Sprintf("Content-Length: %d", len(smuggled)))
		r.body = smuggled
	}},
	{"100 requests at once", false, func(_ *Source, t Target, r *request) {
		one := t.get("/v1/models")
		one.drop("Connection")
		r.method, r.body = strings.Repeat(string(one.bytes()), 100)+r.method, r.body+smuggled
	}},

	{"no Host", false, func(_ *Source, _ Target, r *request) { r.drop("Host") }},
	{"two Hosts", false, lines("Host: other.example")},
	{"an odd Host", false, func(s *Source, _ Target, r *request) {
		r.drop("Host")
		r.add("Host: " + One(s, []string{"", " ", "a b", "a\"b", "[::1", "a:99999", "a:b:c", "../x", "a/b", "a@b", "\xff", "*", strings.Repeat("h", 5000), "evil.example\tx", "a,b", "javascript:alert(1)"}))
	}},
	{"a folded header", false, lines("X-Folded: a", " b", "\tc")},
	{"a folded first header", false, func(_ *Source, _ Target, r *request) { r.header = append([]string{" X: y"}, r.header...) }},
	{"a header without a colon", false, lines("X-No-Colon")},
	{"a header without a name", false, lines(": x")},
	{"a name with a space", false, lines("X A: b")},
	{"a name of odd characters", false, func(s *Source, _ Target, r *request) {
		r.add(One(s, []string{"\x00", "X\x00Y", "(X)", "X\"Y", "X\xffY", "X/Y", "{X}", "é"}) + ": y")
	}},
	{"NUL in a value", false, lines("X-Nul: a\x00b")},
	{"a bare CR in a value", false, lines("X-Cr: a\rX-Injected: 1")},
	{"a bare LF in a value", false, lines("X-Lf: a\nX-Injected: 1")},
	{"line feeds alone", false, func(_ *Source, _ Target, r *request) {
		r.version += "\n"
		r.header = []string{strings.Join(r.header, "\n")}
	}},
	{"no end of the header", false, func(_ *Source, _ Target, r *request) {
		text := strings.TrimSuffix(string(r.bytes()), "\r\n\r\n"+r.body)
		raw(text)(nil, Target{}, r)
	}},
	{"a header cut short", false, func(s *Source, _ Target, r *request) {
		b := string(r.bytes())
		raw(b[:s.N(len(b))])(nil, Target{}, r)
	}},
	{"a byte changed", false, func(s *Source, _ Target, r *request) {
		b := r.bytes()
		for range 1 + s.N(3) {
			b[s.N(len(b))] = byte(s.N(256))
		}
		raw(string(b))(nil, Target{}, r)
	}},
	{"any bytes", false, func(s *Source, _ Target, r *request) { raw(string(s.Bytes(1+s.N(2000))))(nil, Target{}, r) }},
	{"nothing", false, raw("")},
	{"empty lines first", false, func(_ *Source, _ Target, r *request) { r.method = strings.Repeat("\r\n", 50) + r.method }},
	{"a TLS handshake", false, raw("\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + strings.Repeat("\x00", 160))},
	{"HTTP/2 from the start", false, raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")},
	{"another protocol", false, func(s *Source, _ Target, r *request) {
		raw(One(s, []string{"CONNECT {}\r\nPUB genbus.task.video.default.x 1\r\nx\r\n", "EHLO x\r\n", "SSH-2.0-x\r\n", "*1\r\n$4\r\nPING\r\n", "PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n", "\x00\x00\x00\x00", "RTSP/1.0 200 OK\r\n\r\n"}))(nil, Target{}, r)
	}},
	{"many headers", false, func(_ *Source, _ Target, r *request) {
		r.add(strings.Split(strings.Repeat("X-A: b\n", 3000)+"X-A: b", "\n")...)
	}},
	{"a long value", false, func(_ *Source, _ Target, r *request) { r.add("X-Long: " + strings.Repeat("a", 300_000)) }},
	{"headers beyond the limit", true, func(_ *Source, _ Target, r *request) { r.add("X-Long: " + strings.Repeat("a", 1_200_000)) }},
	{"a path beyond the limit", true, func(_ *Source, _ Target, r *request) { r.target = "/" + strings.Repeat("a", 1_200_000) }},
	{"a method beyond the limit", true, func(_ *Source, _ Target, r *request) { r.method = strings.Repeat("A", 1_200_000) }},
}
