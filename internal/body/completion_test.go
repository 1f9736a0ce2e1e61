package body

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// completionJSON inverts ParseCompletion, to show that it loses nothing.
func completionJSON(m *genbusv1.ChatCompletion) ([]byte, error) {
	w := writer{how: lenient, path: path{{"completion", single}}}
	w.completion(m)
	if w.err != nil {
		return nil, w.err
	}
	return w.buf, nil
}

func (w *writer) completion(m *genbusv1.ChatCompletion) {
	o := w.open()
	o.text("id", m.GetId())
	o.text("object", m.GetObject())
	if m.GetCreated() != 0 {
		o.int("created", m.GetCreated())
	}
	o.text("model", m.GetModel())
	if len(m.GetChoices()) > 0 || !holds(m.GetExtraJson(), "choices") {
		array(o, "choices", "choices", m.GetChoices(), (*writer).choice)
	}
	nest(o, "usage", m.GetUsage(), (*writer).usage)
	o.optText("service_tier", m.ServiceTier)
	o.optText("system_fingerprint", m.SystemFingerprint)
	o.close(m.GetExtraJson())
}

func (w *writer) choice(m *genbusv1.ChatChoice) {
	o := w.open()
	o.position(m.GetIndex(), m.GetExtraJson())
	nest(o, "message", m.GetMessage(), (*writer).message)
	o.optText("finish_reason", m.FinishReason)
	nest(o, "logprobs", m.GetLogprobs(), (*writer).logprobs)
	o.close(m.GetExtraJson())
}

func TestParseCompletion(t *testing.T) {
	t.Parallel()
	choice := func(c *genbusv1.ChatChoice) *genbusv1.ChatCompletion {
		return &genbusv1.ChatCompletion{Choices: []*genbusv1.ChatChoice{c}}
	}
	for name, test := range map[string]struct {
		raw  string
		want *genbusv1.ChatCompletion
	}{
		"documented": {
			`{"id":"c1","object":"chat.completion","created":1795216476,"model":"m","choices":[{"index":0,` +
				`"message":{"role":"assistant","content":"hi","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],` +
				`"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},` +
				`"completion_tokens_details":{"reasoning_tokens":1}},"service_tier":"default","system_fingerprint":null}`,
			&genbusv1.ChatCompletion{
				Id: "c1", Object: "chat.completion", Created: 1795216476, Model: "m", ServiceTier: proto.String("default"),
				Choices: []*genbusv1.ChatChoice{{
					Message: &genbusv1.ChatMessage{Role: "assistant", Content: text("hi"),
						ExtraJson: []byte(`{"refusal":null,"annotations":[]}`)},
					FinishReason: proto.String("stop"), ExtraJson: []byte(`{"logprobs":null}`),
				}},
				Usage: &genbusv1.Usage{
					PromptTokens: proto.Int64(1), CompletionTokens: proto.Int64(2), TotalTokens: proto.Int64(3),
					PromptTokensDetails:     &genbusv1.PromptTokensDetails{CachedTokens: proto.Int64(0), AudioTokens: proto.Int64(0)},
					CompletionTokensDetails: &genbusv1.CompletionTokensDetails{ReasoningTokens: proto.Int64(1)},
				},
				ExtraJson: []byte(`{"system_fingerprint":null}`),
			},
		},
		"empty":        {`{}`, &genbusv1.ChatCompletion{}},
		"no choices":   {`{"choices":[]}`, &genbusv1.ChatCompletion{}},
		"null choices": {`{"choices":null}`, &genbusv1.ChatCompletion{ExtraJson: []byte(`{"choices":null}`)}},
		"null usage":   {`{"usage":null}`, &genbusv1.ChatCompletion{ExtraJson: []byte(`{"usage":null}`)}},
		"content null with tool calls": {
			`{"choices":[{"index":1,"message":{"content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":""}},` +
				`{"type":"custom","custom":{"name":"x"}}]},"finish_reason":null}]}`,
			choice(&genbusv1.ChatChoice{Index: 1, ExtraJson: []byte(`{"finish_reason":null}`),
				Message: &genbusv1.ChatMessage{ExtraJson: []byte(`{"content":null}`), ToolCalls: []*genbusv1.ChatToolCall{
					{Id: "a", Type: "function", Function: &genbusv1.ChatFunctionCall{Name: proto.String("f"), Arguments: proto.String("")}},
					{Type: "custom", ExtraJson: []byte(`{"custom":{"name":"x"}}`)},
				}}}),
		},
		"content in parts": {
			`{"choices":[{"message":{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"thinking","thinking":"b"}]}}]}`,
			choice(&genbusv1.ChatChoice{Message: &genbusv1.ChatMessage{Role: "assistant", Content: parts(
				&genbusv1.ChatContentPart{Type: "text", Text: proto.String("a")},
				&genbusv1.ChatContentPart{Type: "thinking", ExtraJson: []byte(`{"thinking":"b"}`)})}}),
		},
		"content of mixed parts": {
			`{"choices":[{"message":{"content":[{"type":"text"},"b"]}}]}`,
			choice(&genbusv1.ChatChoice{Message: &genbusv1.ChatMessage{ExtraJson: []byte(`{"content":[{"type":"text"},"b"]}`)}}),
		},
		"reasoning": {
			`{"choices":[{"message":{"content":"","reasoning_content":"r","reasoning_details":[{"x":1.0}]},"native_finish_reason":"eos","finish_reason":""}]}`,
			choice(&genbusv1.ChatChoice{FinishReason: proto.String(""), ExtraJson: []byte(`{"native_finish_reason":"eos"}`),
				Message: &genbusv1.ChatMessage{Content: text(""), ReasoningContent: proto.String("r"),
					ExtraJson: []byte(`{"reasoning_details":[{"x":1.0}]}`)}}),
		},
		"logprobs": {
			`{"choices":[{"logprobs":{"content":[{"token":"h","logprob":-0.5,"bytes":[104,255],"top_logprobs":[{"token":"h","logprob":0,"bytes":null}]}],"refusal":null}}]}`,
			choice(&genbusv1.ChatChoice{Logprobs: &genbusv1.ChatLogprobs{ExtraJson: []byte(`{"refusal":null}`),
				Content: []*genbusv1.ChatTokenLogprob{{Token: "h", Logprob: -0.5, Bytes: []byte{104, 255},
					TopLogprobs: []*genbusv1.ChatTokenLogprob{{Token: "h", ExtraJson: []byte(`{"bytes":null}`)}}}}}}),
		},
		"wrong types": {
			`{"id":7,"created":1.5,"model":null,"choices":[{"index":"0","message":"x","finish_reason":{}}],"usage":[]}`,
			&genbusv1.ChatCompletion{ExtraJson: []byte(`{"id":7,"created":1.5,"model":null,"usage":[]}`),
				Choices: []*genbusv1.ChatChoice{{ExtraJson: []byte(`{"index":"0","message":"x","finish_reason":{}}`)}}},
		},
		"vendor usage": {
			`{"usage":{"prompt_tokens":12345678901234567890,"total_tokens":3.0,"cost":0.000120,"prompt_cache_hit_tokens":1,"prompt_tokens_details":null}}`,
			&genbusv1.ChatCompletion{Usage: &genbusv1.Usage{TotalTokens: proto.Int64(3), ExtraJson: []byte(
				`{"prompt_tokens":12345678901234567890,"cost":0.000120,"prompt_cache_hit_tokens":1,"prompt_tokens_details":null}`)}},
		},
		"a name twice": {`{"id":"a","id":"b"}`, &genbusv1.ChatCompletion{Id: "b"}},
		"half a pair":  {`{"id":"\ud83d!"}`, &genbusv1.ChatCompletion{Id: "\ufffd!"}},
		"stray byte":   {"{\"id\":\"a\xff\"}", &genbusv1.ChatCompletion{Id: "a\ufffd"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseCompletion([]byte(test.raw))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMessageText checks the text of every form of content.
func TestMessageText(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		`"hello"`: "hello",
		`null`:    "",
		`[]`:      "",
		`[{"type":"text","text":"hel"},{"type":"image_url","image_url":{"url":"u"}},{"type":"text","text":"lo"}]`: "hello",
	} {
		reply, err := ParseCompletion([]byte(`{"choices":[{"message":{"content":` + content + `}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := MessageText(reply.GetChoices()[0].GetMessage()); got != want {
			t.Errorf("%s is %q", content, got)
		}
	}
}

func TestParseChunk(t *testing.T) {
	t.Parallel()
	delta := func(m *genbusv1.ChatMessage, extra string) *genbusv1.ChatCompletionChunk {
		return &genbusv1.ChatCompletionChunk{Choices: []*genbusv1.ChatChunkChoice{{Delta: m, ExtraJson: []byte(extra)}}}
	}
	for name, test := range map[string]struct {
		raw  string
		want *genbusv1.ChatCompletionChunk
	}{
		"content": {deltaBlock, &genbusv1.ChatCompletionChunk{
			Id: "chatcmpl-9f3Ab7Qx", Object: "chat.completion.chunk", Created: 1795216476, Model: "sandbox-chat",
			ExtraJson: []byte(`{"system_fingerprint":null}`),
			Choices: []*genbusv1.ChatChunkChoice{{
				Delta: &genbusv1.ChatMessage{Content: text(" token")}, ExtraJson: []byte(`{"logprobs":null,"finish_reason":null}`)}}}},
		"role only":  {`{"choices":[{"delta":{"role":"assistant","content":""}}]}`, delta(&genbusv1.ChatMessage{Role: "assistant", Content: text("")}, "")},
		"null role":  {`{"choices":[{"delta":{"role":null,"content":null}}]}`, delta(&genbusv1.ChatMessage{ExtraJson: []byte(`{"role":null,"content":null}`)}, "")},
		"empty":      {`{"choices":[{"delta":{},"finish_reason":null}]}`, delta(&genbusv1.ChatMessage{}, `{"finish_reason":null}`)},
		"no delta":   {`{"choices":[{"text":"a"}]}`, delta(nil, `{"text":"a"}`)},
		"fragment":   {`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"","function":{"arguments":"{\"a"}}]}}]}`, delta(&genbusv1.ChatMessage{ToolCalls: []*genbusv1.ChatToolCall{{Index: proto.Int32(0), Function: &genbusv1.ChatFunctionCall{Arguments: proto.String(`{"a`)}, ExtraJson: []byte(`{"id":""}`)}}}, "")},
		"usage only": {`{"choices":[],"usage":{"total_tokens":9}}`, &genbusv1.ChatCompletionChunk{Usage: &genbusv1.Usage{TotalTokens: proto.Int64(9)}}},
		"filter":     {`{"choices":[],"prompt_filter_results":[{"prompt_index":0}],"usage":null}`, &genbusv1.ChatCompletionChunk{ExtraJson: []byte(`{"prompt_filter_results":[{"prompt_index":0}],"usage":null}`)}},
		"error": {`{"error":{"code":502,"message":"gone"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`,
			&genbusv1.ChatCompletionChunk{ExtraJson: []byte(`{"error":{"code":502,"message":"gone"}}`), Choices: []*genbusv1.ChatChunkChoice{{
				Delta: &genbusv1.ChatMessage{Content: text("")}, FinishReason: proto.String("error")}}}},
		"null error": {`{"error":null,"obfuscation":"xx"}`, &genbusv1.ChatCompletionChunk{ExtraJson: []byte(`{"error":null,"obfuscation":"xx"}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseChunk([]byte(test.raw))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParsersRefuseWhatIsNoObject(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{``, ` `, `null`, `[]`, `"x"`, `[DONE]`, `{"a":1`, `{}{}`, "<html>"} {
		if m, err := ParseCompletion([]byte(raw)); err == nil {
			t.Errorf("completion %q: got %v", raw, m)
		}
		if m, err := ParseChunk([]byte(raw)); err == nil {
			t.Errorf("chunk %q: got %v", raw, m)
		}
		if u := ParseUsage([]byte(raw)); u != nil {
			t.Errorf("usage %q: got %v", raw, u)
		}
	}
	if _, err := ParseChunk([]byte(`null`)); err.Error() != "chunk is null; it must be a JSON object" {
		t.Error(err)
	}
}

func TestChunkJSONWritesZerosThatClientsWaitFor(t *testing.T) {
	t.Parallel()
	got, err := ChunkJSON(&genbusv1.ChatCompletionChunk{Choices: []*genbusv1.ChatChunkChoice{{}, {
		Logprobs:  &genbusv1.ChatLogprobs{Content: []*genbusv1.ChatTokenLogprob{{Token: "a"}}},
		ExtraJson: []byte(`{"index":null}`),
	}}})
	want := `{"choices":[{"index":0},{"logprobs":{"content":[{"token":"a","logprob":0}]},"index":null}]}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	got, err = ChunkJSON(&genbusv1.ChatCompletionChunk{})
	if err != nil || string(got) != `{"choices":[]}` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestChunkJSONRefusesAMemberTwice(t *testing.T) {
	t.Parallel()
	want := `chunk.choices[0].delta.extra_json contains "role", which is also set as a typed field; set it once`
	_, err := ChunkJSON(&genbusv1.ChatCompletionChunk{Choices: []*genbusv1.ChatChunkChoice{{
		Delta: &genbusv1.ChatMessage{Role: "assistant", ExtraJson: []byte(`{"role":"x"}`)}}}})
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	if _, err := ChunkJSON(&genbusv1.ChatCompletionChunk{ExtraJson: []byte(`{"choices":1}`), Choices: []*genbusv1.ChatChunkChoice{{}}}); err == nil {
		t.Error("a chunk with choices twice is written")
	}
}

// TestParseMessages checks that all roles and forms of content are read, and that nothing else is.
func TestParseMessages(t *testing.T) {
	t.Parallel()
	got := ParseMessages([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"4"}]}`))
	if len(got) != 3 || MessageText(got[0]) != "hi" || got[1].GetToolCalls()[0].GetFunction().GetName() != "f" || got[2].GetToolCallId() != "c" {
		t.Errorf("%v", got)
	}
	for _, other := range []string{``, `[]`, `{"messages":`, `{}`, `{"messages":7}`, `{"messages":[7]}`} {
		if got := ParseMessages([]byte(other)); got != nil {
			t.Errorf("%s: %v", other, got)
		}
	}
}
