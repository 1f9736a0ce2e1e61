package sandbox

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// reply is the complete answer to a chat, before it is encoded as JSON or events.
type reply struct {
	id        string
	model     string
	created   int64
	reasoning []string
	pieces    []string // content chunks; empty for a tool call
	call      *toolCall
	finish    string // finish_reason
	usage     []byte // the usage object as JSON
	withUsage bool   // end the stream with a usage chunk
}

type toolCall struct {
	id, name  string
	arguments string
}

// reasoningPieces are sent first if the request sets reasoning_effort.
var reasoningPieces = []string{"Counting ", "the words ", "of the last message."}

var filler = []string{"The ", "sandbox ", "goes ", "on ", "for ", "as ", "long ", "as ", "it ", "is ", "asked. "}

// replyTo returns the answer to req. Equal requests get equal answers, except for IDs and time.
func (s *Sandbox) replyTo(req chatRequest, b Behaviour) *reply {
	last := req.Messages[len(req.Messages)-1]
	text := lastUserText(req.Messages)
	r := &reply{
		id:        newID("chatcmpl-"),
		model:     req.Model,
		created:   time.Now().Unix(),
		finish:    "stop",
		withUsage: req.StreamOptions != nil && req.StreamOptions.IncludeUsage,
	}
	if req.ReasoningEffort != "" && req.ReasoningEffort != "none" {
		r.reasoning = reasoningPieces
	}
	if last.Role == "user" && len(req.Tools) > 0 && strings.Contains(strings.ToLower(text), "tool") {
		r.call = newToolCall(req.Tools[0].Function.Name, text)
		r.finish = "tool_calls"
	} else {
		r.write(text, s.chunkCount(b), limitOf(req))
		r.enlarge(b.BigChunkBytes)
	}
	r.usage = r.countTokens(req.Messages)
	return r
}

func (s *Sandbox) chunkCount(b Behaviour) int {
	if b.Chunks > 0 {
		return b.Chunks
	}
	return s.opts.ChunkCount
}

// limitOf returns the token limit of req. 0 means no limit.
func limitOf(req chatRequest) int {
	if limit := valueOf(req.MaxCompletionTokens); limit > 0 {
		return limit
	}
	return valueOf(req.MaxTokens)
}

func lastUserText(messages []chatMessage) string {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == "user" {
			return messages[i].text()
		}
	}
	return ""
}

// write sets r.pieces to count pieces, or to limit pieces if that is fewer. A piece counts as one
// token.
func (r *reply) write(text string, count, limit int) {
	if limit > 0 && limit < count {
		count = limit
		r.finish = "length"
	}
	sentence := fmt.Sprintf("You wrote %s in %s. ", counted(len(strings.Fields(text)), "word"), counted(utf8.RuneCountInString(text), "character"))
	words := strings.SplitAfter(strings.TrimSuffix(sentence, " "), " ")
	words[len(words)-1] += " "
	r.pieces = make([]string, count)
	for i := range r.pieces {
		if i < len(words) {
			r.pieces[i] = words[i]
		} else {
			r.pieces[i] = filler[(i-len(words))%len(filler)]
		}
	}
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// enlarge makes the first piece size bytes long. 0 leaves it unchanged.
func (r *reply) enlarge(size int) {
	if size > 0 {
		r.pieces[0] = strings.Repeat("x", size)
	}
}

func newToolCall(name, text string) *toolCall {
	return &toolCall{
		id:        newID("call_"),
		name:      name,
		arguments: `{"words":` + strconv.Itoa(len(strings.Fields(text))) + `,"unit":"word"}`,
	}
}

// fragments returns the arguments in pieces, for streaming.
func (c *toolCall) fragments() []string {
	const size = 7
	var out []string
	for rest := c.arguments; rest != ""; {
		n := min(size, len(rest))
		out = append(out, rest[:n])
		rest = rest[n:]
	}
	return out
}

func (r *reply) countTokens(messages []chatMessage) []byte {
	prompt := 0
	for _, m := range messages {
		prompt += len(strings.Fields(m.text()))
	}
	completion := len(r.pieces) + len(r.reasoning)
	if r.call != nil {
		completion += len(r.call.fragments())
	}
	b := append([]byte(nil), `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(prompt), 10)
	b = appendIntField(b, "completion_tokens", int64(completion))
	b = appendIntField(b, "total_tokens", int64(prompt+completion))
	b = append(b, `,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":`...)
	b = strconv.AppendInt(b, int64(len(r.reasoning)), 10)
	return append(b, `}}`...)
}

func (r *reply) appendCompletion(b []byte) []byte {
	b = append(b, `{"id":`...)
	b = appendJSON(b, r.id)
	b = append(b, `,"object":"chat.completion"`...)
	b = appendIntField(b, "created", r.created)
	b = appendField(b, "model", r.model)
	b = append(b, `,"choices":[{"index":0,"message":{"role":"assistant","content":`...)
	if r.call != nil {
		b = append(b, `null,"tool_calls":[{"id":`...)
		b = appendJSON(b, r.call.id)
		b = append(b, `,"type":"function","function":{"name":`...)
		b = appendJSON(b, r.call.name)
		b = appendField(b, "arguments", r.call.arguments)
		b = append(b, `}}]`...)
	} else {
		b = appendJSON(b, strings.Join(r.pieces, ""))
	}
	if len(r.reasoning) > 0 {
		b = appendField(b, "reasoning_content", strings.Join(r.reasoning, ""))
	}
	b = append(b, `,"refusal":null},"logprobs":null,"finish_reason":`...)
	b = appendJSON(b, r.finish)
	b = append(b, `}],"usage":`...)
	b = append(b, r.usage...)
	return append(b, '}')
}
