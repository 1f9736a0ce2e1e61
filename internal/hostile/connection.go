package hostile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"strings"
)

// CreateMethod is the gRPC method that makes a video task.
const CreateMethod = "/genbus.v1.VideoService/CreateVideoTask"

// Connection gives the bytes of one hostile HTTP/2 connection to the gRPC
// server. They are sent without regard to what it says.
func Connection(s *Source, t Target) Input {
	c := One(s, connections)
	for c.large && !s.Chance(10) {
		c = One(s, connections)
	}
	h := &h2{s: s, t: t}
	if c.name[0] != '!' {
		h.b = append(h.b, Preface...)
		h.frame(FrameSettings, 0, 0, nil)
	}
	c.make(h)
	return Input{Name: "connection: " + strings.TrimPrefix(c.name, "!"), Bytes: h.b}
}

// h2 is a connection while it is made.
type h2 struct {
	s *Source
	t Target
	b []byte
}

func (h *h2) frame(kind, flags byte, stream uint32, payload []byte) {
	h.b = Frame(h.b, kind, flags, stream, payload)
}

// call opens a stream with a good header, and with more fields.
func (h *h2) call(stream uint32, more ...string) {
	h.frame(FrameHeaders, FlagEndHeaders, stream, CallHeader(nil, CreateMethod, h.t.Authorization, more...))
}

func (h *h2) data(stream uint32, payload []byte) { h.frame(FrameData, FlagEnd, stream, payload) }

// oneCall opens a stream with these fields and a message, and ends it.
func oneCall(message func(h *h2) []byte, more ...string) func(*h2) {
	return func(h *h2) {
		h.call(1, more...)
		h.data(1, message(h))
	}
}

// connection makes the frames of one. One whose name begins with "!" makes the
// preface too.
type connection struct {
	name  string
	large bool
	make  func(h *h2)
}

func bytesOf(text string) func(*h2) { return func(h *h2) { h.b = append(h.b, text...) } }

func empty(*h2) []byte { return Envelope(nil, false, nil) }

// block opens a stream with a header block of the caller's.
func block(fields ...string) func(*h2) {
	return func(h *h2) {
		var b []byte
		for i := 0; i+1 < len(fields); i += 2 {
			b = Field(b, fields[i], fields[i+1])
		}
		h.frame(FrameHeaders, FlagEndHeaders|FlagEnd, 1, b)
	}
}

func repeated(n int, do func(h *h2, i int)) func(*h2) {
	return func(h *h2) {
		for i := range n {
			do(h, i)
		}
	}
}

func clientStream(i int) uint32 { return uint32(2*i + 1) }

var connections = []connection{
	{"!nothing", false, bytesOf("")},
	{"!HTTP/1", false, bytesOf("GET / HTTP/1.1\r\nHost: x\r\n\r\n")},
	{"!a broken preface", false, bytesOf("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n")},
	{"!a preface cut short", false, bytesOf("PRI * HTTP/2.0\r\n")},
	{"!a TLS handshake", false, bytesOf("\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03")},
	{"!any bytes", false, func(h *h2) { h.b = h.s.Bytes(1 + h.s.N(3000)) }},
	{"!no settings", false, func(h *h2) { h.b = append(h.b, Preface...); h.call(1) }},
	{"any bytes", false, func(h *h2) { h.b = append(h.b, h.s.Bytes(1+h.s.N(3000))...) }},
	{"any frames", false, repeated(20, func(h *h2, i int) {
		h.frame(byte(h.s.N(12)), byte(h.s.N(256)), uint32(h.s.N(6)), h.s.Bytes(h.s.N(40)))
	})},
	{"settings of 5 bytes", false, func(h *h2) { h.frame(FrameSettings, 0, 0, make([]byte, 5)) }},
	{"settings on a stream", false, func(h *h2) { h.frame(FrameSettings, 0, 1, nil) }},
	{"settings that are absurd", false, func(h *h2) {
		h.frame(FrameSettings, 0, 0, []byte{0, 4, 0xff, 0xff, 0xff, 0xff, 0, 5, 0, 0, 0, 1, 0, 2, 0, 0, 0, 9, 0, 1, 0xff, 0xff, 0xff, 0xff})
	}},
	{"no room for answers", false, func(h *h2) {
		h.frame(FrameSettings, 0, 0, []byte{0, 4, 0, 0, 0, 0})
		h.call(1)
		h.data(1, empty(h))
	}},
	{"a flood of settings", false, repeated(2000, func(h *h2, _ int) { h.frame(FrameSettings, 0, 0, []byte{0, 1, 0, 0, 16, 0}) })},
	{"a flood of pings", false, repeated(2000, func(h *h2, _ int) { h.frame(FramePing, 0, 0, make([]byte, 8)) })},
	{"a flood of empty data", false, func(h *h2) {
		h.call(1)
		repeated(2000, func(h *h2, _ int) { h.frame(FrameData, 0, 1, nil) })(h)
	}},
	{"a flood of priorities", false, repeated(2000, func(h *h2, i int) { h.frame(FramePriority, 0, clientStream(i), make([]byte, 5)) })},
	{"rapid resets", false, repeated(400, func(h *h2, i int) {
		h.call(clientStream(i))
		h.frame(FrameReset, 0, clientStream(i), []byte{0, 0, 0, 8})
	})},
	{"many streams", false, repeated(400, func(h *h2, i int) { h.call(clientStream(i)) })},
	{"a window of nothing", false, func(h *h2) { h.frame(FrameWindow, 0, 0, make([]byte, 4)) }},
	{"a window that overflows", false, repeated(3, func(h *h2, _ int) { h.frame(FrameWindow, 0, 0, []byte{0x7f, 0xff, 0xff, 0xff}) })},
	{"a ping of 7 bytes", false, func(h *h2) { h.frame(FramePing, 0, 0, make([]byte, 7)) }},
	{"a stream that waits for itself", false, func(h *h2) { h.frame(FramePriority, 0, 1, []byte{0, 0, 0, 1, 0}) }},
	{"a reset of an idle stream", false, func(h *h2) { h.frame(FrameReset, 0, 7, []byte{0, 0, 0, 1}) }},
	{"data on an idle stream", false, func(h *h2) { h.data(9, empty(h)) }},
	{"data on stream 0", false, func(h *h2) { h.data(0, empty(h)) }},
	{"a push", false, func(h *h2) { h.frame(FramePush, FlagEndHeaders, 1, []byte{0, 0, 0, 2}) }},
	{"an unknown frame", false, func(h *h2) { h.frame(0xee, 0xff, 1, h.s.Bytes(100)) }},
	{"a frame longer than allowed", false, func(h *h2) { h.b = append(h.b, 0xff, 0xff, 0xff, FrameData, 0, 0, 0, 0, 1) }},
	{"padding beyond the frame", false, func(h *h2) { h.call(1); h.frame(FrameData, 0x8, 1, []byte{0xff, 0}) }},
	{"even streams", false, func(h *h2) { h.call(2) }},
	{"streams that go back", false, func(h *h2) { h.call(9); h.call(3) }},
	{"headers on stream 0", false, func(h *h2) { h.call(0) }},
	{"headers twice", false, func(h *h2) { h.call(1); h.call(1) }},
	{"headers without an end", false, func(h *h2) {
		h.frame(FrameHeaders, 0, 1, CallHeader(nil, CreateMethod, h.t.Authorization))
		h.data(1, empty(h))
	}},
	{"continuations without an end", true, func(h *h2) {
		h.frame(FrameHeaders, 0, 1, CallHeader(nil, CreateMethod, h.t.Authorization))
		repeated(300, func(h *h2, _ int) { h.frame(FrameContinuation, 0, 1, Field(nil, "a", strings.Repeat("b", 15_000))) })(h)
	}},
	{"HPACK that is none", false, func(h *h2) { h.frame(FrameHeaders, FlagEndHeaders, 1, h.s.Bytes(200)) }},
	{"an HPACK index beyond the table", false, func(h *h2) { h.frame(FrameHeaders, FlagEndHeaders, 1, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}) }},
	{"an HPACK number that overflows", false, func(h *h2) {
		h.frame(FrameHeaders, FlagEndHeaders, 1, append([]byte{0xff}, bytes.Repeat([]byte{0xff}, 30)...))
	}},
	{"an HPACK table that grows", false, func(h *h2) { h.frame(FrameHeaders, FlagEndHeaders, 1, []byte{0x3f, 0xff, 0xff, 0xff, 0x07}) }},
	{"an HPACK bomb", false, hpackBomb},
	{"long metadata", false, func(h *h2) { h.call(1, "x-long", strings.Repeat("a", 12_000)); h.data(1, empty(h)) }},
	{"many metadata", false, func(h *h2) {
		h.call(1, strings.Split(strings.Repeat("x-a,b,", 1500)+"x-a,b", ",")...)
		h.data(1, empty(h))
	}},
	{"names in upper case", false, oneCall(empty, "X-Upper", "a")},
	{"connection headers", false, oneCall(empty, "connection", "close", "transfer-encoding", "chunked", "upgrade", "h2c")},
	{"CR and LF in a value", false, oneCall(empty, "x-crlf", "a\r\nX-Injected: 1", "x-request-id", "a\nlevel=ERROR")},
	{"NUL in a value", false, oneCall(empty, "x-nul", "a\x00b", "idempotency-key", "a\x00b")},
	{"no UTF-8 in a value", false, oneCall(empty, "idempotency-key", "\xff\xfe", "genbus-labels", "k=\xff")},
	{"binary metadata that is none", false, oneCall(empty, "x-bin", "!!!!", "grpc-status-details-bin", "!!")},
	{"reserved metadata", false, oneCall(empty, "grpc-status", "0", "grpc-message", "%00", "grpc-previous-rpc-attempts", "-1", "grpc-encoding", "gzip")},
	{"a length too large", false, oneCall(empty, "content-length", "99999999999")},
	{"hostile metadata", false, func(h *h2) {
		name, value := Header(h.s)
		h.call(1, strings.ToLower(name), value[:min(len(value), 12_000)])
		h.data(1, empty(h))
	}},
	{"an absurd timeout", false, func(h *h2) {
		h.call(1, "grpc-timeout", One(h.s, []string{"", "0n", "1n", "-1S", "999999999H", "99999999H", "x", "S", "1"}))
		h.data(1, empty(h))
	}},
	{"pseudo headers last", false, block("te", "trailers", ":method", "POST", ":path", "/", ":scheme", "http")},
	{"pseudo headers twice", false, block(":method", "POST", ":path", CreateMethod, ":path", "/x", ":scheme", "http", "content-type", "application/grpc", "te", "trailers")},
	{"no method", false, block(":path", CreateMethod, ":scheme", "http", "content-type", "application/grpc")},
	{"GET", false, block(":method", "GET", ":path", CreateMethod, ":scheme", "http", "content-type", "application/grpc", "te", "trailers")},
	{"no content type", false, block(":method", "POST", ":path", CreateMethod, ":scheme", "http", "te", "trailers")},
	{"another content type", false, block(":method", "POST", ":path", CreateMethod, ":scheme", "http", "content-type", "application/grpc+\xff", "te", "trailers")},
	{"an odd path", false, func(h *h2) {
		block(":method", "POST", ":scheme", "http", ":path", One(h.s, oddMethods), "content-type", "application/grpc", "te", "trailers", "authorization", h.t.Authorization)(h)
	}},
	{"a message of 4 GiB", false, oneCall(func(*h2) []byte { return []byte{0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3} })},
	{"a message beyond the limit", false, oneCall(func(*h2) []byte { return []byte{0, 2, 0, 0, 1, 1, 2, 3} })},
	{"a message cut short", false, oneCall(func(*h2) []byte { return []byte{0, 0, 0, 0, 9, 1, 2} })},
	{"a length cut short", false, oneCall(func(*h2) []byte { return []byte{0, 0} })},
	{"an unknown flag", false, oneCall(func(*h2) []byte { return []byte{0xff, 0, 0, 0, 0} })},
	{"no message", false, oneCall(func(*h2) []byte { return nil })},
	{"two messages", false, oneCall(func(h *h2) []byte { return append(empty(h), empty(h)...) })},
	{"compressed by nothing", false, oneCall(func(*h2) []byte { return Envelope(nil, true, []byte("x")) })},
	{"compressed by nobody knows what", false, oneCall(func(*h2) []byte { return Envelope(nil, true, []byte("x")) }, "grpc-encoding", "snappy")},
	{"no gzip", false, oneCall(func(*h2) []byte { return Envelope(nil, true, []byte("x")) }, "grpc-encoding", "gzip")},
	{"a gzip bomb", true, oneCall(func(*h2) []byte { return Envelope(nil, true, GzipBomb(64<<20)) }, "grpc-encoding", "gzip")},
	{"a cancelled call", false, func(h *h2) {
		h.call(1)
		h.frame(FrameData, 0, 1, Wire(h.s, VideoWire(h.s, h.t)))
		h.frame(FrameReset, 0, 1, []byte{0, 0, 0, 8})
	}},
	{"good bye", false, func(h *h2) { h.call(1); h.frame(FrameGoAway, 0, 0, make([]byte, 8)); h.data(1, empty(h)) }},
}

var oddMethods = []string{
	"", "/", "//", "x", "*", "/genbus.v1.VideoService", "/genbus.v1.VideoService/", "/genbus.v1.VideoService/CreateVideoTask/", "/genbus.v1.VideoService/createvideotask", "/genbus.v1.OperatorService/Erase",
	"/genbus.v1.VideoService/\x00", "/\xff/\xff", "/genbus.v1.VideoService/Create?x", "/" + strings.Repeat("a", 8000), "http://x/genbus.v1.VideoService/CreateVideoTask", "/grpc.channelz.v1.Channelz/GetServers",
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.health.v1.Health/Watch",
}

// hpackBomb refers thousands of times to one long entry of the table.
func hpackBomb(h *h2) {
	b := CallHeader(nil, CreateMethod, h.t.Authorization)
	b = append(b, 0x40) // with indexing, a new name
	b = hpackText(hpackText(b, "bomb"), strings.Repeat("a", 3900))
	b = append(b, bytes.Repeat([]byte{0x80 | 62}, 10_000)...)
	h.frame(FrameHeaders, FlagEndHeaders, 1, b)
	h.data(1, empty(h))
}

// GzipBomb is n bytes of zero, compressed.
func GzipBomb(n int) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	zeros := make([]byte, 64<<10)
	for ; n > 0; n -= len(zeros) {
		_, _ = w.Write(zeros) // a buffer takes everything
	}
	_ = w.Close()
	return b.Bytes()
}

// pingOf is a ping that marks the end of an input.
func pingOf(mark uint64) []byte {
	return Frame(nil, FramePing, 0, 0, binary.BigEndian.AppendUint64(nil, mark))
}

// EndMark is a ping to send behind a connection's bytes: when its answer comes,
// all of them were read. Its payload is Mark.
func EndMark() []byte { return pingOf(Mark) }

// Mark is the payload of EndMark.
const Mark uint64 = 0x686f7374696c6521
