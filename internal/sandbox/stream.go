package sandbox

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"
)

// stream writes reply as server-sent events, with the faults in b. It stops when the client
// disconnects.
func (s *Sandbox) stream(w http.ResponseWriter, r *http.Request, reply *reply, b Behaviour, interval time.Duration) {
	s.count.streamsOpen.Add(1)
	defer s.count.streamsOpen.Add(-1)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	if b.Status != 0 {
		w.WriteHeader(b.Status)
	}
	sw := newStreamWriter(r.Context(), w, reply, b, interval)
	if b.NoChoices {
		sw.event(append(sw.chunkStart(reply), `[]}`...))
		sw.lastEvent([]byte("[DONE]"))
		return
	}
	sw.open()
	sw.reasoning(reply.reasoning)
	if !sw.content(reply) {
		if b.DropAfterChunks > 0 && sw.sent >= b.DropAfterChunks && sw.err == nil {
			reset(w)
		}
		return
	}
	sw.end(reply)
}

// streamWriter writes the events of one reply. After an error, further calls do nothing.
type streamWriter struct {
	ctx      context.Context
	w        http.ResponseWriter
	flusher  *http.ResponseController
	b        Behaviour
	eol      string
	head     []byte // the chunk up to its delta
	tail     string // the chunk from logprobs on, with finish_reason null
	lastTail string // the end of a chunk after its choices
	buf      []byte
	timer    *time.Timer
	interval time.Duration
	next     time.Time // when the next paced chunk is due
	sent     int       // content chunks sent
	err      error
}

func newStreamWriter(ctx context.Context, w http.ResponseWriter, r *reply, b Behaviour, interval time.Duration) *streamWriter {
	sw := &streamWriter{
		ctx: ctx, w: w, flusher: http.NewResponseController(w), b: b,
		eol: "\n", interval: interval, next: time.Now(),
	}
	if b.CRLF {
		sw.eol = "\r\n"
	}
	if r.withUsage {
		sw.lastTail = `,"usage":null`
	}
	sw.lastTail += `}`
	sw.tail = `,"logprobs":null,"finish_reason":null}]` + sw.lastTail
	sw.head = append(sw.chunkStart(r), `[{"index":0,"delta":`...)
	return sw
}

// chunkStart returns a chunk up to the value of its choices.
func (sw *streamWriter) chunkStart(r *reply) []byte {
	head := append([]byte(nil), `{"id":`...)
	head = appendJSON(head, r.id)
	head = append(head, `,"object":"chat.completion.chunk"`...)
	head = appendIntField(head, "created", r.created)
	head = appendField(head, "model", r.model)
	if sw.b.NullError {
		head = append(head, `,"error":null`...)
	}
	return append(head, `,"choices":`...)
}

// open writes the role, which precedes the content.
func (sw *streamWriter) open() {
	if sw.b.BOM {
		sw.buf = append(sw.buf, "\xef\xbb\xbf"...)
	}
	sw.chunk(func(b []byte) []byte { return append(b, `{"role":"assistant","content":""}`...) })
}

// reasoning writes reasoning pieces before the content. They do not count as content chunks.
func (sw *streamWriter) reasoning(pieces []string) {
	for _, piece := range pieces {
		sw.chunk(func(b []byte) []byte { return appendDelta(b, "reasoning_content", piece) })
	}
}

// content writes the text or the tool call. It returns false if a fault or error ended the stream.
func (sw *streamWriter) content(r *reply) bool {
	if r.call != nil {
		return sw.toolCall(r.call)
	}
	for i, piece := range r.pieces {
		sw.chunk(func(b []byte) []byte {
			if sw.b.Timestamps {
				piece = sw.stamp(piece, i == 0)
			}
			return appendDelta(b, "content", piece)
		})
		if !sw.goesOn() {
			return false
		}
	}
	return true
}

// stamp returns the text of a chunk for Timestamps. It is the time, followed by piece if piece is
// the enlarged first chunk.
func (sw *streamWriter) stamp(piece string, first bool) string {
	now := strconv.FormatInt(time.Now().UnixNano(), 10) + " "
	if first && sw.b.BigChunkBytes > 0 {
		return now + piece + " "
	}
	return now
}

func appendDelta(b []byte, name, piece string) []byte {
	b = append(b, `{"`...)
	b = append(b, name...)
	b = append(b, `":`...)
	b = appendJSON(b, piece)
	return append(b, '}')
}

func (sw *streamWriter) toolCall(c *toolCall) bool {
	sw.chunk(func(b []byte) []byte {
		b = append(b, `{"tool_calls":[{"index":0,"id":`...)
		b = appendJSON(b, c.id)
		b = append(b, `,"type":"function","function":{"name":`...)
		b = appendJSON(b, c.name)
		return append(b, `,"arguments":""}}]}`...)
	})
	if !sw.goesOn() {
		return false
	}
	for _, fragment := range c.fragments() {
		sw.chunk(func(b []byte) []byte {
			b = append(b, `{"tool_calls":[{"index":0,"function":{"arguments":`...)
			b = appendJSON(b, fragment)
			return append(b, `}}]}`...)
		})
		if !sw.goesOn() {
			return false
		}
	}
	return true
}

// goesOn counts a content chunk and reports whether another may follow.
func (sw *streamWriter) goesOn() bool {
	sw.sent++
	if sw.sent == sw.b.ErrorAfterChunks {
		sw.event(appendNested(nil, apiError{
			code:    cmp.Or(sw.b.Code, "server_error"),
			message: cmp.Or(sw.b.Message, "the sandbox was asked to fail inside the stream"),
			kind:    "server_error",
		}))
		return false
	}
	return sw.err == nil && sw.sent != sw.b.DropAfterChunks
}

// end writes the finish chunk, the usage and [DONE].
func (sw *streamWriter) end(r *reply) {
	if !sw.b.NoFinish {
		data := append(sw.head[:len(sw.head):len(sw.head)], `{},"logprobs":null,"finish_reason":`...)
		data = appendJSON(data, r.finish)
		data = append(data, `}]`...)
		sw.event(append(data, sw.lastTail...))
	}
	if r.withUsage {
		data := append(sw.chunkStart(r), `[],"usage":`...)
		data = append(data, r.usage...)
		sw.event(append(data, '}'))
	}
	if !sw.b.NoDone {
		sw.lastEvent([]byte("[DONE]"))
	}
}

// chunk waits until the next chunk is due and writes it with the delta that delta appends.
func (sw *streamWriter) chunk(delta func([]byte) []byte) {
	if !sw.pace() {
		return
	}
	sw.startEvent()
	sw.buf = append(sw.buf, sw.head...)
	sw.buf = delta(sw.buf)
	sw.buf = append(sw.buf, sw.tail...)
	sw.buf = append(sw.buf, sw.eol...)
	sw.buf = append(sw.buf, sw.eol...)
	sw.flush()
}

func (sw *streamWriter) event(data []byte) {
	sw.startEvent()
	sw.buf = append(sw.buf, data...)
	sw.buf = append(sw.buf, sw.eol...)
	sw.buf = append(sw.buf, sw.eol...)
	sw.flush()
}

// lastEvent is like event but omits the blank line if NoLastBlank is set.
func (sw *streamWriter) lastEvent(data []byte) {
	if !sw.b.NoLastBlank {
		sw.event(data)
		return
	}
	sw.startEvent()
	sw.buf = append(sw.buf, data...)
	sw.flush()
}

func (sw *streamWriter) startEvent() {
	if sw.b.Comments {
		sw.buf = append(sw.buf, ": SANDBOX PROCESSING"...)
		sw.buf = append(sw.buf, sw.eol...)
		sw.buf = append(sw.buf, sw.eol...)
	}
	if sw.b.OddEvents {
		for _, odd := range []string{"data: ping", "data: null", "event: heartbeat" + sw.eol + `data: {"time":1}`} {
			sw.buf = append(sw.buf, odd+sw.eol+sw.eol...)
		}
	}
	sw.buf = append(sw.buf, "data: "...)
}

func (sw *streamWriter) flush() {
	if sw.err == nil {
		_, sw.err = sw.w.Write(sw.buf)
	}
	if sw.err == nil {
		sw.err = sw.flusher.Flush()
	}
	sw.buf = sw.buf[:0]
}

// pace waits until the next chunk is due. Due times count from the start of the stream, so that
// delays do not add up. It returns false if the client has disconnected.
func (sw *streamWriter) pace() bool {
	if sw.err != nil {
		return false
	}
	if sw.interval == 0 {
		return true
	}
	wait := time.Until(sw.next)
	sw.next = sw.next.Add(sw.interval)
	if wait <= 0 {
		return true
	}
	if sw.timer == nil {
		sw.timer = time.NewTimer(wait)
	} else {
		sw.timer.Reset(wait)
	}
	select {
	case <-sw.timer.C:
		return true
	case <-sw.ctx.Done():
		sw.timer.Stop()
		sw.err = sw.ctx.Err()
		return false
	}
}
