package body

import (
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// ParseCompletion parses a reply from an upstream. It accepts any JSON object, and returns a
// *FieldError for anything else.
func ParseCompletion(raw []byte) (*genbusv1.ChatCompletion, error) {
	if err := checkObject(raw, lenient); err != nil {
		return nil, fieldErrorOf("completion", err)
	}
	m := new(genbusv1.ChatCompletion)
	readCompletion(newCursor(raw), m)
	return m, nil
}

// ParseMessages returns the messages of a chat request, or nil if raw is not one.
func ParseMessages(raw []byte) (messages []*genbusv1.ChatMessage) {
	if checkObject(raw, lenient) == nil {
		many(newCursor(FindMember(raw, "messages")), &messages, readMessage)
	}
	return messages
}

// ParseChunk is like ParseCompletion but parses one block of a streamed reply.
func ParseChunk(raw []byte) (*genbusv1.ChatCompletionChunk, error) {
	if err := checkObject(raw, lenient); err != nil {
		return nil, fieldErrorOf("chunk", err)
	}
	m := new(genbusv1.ChatCompletionChunk)
	readChunk(newCursor(raw), m)
	return m, nil
}

// ChunkJSON returns one block of a streamed reply as JSON. It is the inverse of ParseChunk for
// objects without duplicate names.
func ChunkJSON(m *genbusv1.ChatCompletionChunk) ([]byte, error) {
	w := writer{how: lenient, path: path{{"chunk", single}}}
	w.chunk(m)
	if w.err != nil {
		return nil, w.err
	}
	return w.buf, nil
}

func readCompletion(c *cursor, m *genbusv1.ChatCompletion) {
	c.object(&m.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "id":
			return c.text(&m.Id)
		case "object":
			return c.text(&m.Object)
		case "created":
			return c.int64(&m.Created)
		case "model":
			return c.text(&m.Model)
		case "choices":
			return many(c, &m.Choices, readChoice)
		case "usage":
			return one(c, &m.Usage, readUsage)
		case "service_tier":
			return c.optText(&m.ServiceTier)
		case "system_fingerprint":
			return c.optText(&m.SystemFingerprint)
		}
		return false
	})
}

// position writes index even if it is 0, unless extra holds an index that is not a number.
func (o object) position(index int32, extra []byte) {
	if index != 0 || !holds(extra, "index") {
		o.int("index", int64(index))
	}
}

func readChoice(c *cursor, m *genbusv1.ChatChoice) {
	c.object(&m.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "index":
			return c.position(&m.Index)
		case "message":
			return one(c, &m.Message, readMessage)
		case "finish_reason":
			return c.optText(&m.FinishReason)
		case "logprobs":
			return one(c, &m.Logprobs, readLogprobs)
		}
		return false
	})
}

func (w *writer) chunk(m *genbusv1.ChatCompletionChunk) {
	o := w.open()
	o.text("id", m.GetId())
	o.text("object", m.GetObject())
	if m.GetCreated() != 0 {
		o.int("created", m.GetCreated())
	}
	o.text("model", m.GetModel())
	if len(m.GetChoices()) > 0 || !holds(m.GetExtraJson(), "choices") {
		array(o, "choices", "choices", m.GetChoices(), (*writer).chunkChoice)
	}
	nest(o, "usage", m.GetUsage(), (*writer).usage)
	o.optText("service_tier", m.ServiceTier)
	o.optText("system_fingerprint", m.SystemFingerprint)
	o.close(m.GetExtraJson())
}

func readChunk(c *cursor, m *genbusv1.ChatCompletionChunk) {
	c.object(&m.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "id":
			return c.text(&m.Id)
		case "object":
			return c.text(&m.Object)
		case "created":
			return c.int64(&m.Created)
		case "model":
			return c.text(&m.Model)
		case "choices":
			return many(c, &m.Choices, readChunkChoice)
		case "usage":
			return one(c, &m.Usage, readUsage)
		case "service_tier":
			return c.optText(&m.ServiceTier)
		case "system_fingerprint":
			return c.optText(&m.SystemFingerprint)
		}
		return false
	})
}

func (w *writer) chunkChoice(m *genbusv1.ChatChunkChoice) {
	o := w.open()
	o.position(m.GetIndex(), m.GetExtraJson())
	nest(o, "delta", m.GetDelta(), (*writer).message)
	o.optText("finish_reason", m.FinishReason)
	nest(o, "logprobs", m.GetLogprobs(), (*writer).logprobs)
	o.close(m.GetExtraJson())
}

func readChunkChoice(c *cursor, m *genbusv1.ChatChunkChoice) {
	c.object(&m.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "index":
			return c.position(&m.Index)
		case "delta":
			return one(c, &m.Delta, readMessage)
		case "finish_reason":
			return c.optText(&m.FinishReason)
		case "logprobs":
			return one(c, &m.Logprobs, readLogprobs)
		}
		return false
	})
}
