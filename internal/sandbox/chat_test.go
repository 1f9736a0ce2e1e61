package sandbox_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/sandbox"
)

func (b bundle) chat(t *testing.T, body string, headers ...string) answer {
	t.Helper()
	return b.do(t, http.MethodPost, "/v1/chat/completions", body, headers...)
}

// ask returns a chat body for sandbox-chat-fast with extra fields before the messages.
func ask(fields string) string {
	return `{"model":"sandbox-chat-fast",` + fields + `"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"one two three"}]}`
}

// events splits a stream with LF line ends into the data of its events.
func events(t *testing.T, body []byte) []string {
	t.Helper()
	var out []string
	for block := range strings.SplitSeq(strings.TrimSuffix(string(body), "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(block, "data: ")
		if !ok {
			t.Fatalf("block %q is no data block", block)
		}
		out = append(out, data)
	}
	return out
}

func decode(t *testing.T, data string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(data), &v); err != nil {
		t.Fatalf("event %q: %v", data, err)
	}
	return v
}

const sixWords = "You wrote 3 words in 13 "

func TestChatJSON(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{ChunkCount: 6})
	v := b.chat(t, ask(``)).json(t)
	delete(v, "id")
	delete(v, "created")
	want := decode(t, `{"object":"chat.completion","model":"sandbox-chat-fast",
		"choices":[{"index":0,"message":{"role":"assistant","content":"`+sixWords+`","refusal":null},"logprobs":null,"finish_reason":"stop"}],
		"usage":{"prompt_tokens":5,"completion_tokens":6,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}`)
	if diff := cmp.Diff(want, v); diff != "" {
		t.Errorf("completion (-want +got):\n%s", diff)
	}
}

func TestChatStream(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{ChunkCount: 6})
	a := b.chat(t, ask(`"stream":true,"stream_options":{"include_usage":true},`))
	if got := a.header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type %q", got)
	}
	list := events(t, a.body)
	if len(list) != 1+6+1+1+1 || list[len(list)-1] != "[DONE]" {
		t.Fatalf("%d events: %q", len(list), list)
	}
	var text strings.Builder
	for i, data := range list[:9] {
		v := decode(t, data)
		if v["object"] != "chat.completion.chunk" || v["id"] != decode(t, list[0])["id"] {
			t.Errorf("event %d: %s", i, data)
		}
		if content, ok := at(v, "choices", 0, "delta", "content").(string); ok {
			text.WriteString(content)
		}
		if finish := at(v, "choices", 0, "finish_reason"); (finish == "stop") != (i == 7) {
			t.Errorf("event %d has finish_reason %v", i, finish)
		}
		if usage := at(v, "usage", "total_tokens"); (usage == 11.0) != (i == 8) {
			t.Errorf("event %d has usage %v", i, usage)
		}
	}
	if at(decode(t, list[0]), "choices", 0, "delta", "role") != "assistant" || text.String() != sixWords {
		t.Errorf("role %s, text %q", list[0], text.String())
	}
}

func TestChatTextOfParts(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	v := b.chat(t, `{"model":"sandbox-chat-fast","messages":[{"role":"user","content":[{"type":"text","text":"a b "},{"type":"image_url","image_url":{"url":"x"}},{"type":"text","text":"ç"}]},{"role":"assistant","content":null}]}`).json(t)
	if text, _ := at(v, "choices", 0, "message", "content").(string); !strings.HasPrefix(text, "You wrote 3 words in 5 characters. The sandbox ") {
		t.Errorf("text %q", text)
	}
}

func TestChatLength(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	for _, field := range []string{"max_tokens", "max_completion_tokens"} {
		v := b.chat(t, ask(`"`+field+`":2,`)).json(t)
		if at(v, "choices", 0, "message", "content") != "You wrote " || at(v, "choices", 0, "finish_reason") != "length" {
			t.Errorf("%s: %v", field, v)
		}
	}
}

func TestChatTools(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	const request = `{"model":"sandbox-chat-fast",%"tools":[{"type":"function","function":{"name":"count","parameters":{}}}],"messages":[{"role":"user","content":"use the Tool"}]}`
	const arguments = `{"words":3,"unit":"word"}`
	v := b.chat(t, strings.Replace(request, "%", "", 1)).json(t)
	call := at(v, "choices", 0, "message", "tool_calls", 0)
	if at(call, "function", "name") != "count" || at(call, "function", "arguments") != arguments ||
		at(v, "choices", 0, "message", "content") != nil || at(v, "choices", 0, "finish_reason") != "tool_calls" {
		t.Errorf("JSON: %v", v)
	}
	var got strings.Builder
	fragments, name, finish := 0, any(nil), any(nil)
	for _, data := range events(t, b.chat(t, strings.Replace(request, "%", `"stream":true,`, 1)).body) {
		if data == "[DONE]" {
			continue
		}
		chunk := decode(t, data)
		if n := at(chunk, "choices", 0, "delta", "tool_calls", 0, "function", "name"); n != nil {
			name = n
		}
		if piece, ok := at(chunk, "choices", 0, "delta", "tool_calls", 0, "function", "arguments").(string); ok {
			got.WriteString(piece)
			fragments++
		}
		if f := at(chunk, "choices", 0, "finish_reason"); f != nil {
			finish = f
		}
	}
	if got.String() != arguments || fragments < 3 || name != "count" || finish != "tool_calls" {
		t.Errorf("stream: %q in %d fragments, name %v, finish %v", got.String(), fragments, name, finish)
	}
	after := strings.Replace(request, `"}]}`, `"},{"role":"tool","tool_call_id":"c","content":"3"}]}`, 1)
	v = b.chat(t, strings.Replace(after, "%", "", 1)).json(t)
	if at(v, "choices", 0, "finish_reason") != "stop" {
		t.Errorf("after the tool's answer: %v", v)
	}
}

func TestChatReasoning(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	const want = "Counting the words of the last message."
	v := b.chat(t, ask(`"reasoning_effort":"low",`)).json(t)
	if at(v, "choices", 0, "message", "reasoning_content") != want || at(v, "usage", "completion_tokens_details", "reasoning_tokens") != 3.0 {
		t.Errorf("JSON: %v", v)
	}
	var got strings.Builder
	for i, data := range events(t, b.chat(t, ask(`"reasoning_effort":"low","stream":true,`)).body)[1:4] {
		piece, ok := at(decode(t, data), "choices", 0, "delta", "reasoning_content").(string)
		if !ok {
			t.Errorf("event %d: %s", i+1, data)
		}
		got.WriteString(piece)
	}
	if got.String() != want {
		t.Errorf("stream: %q", got.String())
	}
	v = b.chat(t, ask(`"reasoning_effort":"none",`)).json(t)
	if at(v, "choices", 0, "message", "reasoning_content") != nil {
		t.Errorf("none: %v", v)
	}
}

func TestStreamFaults(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{ChunkCount: 4})
	get := func(behaviour string) answer {
		return b.chat(t, ask(`"stream":true,"sandbox":`+behaviour+`,`))
	}
	good := len(events(t, get(`{}`).body))

	if a := get(`{"chunks":100,"drop_after_chunks":5}`); a.err == nil || strings.Count(string(a.body), `"content"`) != 1+5 {
		t.Errorf("drop: error %v after %q", a.err, a.body)
	}
	a := get(`{"error_after_chunks":3,"code":"boom"}`)
	list := events(t, a.body)
	if a.err != nil || len(list) != 1+3+1 || at(decode(t, list[4]), "error", "code") != "boom" {
		t.Errorf("error: %v %q", a.err, list)
	}
	if list := events(t, get(`{"no_done":true}`).body); len(list) != good-1 || list[len(list)-1] == "[DONE]" {
		t.Errorf("no_done: %q", list)
	}
	if body := string(get(`{"no_finish":true}`).body); strings.Contains(body, `"finish_reason":"`) || !strings.Contains(body, "[DONE]") {
		t.Errorf("no_finish: %q", body)
	}
	if a := get(`{"json_for_stream":true}`); a.json(t)["object"] != "chat.completion" || !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
		t.Errorf("json_for_stream: %s", a.body)
	}
	if n := strings.Count(string(get(`{"comments":true}`).body), ": SANDBOX PROCESSING\n\n"); n != good {
		t.Errorf("comments: %d, want %d", n, good)
	}
	if body := string(get(`{"bom":true}`).body); !strings.HasPrefix(body, "\xef\xbb\xbfdata: ") {
		t.Errorf("bom: %q", body)
	}
	if body := string(get(`{"crlf":true}`).body); strings.Count(body, "\n") != strings.Count(body, "\r\n") || strings.Count(body, "\r\n\r\n") != good {
		t.Errorf("crlf: %q", body)
	}
	if body := string(get(`{"no_last_blank":true}`).body); !strings.HasSuffix(body, "\n\ndata: [DONE]") {
		t.Errorf("no_last_blank: %q", body)
	}
	if n := strings.Count(string(get(`{"null_error":true}`).body), `"error":null`); n != good-1 {
		t.Errorf("null_error: %d, want %d", n, good-1)
	}
	if body := string(get(`{"odd_events":true}`).body); strings.Count(body, "data: ping\n\ndata: null\n\nevent: heartbeat\ndata: {") != good {
		t.Errorf("odd_events: %q", body)
	}
	if list := events(t, get(`{"no_choices":true}`).body); len(list) != 2 || !strings.HasSuffix(list[0], `"choices":[]}`) || list[1] != "[DONE]" {
		t.Errorf("no_choices: %q", list)
	}
	if v := b.chat(t, ask(`"sandbox":{"no_choices":true},`)).json(t); at(v, "object") != "chat.completion" || at(v, "choices") != nil {
		t.Errorf("no_choices: %v", v)
	}
	strict := `"stream":true,"sandbox":{"no_stream_options":true},`
	if a := b.chat(t, ask(strict+`"stream_options":{},`)); a.status != 400 || !strings.Contains(string(a.body), "stream_options") {
		t.Errorf("no_stream_options: %d %s", a.status, a.body)
	}
	if a := b.chat(t, ask(strict)); a.status != 200 {
		t.Errorf("no_stream_options: %d %s", a.status, a.body)
	}
	if body := get(`{"big_chunk_bytes":5000000}`).body; len(body) < 5_000_000 || len(events(t, body)) != good {
		t.Errorf("big chunk: %d bytes", len(body))
	}
	if n := b.Sandbox.Stats().StreamsOpen; n != 0 {
		t.Errorf("%d streams open after all", n)
	}
}

func TestChatTimes(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	body := ask(`"sandbox":{"id":"a","times":1,"status":529,"retry_after":"1","chunks":3},`)
	a := b.chat(t, body)
	if a.status != 529 || at(a.json(t), "error", "code") != "internal_error" || a.header.Get("Retry-After") != "1" {
		t.Errorf("first: %d %s", a.status, a.body)
	}
	if v := b.chat(t, body).json(t); at(v, "usage", "completion_tokens") != 3.0 {
		t.Errorf("second: %v, want a good answer of 3 chunks", v)
	}
	b.chat(t, ask(``), "Idempotency-Key", "k")
	b.chat(t, ask(`"sandbox":{"drop":"before_answer"},`), "Idempotency-Key", "k")
	if stats := b.Sandbox.Stats(); stats.Chats != 4 || stats.ChatsPerKey["k"] != 2 || stats.MaxChatsPerKey != 2 {
		t.Errorf("stats: %+v", stats)
	}
}

func TestChatPacing(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	before := time.Now()
	list := events(t, b.chat(t, `{"model":"sandbox-chat:chunks=10,chunk_interval_ms=8,timestamps","stream":true,"messages":[{"role":"user","content":"x"}]}`).body)
	if took := time.Since(before); took < 80*time.Millisecond {
		t.Errorf("ten chunks after the role took %v, want at least 80ms", took)
	}
	last := ""
	for _, data := range list[1:11] {
		stamp, _ := at(decode(t, data), "choices", 0, "delta", "content").(string)
		if stamp <= last || len(stamp) != 20 {
			t.Errorf("timestamp %q after %q", stamp, last)
		}
		last = stamp
	}
	list = events(t, b.chat(t, `{"model":"sandbox-chat:chunks=2,big_chunk_bytes=3000,timestamps","stream":true,"messages":[{"role":"user","content":"x"}]}`).body)
	if text, _ := at(decode(t, list[1]), "choices", 0, "delta", "content").(string); len(text) != 20+3000+1 {
		t.Errorf("the large chunk with its time has %d bytes", len(text))
	}
}

func TestChatRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	for _, c := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"no messages", `{"model":"sandbox-chat","messages":[]}`, 500, "invalid_request"},
		{"no model", `{"messages":[]}`, 400, ""},
		{"unknown model", `{"model":"gpt","messages":[]}`, 503, "model_not_found"},
		{"video model", `{"model":"sandbox-video","messages":[]}`, 503, "model_not_found"},
		{"not JSON", `[`, 400, "invalid_request"},
		{"misspelt fault", ask(`"sandbox":{"hangs":true},`), 400, "invalid_request"},
		{"two objects", ask(`"sandbox":"x",`), 400, "invalid_request"},
	} {
		a := b.chat(t, c.body)
		if a.status != c.status || at(a.json(t), "error", "code") != c.code {
			t.Errorf("%s: %d %s, want %d %q", c.name, a.status, a.body, c.status, c.code)
		}
	}
}
