package hostile

import (
	"bytes"
	"strings"
)

// headerBlocks are headers that are invalid for HPACK, HTTP/2 or gRPC.
var headerBlocks = []connection{
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
}

var oddMethods = []string{
	"", "/", "//", "x", "*", "/genbus.v1.VideoService", "/genbus.v1.VideoService/", "/genbus.v1.VideoService/CreateVideoTask/", "/genbus.v1.VideoService/createvideotask", "/genbus.v1.OperatorService/Erase",
	"/genbus.v1.VideoService/\x00", "/\xff/\xff", "/genbus.v1.VideoService/Create?x", "/" + strings.Repeat("a", 8000), "http://x/genbus.v1.VideoService/CreateVideoTask", "/grpc.channelz.v1.Channelz/GetServers",
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.health.v1.Health/Watch",
}

// hpackBomb refers 10,000 times to one long entry of the table.
func hpackBomb(h *h2) {
	b := CallHeader(nil, CreateMethod, h.t.Authorization)
	b = append(b, 0x40) // literal with incremental indexing, new name
	b = hpackText(hpackText(b, "bomb"), strings.Repeat("a", 3900))
	b = append(b, bytes.Repeat([]byte{0x80 | 62}, 10_000)...)
	h.frame(FrameHeaders, FlagEndHeaders, 1, b)
	h.data(1, empty(h))
}
