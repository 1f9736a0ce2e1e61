package chat

import (
	"bytes"
	"strconv"
)

// toChunks makes the chunks of a whole reply: for each choice one with the
// message and one with the finish_reason, then one with the usage. Put together
// again they give the reply, with every field that it had.
func toChunks(reply []byte) ([][]byte, error) {
	t := split{head: []byte(`{"object":"chat.completion.chunk"`)}
	c := cursor{b: reply}
	c.enter('{')
	for first := true; c.more('}', first); first = false {
		t.takeMember(string(c.key()), c.value())
	}
	if c.bad {
		return nil, errBadBlock
	}
	return t.chunks()
}

// split is a reply taken apart.
type split struct {
	head           []byte // what stands in every chunk: `{"object":..,"id":..`
	extra          []byte // what stands in the first one only: `,"name":value`...
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
		t.head = append(appendName(append(t.head, ','), name), v...)
	default:
		t.extra = append(appendName(append(t.extra, ','), name), v...)
	}
}

func (t *split) chunks() ([][]byte, error) {
	messages, finishes, err := splitChoices(t.choices)
	if err != nil {
		return nil, err
	}
	if len(messages) == 0 {
		messages = [][]byte{nil}
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

// splitChoices makes two streamed choices of each: with the message, and with
// the finish_reason if it has one.
func splitChoices(array []byte) (messages, finishes [][]byte, err error) {
	if isNull(array) {
		return nil, nil, nil
	}
	c := cursor{b: array}
	c.enter('[')
	for n := 0; c.more(']', n == 0); n++ {
		message, finish := splitChoice(&c, n)
		messages = append(messages, message)
		if finish != nil {
			finishes = append(finishes, finish)
		}
		if len(messages) > maxChoices {
			return nil, nil, errTooManyChoices
		}
	}
	if c.bad {
		return nil, nil, errBadBlock
	}
	return messages, finishes, nil
}

func splitChoice(c *cursor, n int) (message, finish []byte) {
	index := strconv.AppendInt([]byte(`{"index":`), int64(n), 10)
	var delta, reason, others []byte
	c.enter('{')
	for first := true; c.more('}', first); first = false {
		name := string(c.key())
		switch v := c.value(); name {
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
			others = append(appendName(append(others, ','), name), v...)
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

// withCallIndexes writes a message as a delta, whose tool calls are numbered.
func withCallIndexes(dst, message []byte) []byte {
	at, ok := memberSpan(message, "tool_calls")
	if !ok || message[at.from] != '[' {
		return append(dst, message...)
	}
	dst = append(append(dst, message[:at.from]...), '[')
	c := cursor{b: message[at.from:at.to]}
	c.enter('[')
	for n := 0; c.more(']', n == 0); n++ {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, withIndex(c.value(), n)...)
	}
	return append(append(dst, ']'), message[at.to:]...)
}

func withIndex(call []byte, n int) []byte {
	if len(call) == 0 || call[0] != '{' || member(call, "index") != nil {
		return call
	}
	return WithField(call, "index", strconv.AppendInt(nil, int64(n), 10))
}
