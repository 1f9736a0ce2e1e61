package hostile

import "strings"

// prefaces are hostile ways to begin a connection.
var prefaces = []connection{
	{"!nothing", false, bytesOf("")},
	{"!HTTP/1", false, bytesOf("GET / HTTP/1.1\r\nHost: x\r\n\r\n")},
	{"!a broken preface", false, bytesOf("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n")},
	{"!a preface cut short", false, bytesOf("PRI * HTTP/2.0\r\n")},
	{"!a TLS handshake", false, bytesOf("\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03")},
	{"!any bytes", false, func(h *h2) { h.b = h.s.Bytes(1 + h.s.N(3000)) }},
	{"!no settings", false, func(h *h2) { h.b = append(h.b, Preface...); h.call(1) }},
	{"any bytes", false, func(h *h2) { h.b = append(h.b, h.s.Bytes(1+h.s.N(3000))...) }},
}

// frameOrders are frames that are invalid, too numerous or out of order.
var frameOrders = []connection{
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
}
