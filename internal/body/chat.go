package body

import (
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// Chat returns the JSON to send upstream for a request: raw_json byte for byte, or the typed body
// as JSON. It checks that the result is one JSON object; CheckChat checks its members. Errors are
// *FieldError.
func Chat(req *genbusv1.ChatRequest) (Document, error) {
	switch b := req.GetBody().(type) {
	case *genbusv1.ChatRequest_RawJson:
		return rawBody(b.RawJson)
	case *genbusv1.ChatRequest_Chat:
		if b.Chat == nil {
			return Document{}, Errorf("chat", "is missing")
		}
		w := writer{path: path{{"chat", single}}}
		w.chat(b.Chat)
		return w.body("chat")
	case *genbusv1.ChatRequest_Stored:
		return Document{}, storedError()
	default:
		return Document{}, Errorf("body", "is missing; set chat or raw_json")
	}
}

func (w *writer) chat(m *genbusv1.ChatCompletionBody) {
	o := w.open()
	o.text("model", m.GetModel())
	list(o, "messages", m.GetMessages(), (*writer).message)
	o.optBool("stream", m.Stream)
	o.optDouble("temperature", m.Temperature)
	o.optInt64("max_tokens", m.MaxTokens)
	o.optDouble("top_p", m.TopP)
	list(o, "tools", m.GetTools(), (*writer).tool)
	o.toolChoice(m.GetToolChoice())
	o.texts("stop", m.GetStop())
	nest(o, "response_format", m.GetResponseFormat(), (*writer).responseFormat)
	nest(o, "stream_options", m.GetStreamOptions(), (*writer).streamOptions)
	o.optText("reasoning_effort", m.ReasoningEffort)
	o.optInt64("max_completion_tokens", m.MaxCompletionTokens)
	o.optInt32("n", m.N)
	o.optInt64("seed", m.Seed)
	o.optDouble("presence_penalty", m.PresencePenalty)
	o.optDouble("frequency_penalty", m.FrequencyPenalty)
	o.optBool("logprobs", m.Logprobs)
	o.optInt32("top_logprobs", m.TopLogprobs)
	o.optBool("parallel_tool_calls", m.ParallelToolCalls)
	o.optText("user", m.User)
	o.optText("service_tier", m.ServiceTier)
	o.doubleDict("logit_bias", m.GetLogitBias())
	o.textDict("metadata", m.GetMetadata())
	o.optText("verbosity", m.Verbosity)
	o.close(m.GetExtraJson())
}
