package hostile

import (
	"bytes"
	"compress/gzip"
)

// messages are calls with a valid header and a hostile continuation.
var messages = []connection{
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

// GzipBomb returns n zero bytes, compressed.
func GzipBomb(n int) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	zeros := make([]byte, 64<<10)
	for ; n > 0; n -= len(zeros) {
		_, _ = w.Write(zeros) // never fails
	}
	_ = w.Close()
	return b.Bytes()
}
