package hostile

import (
	"encoding/binary"
	"slices"
	"strings"
)

// CreateMethod is the gRPC method that creates a video task.
const CreateMethod = "/genbus.v1.VideoService/CreateVideoTask"

// Connection returns the bytes of one hostile HTTP/2 connection to the gRPC server. They do not
// depend on the server's answers.
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

type h2 struct {
	s *Source
	t Target
	b []byte
}

func (h *h2) frame(kind, flags byte, stream uint32, payload []byte) {
	h.b = Frame(h.b, kind, flags, stream, payload)
}

// call opens a stream with a valid header and additional fields.
func (h *h2) call(stream uint32, more ...string) {
	h.frame(FrameHeaders, FlagEndHeaders, stream, CallHeader(nil, CreateMethod, h.t.Authorization, more...))
}

func (h *h2) data(stream uint32, payload []byte) { h.frame(FrameData, FlagEnd, stream, payload) }

// oneCall opens a stream with additional fields, sends a message and ends the stream.
func oneCall(message func(h *h2) []byte, more ...string) func(*h2) {
	return func(h *h2) {
		h.call(1, more...)
		h.data(1, message(h))
	}
}

// connection makes the frames of one connection. If its name begins with "!", it also makes the
// preface.
type connection struct {
	name  string
	large bool
	make  func(h *h2)
}

func bytesOf(text string) func(*h2) { return func(h *h2) { h.b = append(h.b, text...) } }

func empty(*h2) []byte { return Envelope(nil, false, nil) }

// block opens a stream with this header block.
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

// connections lists all connections. Changing the order changes the input of every seed.
var connections = slices.Concat(prefaces, frameOrders, headerBlocks, messages)

func pingOf(mark uint64) []byte {
	return Frame(nil, FramePing, 0, 0, binary.BigEndian.AppendUint64(nil, mark))
}

// EndMark returns a ping to send after a connection's bytes. The answer to the ping shows that the
// server has read all of them. The payload of the ping is Mark.
func EndMark() []byte { return pingOf(Mark) }

// Mark is the payload of EndMark.
const Mark uint64 = 0x686f7374696c6521
