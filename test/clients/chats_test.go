package clients_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/sandbox"
)

func chatParams(model, text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
}

// TestOpenAIGoChats proves that openai-go can use all its chat features with genbus.
func TestOpenAIGoChats(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sandbox.Options{ChunkInterval: 1}, nil)
	c, sent := w.openAI()
	t.Run("tools are called, whole and streamed", func(t *testing.T) { checkTools(t, c) })
	t.Run("a stream ends with its usage where that is asked for", func(t *testing.T) { checkStreamUsage(t, c) })
	t.Run("pictures and unknown parameters reach the upstream", func(t *testing.T) { w.checkPassedOn(t, c) })
	t.Run("reasoning reaches the caller", func(t *testing.T) {
		params := chatParams("sandbox-chat", "think")
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
			params, opts := chatParams(row.model, "hi"), []option.RequestOption{option.WithMaxRetries(1)}
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
	params := chatParams("sandbox-chat", "use the tool on these words")
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
		params := chatParams("sandbox-chat", "how much")
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
func (w world) checkPassedOn(t *testing.T, c openai.Client) {
	requests := w.creates(t)
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
	checkArrived(t, (<-requests).body, `{"model":"sandbox-chat","reasoning_effort":"high","top_k":40,"enable_thinking":true,"provider":{"order":["a","b"]},
		"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"}}},
		"messages":[{"role":"user","content":[{"type":"text","text":"what is this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk=","detail":"low"}}]}]}`)

	conn, err := grpc.NewClient(w.GRPCAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the call has ended
	text, effort := "hi", "high"
	_, err = genbusv1grpc.NewChatServiceClient(conn).CreateChatCompletion(t.Context(), &genbusv1.CreateChatCompletionRequest{
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
	checkArrived(t, (<-requests).body, `{"model":"sandbox-chat","reasoning_effort":"high","top_k":40,"thinking":{"type":"enabled","budget":12345678901234567890},
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
