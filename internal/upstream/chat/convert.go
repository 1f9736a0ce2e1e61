package chat

import (
	"bytes"
	"strconv"

	"github.com/genbus/genbus/internal/body"
)

// toChunks converts a whole reply to chunks. Each choice gets a chunk with the message and one with
// the finish_reason, and a last chunk has the usage. Assembling the chunks yields the reply with
// all its fields.
func toChunks(reply []byte) ([][]byte, error) {
	t := split{head: []byte(`{"object":"chat.completion.chunk"`)}
	c := body.NewCursor(reply)
	for name := range c.Members() {
		t.takeMember(string(body.MemberName(name)), c.Value())
	}
	if c.Bad {
		return nil, errBadBlock
	}
	return t.chunks()
}

type split struct {
	head           []byte // in every chunk: `{"object":..,"id":..`
	extra          []byte // in the first chunk only: `,"name":value`...
	choices, usage []byte
}

func (t *split) takeMember(name string, v []byte) {
	switch name {
	case "object":
	case "choices":
		t.choices = v
	case "usage":
		t.usage = v
	case "id", "created", "model":
		t.head = append(body.AppendName(append(t.head, ','), name), v...)
	default:
		t.extra = append(body.AppendName(append(t.extra, ','), name), v...)
	}
}

func (t *split) chunks() ([][]byte, error) {
	messages, finishes, err := splitChoices(t.choices)
	if err != nil {
		return nil, err
	}
	var chunks [][]byte
	for _, choice := range append(messages, finishes...) {
		chunks = append(chunks, t.chunk(choice))
	}
	if t.usage != nil {
		chunks = append(chunks, append(append(append(bytes.Clone(t.head), `,"choices":[],"usage":`...), t.usage...), '}'))
	}
	return chunks, nil
}

func (t *split) chunk(choice []byte) []byte {
	chunk := append(bytes.Clone(t.head), t.extra...)
	t.extra = nil
	chunk = append(append(chunk, `,"choices":[`...), choice...)
	return append(chunk, "]}"...)
}

// splitChoices splits each choice into two streamed choices, one with the message and one with the
// finish_reason. A choice without a finish_reason gets only the first.
func splitChoices(array []byte) (messages, finishes [][]byte, err error) {
	c := body.NewCursor(array)
	for n := range c.Elements() {
		message, finish := splitChoice(c, n)
		messages = append(messages, message)
		if finish != nil {
			finishes = append(finishes, finish)
		}
		if len(messages) > maxChoices {
			return nil, nil, errTooManyChoices
		}
	}
	if c.Bad {
		return nil, nil, errBadBlock
	}
	return messages, finishes, nil
}

func splitChoice(c *body.Cursor, n int) (message, finish []byte) {
	index := strconv.AppendInt([]byte(`{"index":`), int64(n), 10)
	var delta, reason, others []byte
	for quoted := range c.Members() {
		name := string(body.MemberName(quoted))
		switch v := c.Value(); name {
		case "index":
			index = append([]byte(`{"index":`), v...)
		case "finish_reason":
			reason = v
		case "message":
			delta = v
		case "delta":
			if delta == nil {
				delta = v
			}
		default:
			others = append(body.AppendName(append(others, ','), name), v...)
		}
	}
	if len(delta) == 0 || delta[0] != '{' {
		delta = []byte("{}")
	}
	message = withCallIndexes(append(bytes.Clone(index), `,"delta":`...), delta)
	message = append(append(message, others...), `,"finish_reason":null}`...)
	if !isNothing(reason) {
		finish = append(append(bytes.Clone(index), `,"delta":{},"finish_reason":`...), reason...)
		finish = append(finish, '}')
	}
	return message, finish
}

// withCallIndexes appends a message to dst as a delta, with an index in each tool call.
func withCallIndexes(dst, message []byte) []byte {
	calls := body.NewCursor(body.FindMember(message, "tool_calls"))
	if calls.Peek() != '[' {
		return append(dst, message...)
	}
	numbered := []byte{'['}
	for n := range calls.Elements() {
		if n > 0 {
			numbered = append(numbered, ',')
		}
		numbered = append(numbered, withIndex(calls.Value(), n)...)
	}
	message, _ = body.SetMember(message, "tool_calls", append(numbered, ']'))
	return append(dst, message...)
}

func withIndex(call []byte, n int) []byte {
	if body.FindMember(call, "index") == nil {
		call, _ = body.SetMember(call, "index", strconv.AppendInt(nil, int64(n), 10))
	}
	return call
}
