package body

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

func typedChat(m *genbusv1.ChatCompletionBody) *genbusv1.ChatRequest {
	return &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Chat{Chat: m}}
}

func rawChat(raw string) *genbusv1.ChatRequest {
	return &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_RawJson{RawJson: []byte(raw)}}
}

func text(s string) *genbusv1.ChatMessage_Text { return &genbusv1.ChatMessage_Text{Text: s} }

func parts(list ...*genbusv1.ChatContentPart) *genbusv1.ChatMessage_Parts {
	return &genbusv1.ChatMessage_Parts{Parts: &genbusv1.ChatContentParts{Parts: list}}
}

// fullChat returns a chat with every typed field, and extra members at every level.
func fullChat() *genbusv1.ChatCompletionBody {
	extra := []byte(`{"x":12345678901234567890}`)
	return &genbusv1.ChatCompletionBody{
		Model: "m",
		Messages: []*genbusv1.ChatMessage{
			{Role: "system", Content: text("be <brief> & \"kind\""), Name: proto.String("n")},
			{Role: "user", ExtraJson: extra, Content: parts(
				&genbusv1.ChatContentPart{Type: "text", Text: proto.String(""), ExtraJson: extra},
				&genbusv1.ChatContentPart{Type: "image_url", ImageUrl: &genbusv1.ChatImageUrl{Url: "u", Detail: proto.String("low"), ExtraJson: extra}},
				&genbusv1.ChatContentPart{Type: "input_audio", InputAudio: &genbusv1.ChatInputAudio{Data: "d", Format: "wav"}},
				&genbusv1.ChatContentPart{Type: "file", File: &genbusv1.ChatFile{
					Filename: proto.String("f"), FileData: proto.String("d"), FileId: proto.String("i")}},
				&genbusv1.ChatContentPart{Type: "refusal", Refusal: proto.String("no")},
			)},
			{Role: "assistant", Refusal: proto.String(""), ReasoningContent: proto.String("hm"), ToolCalls: []*genbusv1.ChatToolCall{{
				Id: "c", Type: "function", Index: proto.Int32(0), ExtraJson: extra,
				Function: &genbusv1.ChatFunctionCall{Name: proto.String("f"), Arguments: proto.String("{}"), ExtraJson: extra},
			}}},
			{Role: "tool", ToolCallId: proto.String("c"), Content: text("")},
			{Role: "user", Content: parts()},
		},
		Stream: proto.Bool(false), Temperature: proto.Float64(0), MaxTokens: proto.Int64(math.MaxInt64), TopP: proto.Float64(0.1),
		Tools: []*genbusv1.ChatTool{
			{Type: "function", Function: &genbusv1.ChatFunction{
				Name: "f", Description: proto.String("d"), ParametersJson: []byte(` {"a" : 1.0}`), Strict: proto.Bool(true), ExtraJson: extra}},
			{Type: "custom", ExtraJson: []byte(`{"custom":{"name":"c"}}`)},
		},
		ToolChoice: &genbusv1.ChatToolChoice{Choice: &genbusv1.ChatToolChoice_Function{Function: "f"}},
		Stop:       []string{"a", ""},
		ResponseFormat: &genbusv1.ChatResponseFormat{Type: "json_schema", JsonSchema: &genbusv1.ChatJsonSchema{
			Name: "s", SchemaJson: []byte(`{}`), Strict: proto.Bool(false), Description: proto.String("d")}},
		StreamOptions:   &genbusv1.ChatStreamOptions{IncludeUsage: proto.Bool(true), ExtraJson: []byte(`{"include_obfuscation":false}`)},
		ReasoningEffort: proto.String("low"), MaxCompletionTokens: proto.Int64(1), N: proto.Int32(2), Seed: proto.Int64(-1),
		PresencePenalty: proto.Float64(-2), FrequencyPenalty: proto.Float64(1e21), Logprobs: proto.Bool(true), TopLogprobs: proto.Int32(0),
		ParallelToolCalls: proto.Bool(false), User: proto.String("u"), ServiceTier: proto.String("auto"),
		LogitBias: map[string]float64{"9": -100, "10": 0.5}, Metadata: map[string]string{"b": "2", "a": "1"},
		Verbosity: proto.String("low"), ExtraJson: []byte(` { "top_k" : 40.0, "extra_body":{"a":[1e400]}} `),
	}
}

const fullChatJSON = `{"model":"m","messages":[` +
	`{"role":"system","content":"be <brief> & \"kind\"","name":"n"},` +
	`{"role":"user","content":[{"type":"text","text":"","x":12345678901234567890},` +
	`{"type":"image_url","image_url":{"url":"u","detail":"low","x":12345678901234567890}},` +
	`{"type":"input_audio","input_audio":{"data":"d","format":"wav"}},` +
	`{"type":"file","file":{"filename":"f","file_data":"d","file_id":"i"}},{"type":"refusal","refusal":"no"}],"x":12345678901234567890},` +
	`{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}","x":12345678901234567890},` +
	`"index":0,"x":12345678901234567890}],"refusal":"","reasoning_content":"hm"},` +
	`{"role":"tool","content":"","tool_call_id":"c"},{"role":"user","content":[]}],` +
	`"stream":false,"temperature":0,"max_tokens":9223372036854775807,"top_p":0.1,` +
	`"tools":[{"type":"function","function":{"name":"f","description":"d","parameters": {"a" : 1.0},"strict":true,"x":12345678901234567890}},` +
	`{"type":"custom","custom":{"name":"c"}}],"tool_choice":{"type":"function","function":{"name":"f"}},"stop":["a",""],` +
	`"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{},"strict":false,"description":"d"}},` +
	`"stream_options":{"include_usage":true,"include_obfuscation":false},"reasoning_effort":"low","max_completion_tokens":1,"n":2,` +
	`"seed":-1,"presence_penalty":-2,"frequency_penalty":1e+21,"logprobs":true,"top_logprobs":0,"parallel_tool_calls":false,` +
	`"user":"u","service_tier":"auto","logit_bias":{"10":0.5,"9":-100},"metadata":{"a":"1","b":"2"},"verbosity":"low",` +
	`"top_k":40.0,"extra_body":{"a":[1e400]}}`

func TestChatTyped(t *testing.T) {
	t.Parallel()
	got, err := chatText(typedChat(fullChat()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fullChatJSON, string(got)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if v := checkChat(got); v != nil {
		t.Errorf("the body is judged wrong: %v", v)
	}
}

func TestChatTypedCoversTheContract(t *testing.T) {
	t.Parallel()
	fields := fullChat().ProtoReflect()
	for i := range fields.Descriptor().Fields().Len() {
		if f := fields.Descriptor().Fields().Get(i); !fields.Has(f) {
			t.Errorf("fullChat leaves %s out, so no test writes it", f.Name())
		}
	}
	parsed, err := parseChat([]byte(fullChatJSON))
	if err != nil {
		t.Fatal(err)
	}
	want := fullChat()
	want.Tools[0].Function.ParametersJson = []byte(`{"a" : 1.0}`)
	want.ExtraJson = []byte(`{"top_k":40.0,"extra_body":{"a":[1e400]}}`)
	if diff := cmp.Diff(want, parsed, protocmp.Transform()); diff != "" {
		t.Errorf("parsed (-want +got):\n%s", diff)
	}
}

func TestChatRawIsByteForByte(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{}`, " {\n\t\"model\" : \"m\", \"n\":1.0 }\r\n", `{"a":12345678901234567890,"b":1E400,"c":"\u00e9\/"}`,
		`{"half":"\ud83d"}`, `{"a":{"b":1},"c":{"b":1}}`,
		`{"deep":` + strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1) + `}`,
	} {
		got, err := chatText(rawChat(raw))
		if err != nil || string(got) != raw {
			t.Errorf("%.60s: got %.60s, %v", raw, got, err)
		}
	}
}

func TestChatRawRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ raw, want string }{
		{``, "raw_json is empty; it must be JSON"},
		{`[]`, "raw_json is an array; it must be a JSON object"},
		{`null`, "raw_json is null; it must be a JSON object"},
		{`"{}"`, "raw_json is a string; it must be a JSON object"},
		{`7`, "raw_json is a number; it must be a JSON object"},
		{`{`, "raw_json is not valid JSON: it ends too early"},
		{" \n", "raw_json is not valid JSON: it ends too early"},
		{`{"a":secret}`, "raw_json is not valid JSON: syntax error near byte 5"},
		{`{} {}`, "raw_json has more than one JSON value: text follows at byte 2"},
		{`{}x`, "raw_json has more than one JSON value: text follows at byte 2"},
		{"\ufeff{}", "raw_json is not valid JSON: syntax error near byte 0"},
		{"{\"a\":\"\xff\"}", "raw_json is not valid UTF-8"},
		{`{"secret":1,"secret":2}`, "raw_json has a duplicate member in an object, before byte 11"},
		{`{"a":1,"\u0061":2}`, "raw_json has a duplicate member in an object, before byte 6"},
		{`{"deep":` + strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth) + `}`, "raw_json is nested deeper than 200 levels"},
		{`{"deep":` + strings.Repeat("[", 20_000), "raw_json is not valid JSON: syntax error near byte 10007"},
	} {
		_, err := chatText(rawChat(test.raw))
		if err == nil || err.Error() != test.want {
			t.Errorf("%.60q:\n got %v\nwant %s", test.raw, err, test.want)
		}
		var field *FieldError
		if !errors.As(err, &field) {
			t.Errorf("%.60q: %T is no *FieldError", test.raw, err)
		}
	}
}

func TestChatRefused(t *testing.T) {
	t.Parallel()
	message := func(m *genbusv1.ChatMessage) *genbusv1.ChatCompletionBody {
		return &genbusv1.ChatCompletionBody{Messages: []*genbusv1.ChatMessage{{}, {}, m}}
	}
	deep := func(n int) []byte {
		return []byte(`{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`)
	}
	for name, test := range map[string]struct {
		req  *genbusv1.ChatRequest
		want string
	}{
		"nil":     {nil, "body is missing; set chat or raw_json"},
		"no body": {&genbusv1.ChatRequest{}, "body is missing; set chat or raw_json"},
		"no chat": {typedChat(nil), "chat is missing"},
		"stored":  {&genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Stored{}}, "stored works only in NATS messages; send the request itself"},
		"NaN": {typedChat(&genbusv1.ChatCompletionBody{Temperature: proto.Float64(math.NaN())}),
			"chat.temperature is not a finite number, which JSON requires"},
		"Inf": {typedChat(&genbusv1.ChatCompletionBody{TopP: proto.Float64(math.Inf(-1))}),
			"chat.top_p is not a finite number, which JSON requires"},
		"NaN in a map": {typedChat(&genbusv1.ChatCompletionBody{LogitBias: map[string]float64{"1": math.NaN()}}),
			"chat.logit_bias contains a number that is not finite, which JSON cannot represent"},
		"typed and extra": {typedChat(&genbusv1.ChatCompletionBody{Model: "m", ExtraJson: []byte(`{"model":"x"}`)}),
			`chat.extra_json contains "model", which is also set as a typed field; set it once`},
		"typed and extra, escaped": {typedChat(&genbusv1.ChatCompletionBody{Model: "m", ExtraJson: []byte(`{"m\u006fdel":"x"}`)}),
			`chat.extra_json contains "model", which is also set as a typed field; set it once`},
		"typed and extra in a message": {typedChat(message(&genbusv1.ChatMessage{Content: text("a"), ExtraJson: []byte(`{"content":1}`)})),
			`chat.messages[2].extra_json contains "content", which is also set as a typed field; set it once`},
		"extra is an array": {typedChat(&genbusv1.ChatCompletionBody{ExtraJson: []byte(`[]`)}),
			"chat.extra_json is an array; it must be a JSON object"},
		"extra of a part": {typedChat(message(&genbusv1.ChatMessage{Content: parts(&genbusv1.ChatContentPart{ExtraJson: []byte(`{`)})})),
			"chat.messages[2].parts[0].extra_json is not valid JSON: it ends too early"},
		"extra of a called function": {typedChat(message(&genbusv1.ChatMessage{ToolCalls: []*genbusv1.ChatToolCall{{
			Function: &genbusv1.ChatFunctionCall{ExtraJson: []byte(`{"a":1,"a":1}`)}}}})),
			"chat.messages[2].tool_calls[0].function.extra_json has a duplicate member in an object, before byte 6"},
		"parameters": {typedChat(&genbusv1.ChatCompletionBody{Tools: []*genbusv1.ChatTool{{Function: &genbusv1.ChatFunction{ParametersJson: []byte("7")}}}}),
			"chat.tools[0].function.parameters_json is a number; it must be a JSON object"},
		"tool choice": {typedChat(&genbusv1.ChatCompletionBody{ToolChoice: &genbusv1.ChatToolChoice{
			Choice: &genbusv1.ChatToolChoice_RawJson{RawJson: []byte(`"auto"`)}}}),
			"chat.tool_choice.raw_json is a string; it must be a JSON object"},
		"not UTF-8": {typedChat(&genbusv1.ChatCompletionBody{User: proto.String("\xff")}), "chat.user is not valid UTF-8"},
		"too deep together": {typedChat(message(&genbusv1.ChatMessage{ExtraJson: deep(MaxDepth - 1)})),
			"chat is nested deeper than 200 levels"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := chatText(test.req)
			if err == nil || err.Error() != test.want {
				t.Errorf("\n got %v\nwant %s", err, test.want)
			}
		})
	}
}

// TestChatExplicitNullByExtra checks that extra_json may hold the name of an unset typed field,
// which is how clients send an explicit null.
func TestChatExplicitNullByExtra(t *testing.T) {
	t.Parallel()
	got, err := chatText(typedChat(&genbusv1.ChatCompletionBody{
		Model: "m", ExtraJson: []byte(`{"stop":null}`),
		Messages: []*genbusv1.ChatMessage{{Role: "assistant", ExtraJson: []byte(`{"content":null}`)}, nil},
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"model":"m","messages":[{"role":"assistant","content":null},{}],"stop":null}`
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestParseChatKeepsWhatIsNotTyped(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		body string
		want *genbusv1.ChatCompletionBody
	}{
		{`{"stop":"x","n":"2","seed":18446744073709551615,"temperature":0.10000000000000000001,"messages":[1],"tools":[]}`,
			&genbusv1.ChatCompletionBody{ExtraJson: []byte(
				`{"stop":"x","n":"2","seed":18446744073709551615,"temperature":0.10000000000000000001,"messages":[1],"tools":[]}`)}},
		{`{"tool_choice":"required","metadata":{"a":1},"logit_bias":{"1":2.50}}`,
			&genbusv1.ChatCompletionBody{
				ToolChoice: &genbusv1.ChatToolChoice{Choice: &genbusv1.ChatToolChoice_Mode{Mode: "required"}},
				LogitBias:  map[string]float64{"1": 2.5}, ExtraJson: []byte(`{"metadata":{"a":1}}`)}},
		{`{"tool_choice":{"type":"function","function":{"name":"f","x":1}}}`,
			&genbusv1.ChatCompletionBody{ToolChoice: &genbusv1.ChatToolChoice{
				Choice: &genbusv1.ChatToolChoice_RawJson{RawJson: []byte(`{"type":"function","function":{"name":"f","x":1}}`)}}}},
		{`{"m\u006fdel":"\ud83d\ude00","user":"half \ud83d"}`,
			&genbusv1.ChatCompletionBody{Model: "😀", User: proto.String("half \ufffd")}},
		{`{"max_tokens":1e3,"n":2.0}`, &genbusv1.ChatCompletionBody{MaxTokens: proto.Int64(1000), N: proto.Int32(2)}},
		{`{"max_tokens":1.5,"n":2147483648}`, &genbusv1.ChatCompletionBody{ExtraJson: []byte(`{"max_tokens":1.5,"n":2147483648}`)}},
	} {
		got, err := parseChat([]byte(test.body))
		if err != nil {
			t.Errorf("%s: %v", test.body, err)
			continue
		}
		if diff := cmp.Diff(test.want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.body, diff)
		}
	}
}
