package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
)

func chatParams(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: "sandbox-chat", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
}

// TestOpenAIGoChats proves that openai-go can use all its chat features with genbus.
func TestOpenAIGoChats(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{ChunkInterval: 1})
	c, sent := w.openAI()
	t.Run("tools are called, whole and streamed", func(t *testing.T) { checkTools(t, c) })
	t.Run("a stream ends with its usage where that is asked for", func(t *testing.T) { checkStreamUsage(t, c) })
	t.Run("pictures and unknown parameters reach the upstream", func(t *testing.T) { w.checkPassedOn(t, c) })
	t.Run("reasoning reaches the caller", func(t *testing.T) {
		params := chatParams("think")
		params.ReasoningEffort = shared.ReasoningEffortLow
		stream := c.Chat.Completions.NewStreaming(t.Context(), params)
		var reasoning strings.Builder
		for stream.Next() {
			for _, choice := range stream.Current().Choices {
				var piece string
				if field, ok := choice.Delta.JSON.ExtraFields["reasoning_content"]; ok && json.Unmarshal([]byte(field.Raw()), &piece) == nil {
					reasoning.WriteString(piece)
				}
			}
		}
		if err := stream.Err(); err != nil || reasoning.String() != "Counting the words of the last message." {
			t.Errorf("%q, %v", reasoning.String(), err)
		}
	})
	for _, row := range []struct {
		name, model, key, code string
		calls                  int64
	}{
		{"a refusal is not repeated", "sandbox-chat:status=400,code=bad_prompt", "", "bad_prompt", 1},
		{"the failed chat of a key is not asked for again", "sandbox-chat:status=503,code=overloaded", "final", "upstream_unavailable", 1},
		// Keep this row last: genbus does not use the upstream key for that second either.
		{"a busy upstream is asked again when it said", "sandbox-chat:status=429,retry_after=1", "", "rate_limited", 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			params, opts := chatParams("hi"), []option.RequestOption{option.WithMaxRetries(1)}
			params.Model = row.model
			if row.key != "" {
				opts = append(opts, option.WithHeader("Idempotency-Key", row.key))
			}
			before := sent.Load()
			_, err := c.Chat.Completions.New(t.Context(), params, opts...)
			var e *openai.Error
			if !errors.As(err, &e) || e.Code != row.code || sent.Load()-before != row.calls {
				t.Errorf("%v after %d calls, want %s after %d", err, sent.Load()-before, row.code, row.calls)
			}
		})
	}
}

func checkTools(t *testing.T, c openai.Client) {
	params := chatParams("use the tool on these words")
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "count", Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{"words": map[string]any{"type": "integer"}}},
	})}
	whole, err := c.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	choice := whole.Choices[0]
	if choice.FinishReason != "tool_calls" || len(choice.Message.ToolCalls) != 1 || choice.Message.ToolCalls[0].Function.Name != "count" {
		t.Fatalf("%s", whole.RawJSON())
	}
	stream := c.Chat.Completions.NewStreaming(t.Context(), params)
	var all openai.ChatCompletionAccumulator
	for stream.Next() {
		all.AddChunk(stream.Current())
	}
	if stream.Err() != nil || len(all.Choices) != 1 || len(all.Choices[0].Message.ToolCalls) != 1 ||
		all.Choices[0].Message.ToolCalls[0].Function.Arguments != choice.Message.ToolCalls[0].Function.Arguments {
		t.Errorf("streamed %+v, %v", all.Choices, stream.Err())
	}
	// Send the result of the tool, so that the model continues.
	params.Messages = append(params.Messages, choice.Message.ToParam(), openai.ToolMessage("6", choice.Message.ToolCalls[0].ID))
	if next, err := c.Chat.Completions.New(t.Context(), params); err != nil || next.Choices[0].FinishReason != "stop" {
		t.Errorf("after the tool: %v, %v", next, err)
	}
}

func checkStreamUsage(t *testing.T, c openai.Client) {
	for _, asked := range []bool{true, false} {
		params := chatParams("how much")
		if asked {
			params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
		}
		stream := c.Chat.Completions.NewStreaming(t.Context(), params)
		var last openai.ChatCompletionChunk
		for stream.Next() {
			last = stream.Current()
		}
		if err := stream.Err(); err != nil || (last.Usage.TotalTokens > 0) != asked || (len(last.Choices) == 0) != asked {
			t.Errorf("asked %t: the last chunk is %s, %v", asked, last.RawJSON(), err)
		}
	}
}

// checkPassedOn proves that the upstream receives fields that genbus does not know.
func (w clientWorld) checkPassedOn(t *testing.T, c openai.Client) {
	bodies := make(chan []byte, 4)
	w.up.Sandbox.SetBehaviour(func(r *http.Request, body []byte) *sandbox.Behaviour {
		if r.Method == http.MethodPost {
			bodies <- bytes.Clone(body)
		}
		return nil
	})
	defer w.up.Sandbox.SetBehaviour(nil)
	params := openai.ChatCompletionNewParams{
		Model: "sandbox-chat", ReasoningEffort: shared.ReasoningEffortHigh,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
			openai.TextContentPart("what is this?"),
			openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64,aGk=", Detail: "low"}),
		})},
		ResponseFormat: openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Schema: map[string]any{"type": "object"}},
		}},
	}
	_, err := c.Chat.Completions.New(t.Context(), params,
		option.WithJSONSet("top_k", 40), option.WithJSONSet("enable_thinking", true), option.WithJSONSet("provider", map[string]any{"order": []string{"a", "b"}}))
	if err != nil {
		t.Fatal(err)
	}
	checkArrived(t, <-bodies, `{"model":"sandbox-chat","reasoning_effort":"high","top_k":40,"enable_thinking":true,"provider":{"order":["a","b"]},
		"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"}}},
		"messages":[{"role":"user","content":[{"type":"text","text":"what is this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk=","detail":"low"}}]}]}`)

	text, effort := "hi", "high"
	_, err = genbusv1grpc.NewChatServiceClient(w.grpc).CreateChatCompletion(t.Context(), &genbusv1.CreateChatCompletionRequest{
		Request: &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Chat{Chat: &genbusv1.ChatCompletionBody{
			Model: "sandbox-chat", ReasoningEffort: &effort, ExtraJson: []byte(`{"top_k":40,"thinking":{"type":"enabled","budget":12345678901234567890}}`),
			Messages: []*genbusv1.ChatMessage{{Role: "user", Content: &genbusv1.ChatMessage_Parts{Parts: &genbusv1.ChatContentParts{Parts: []*genbusv1.ChatContentPart{
				{Type: "text", Text: &text, ExtraJson: []byte(`{"cache_control":{"type":"ephemeral"}}`)},
				{Type: "image_url", ImageUrl: &genbusv1.ChatImageUrl{Url: "https://x/a.png"}},
				{Type: "video_url", ExtraJson: []byte(`{"video_url":{"url":"https://x/a.mp4"}}`)},
			}}}}},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	checkArrived(t, <-bodies, `{"model":"sandbox-chat","reasoning_effort":"high","top_k":40,"thinking":{"type":"enabled","budget":12345678901234567890},
		"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}},
			{"type":"image_url","image_url":{"url":"https://x/a.png"}},{"type":"video_url","video_url":{"url":"https://x/a.mp4"}}]}]}`)
}

// checkArrived compares JSON values and keeps the spelling of numbers.
func checkArrived(t *testing.T, got []byte, want string) {
	t.Helper()
	if diff := cmp.Diff(jsonValue(t, []byte(want)), jsonValue(t, got)); diff != "" {
		t.Errorf("the upstream got (-want +got):\n%s", diff)
	}
}

func jsonValue(t *testing.T, raw []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

// Answers of vendorChat. They contain members that OpenAI does not define, in the reply, in its
// message and in every stream block.
const (
	vendorReply = `{"id":"c1","object":"chat.completion","created":1,"model":"vendor-chat","x_groq":{"id":"req_1","n":12345678901234567890},` +
		`"choices":[{"index":0,"message":{"role":"assistant","content":"hi","reasoning_content":"hm","mood":"calm"},"finish_reason":"stop","native_finish_reason":"eos"}],` +
		`"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"cost":0.10}}`
	vendorBlock = `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"vendor-chat","x_groq":{"id":"req_1"},` +
		`"choices":[{"index":0,"delta":{"role":"assistant","content":"hi","reasoning_content":"hm","mood":"calm"},"finish_reason":null}]}`
	vendorEnd = `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"vendor-chat",` +
		`"choices":[{"index":0,"delta":{},"finish_reason":"stop","native_finish_reason":"eos"}],"x_groq":{"usage":{"queue_time":0.02}}}`
)

// vendorChat answers every chat with vendorReply, or with vendorBlock and vendorEnd if streamed.
func vendorChat(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var request struct {
		Stream bool `json:"stream"`
	}
	if err := json.Unmarshal(raw, &request); err != nil || !request.Stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, vendorReply)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "data: "+vendorBlock+"\n\ndata: "+vendorEnd+"\n\ndata: [DONE]\n\n")
}

// TestVendorFieldsOfChatsReachEveryReader proves that vendor fields arrive unchanged over HTTP, as
// extra_json over gRPC, and in events.
func TestVendorFieldsOfChatsReachEveryReader(t *testing.T) {
	t.Parallel()
	vendor := httptest.NewServer(http.HandlerFunc(vendorChat))
	t.Cleanup(vendor.Close)
	w := newClientWorld(t, sandbox.Options{}, func(c *config.Config) {
		c.Upstreams["vendor"] = config.NewUpstream(vendor.URL)
		c.Routes = append(c.Routes, config.NewRoute("vendor", config.KindChat, "vendor", "vendor-chat"))
	})
	const body, streamed = `{"model":"vendor-chat","messages":[{"role":"user","content":"hi"}]}`, `{"model":"vendor-chat","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	t.Run("HTTP, whole", func(t *testing.T) {
		if got := w.postText(t, body); got != vendorReply {
			t.Errorf("got %s", got)
		}
	})
	t.Run("HTTP, streamed", func(t *testing.T) {
		if got := w.postText(t, streamed); got != "data: "+vendorBlock+"\n\ndata: "+vendorEnd+"\n\ndata: [DONE]\n\n" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("openai-go", func(t *testing.T) {
		c, _ := w.openAI()
		params := chatParams("hi")
		params.Model = "vendor-chat"
		whole, err := c.Chat.Completions.New(t.Context(), params)
		if err != nil || whole.JSON.ExtraFields["x_groq"].Raw() != `{"id":"req_1","n":12345678901234567890}` || whole.Choices[0].Message.JSON.ExtraFields["reasoning_content"].Raw() != `"hm"` {
			t.Errorf("%+v, %v", whole, err)
		}
	})
	t.Run("gRPC, whole", func(t *testing.T) {
		r, err := genbusv1grpc.NewChatServiceClient(w.grpc).CreateChatCompletion(t.Context(), &genbusv1.CreateChatCompletionRequest{Request: rawChat(body)})
		if err != nil || string(r.GetRawJson()) != vendorReply {
			t.Fatalf("%s, %v", r.GetRawJson(), err)
		}
		choice := r.GetCompletion().GetChoices()[0]
		got := []string{string(r.GetCompletion().GetExtraJson()), string(choice.GetExtraJson()), string(choice.GetMessage().GetExtraJson()),
			choice.GetMessage().GetReasoningContent(), string(r.GetCompletion().GetUsage().GetExtraJson())}
		want := []string{`{"x_groq":{"id":"req_1","n":12345678901234567890}}`, `{"native_finish_reason":"eos"}`, `{"mood":"calm"}`, "hm", `{"cost":0.10}`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("gRPC, streamed", func(t *testing.T) {
		stream, err := genbusv1grpc.NewChatServiceClient(w.grpc).StreamChatCompletion(t.Context(), &genbusv1.StreamChatCompletionRequest{Request: rawChat(streamed)})
		if err != nil {
			t.Fatal(err)
		}
		first, err := stream.Recv()
		if err != nil || string(first.GetRawJson()) != vendorBlock || string(first.GetChunk().GetExtraJson()) != `{"x_groq":{"id":"req_1"}}` ||
			first.GetChunk().GetChoices()[0].GetDelta().GetReasoningContent() != "hm" || string(first.GetChunk().GetChoices()[0].GetDelta().GetExtraJson()) != `{"mood":"calm"}` {
			t.Errorf("%v, %v", first, err)
		}
	})
	t.Run("events of a queued chat", func(t *testing.T) { w.checkVendorEvents(t, streamed) })
}

func rawChat(body string) *genbusv1.ChatRequest {
	return &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_RawJson{RawJson: []byte(body)}}
}

// postText posts a chat and returns the raw answer.
func (w *world) postText(t *testing.T, body string) string {
	t.Helper()
	resp, err := http.Post(w.base+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// checkVendorEvents checks the feed and the chunks of a queued chat: blocks are unchanged, and the
// complete reply contains the vendor's members.
func (w *world) checkVendorEvents(t *testing.T, body string) {
	id := w.call(t, subject.Chat, body)
	feed, err := w.js.OrderedConsumer(t.Context(), w.Names().Tasks(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{w.Names().Done(subject.Chat, "default", "completed", id)},
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := feed.Next()
	if err != nil {
		t.Fatal(err)
	}
	e, err := publisher.DecodeEvent(subject.Chat, m.Headers(), m.Data())
	if err != nil {
		t.Fatal(err)
	}
	chat, _ := e.Job.(*genbusv1.Chat)
	for _, member := range []string{`"x_groq"`, `"reasoning_content":"hm"`, `"mood":"calm"`, `"native_finish_reason":"eos"`} {
		if !strings.Contains(string(chat.GetReplyJson()), member) {
			t.Errorf("%s is not in the reply %s", member, chat.GetReplyJson())
		}
	}
	var blocks []string
	stream, err := genbusv1grpc.NewChatServiceClient(w.grpc).WatchChatCompletion(t.Context(), &genbusv1.WatchChatCompletionRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	for {
		r, err := stream.Recv()
		if err != nil {
			if !isEnd(err) {
				t.Error(err)
			}
			break
		}
		for _, b := range r.GetChunk().GetBlocks() {
			blocks = append(blocks, string(b))
		}
	}
	if diff := cmp.Diff([]string{vendorBlock, vendorEnd}, blocks); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
}
