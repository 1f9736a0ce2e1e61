package body

import (
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// Chat gives the upstream's JSON for a request: raw_json byte for byte, or the
// typed body written out. It checks that the result can be one JSON object, not
// its members; CheckChat does. Errors are *FieldError.
func Chat(req *genbusv1.ChatRequest) (Document, error) {
	switch b := req.GetBody().(type) {
	case *genbusv1.ChatRequest_RawJson:
		return rawBody(b.RawJson)
	case *genbusv1.ChatRequest_Chat:
		if b.Chat == nil {
			return Document{}, fieldError("chat", "is missing")
		}
		w := writer{path: path{{"chat", single}}}
		w.chat(b.Chat)
		return w.body("chat")
	case *genbusv1.ChatRequest_Stored:
		return Document{}, storedError()
	default:
		return Document{}, fieldError("body", "is missing; set chat or raw_json")
	}
}

// ParseChatRequest is the inverse of Chat for a typed body: what the fields
// cannot express is in extra_json at its level. Errors are *FieldError.
func ParseChatRequest(body []byte) (*genbusv1.ChatCompletionBody, error) {
	if err := checkRequest(body); err != nil {
		return nil, fieldErrorOf("", err)
	}
	m := new(genbusv1.ChatCompletionBody)
	readChat(newCursor(body), m)
	return m, nil
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

func readChat(c *cursor, m *genbusv1.ChatCompletionBody) {
	c.object(&m.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "model":
			return c.text(&m.Model)
		case "messages":
			return some(c, &m.Messages, readMessage)
		case "stream":
			return c.optBool(&m.Stream)
		case "temperature":
			return c.optDouble(&m.Temperature)
		case "max_tokens":
			return c.optInt64(&m.MaxTokens)
		case "top_p":
			return c.optDouble(&m.TopP)
		case "tools":
			return some(c, &m.Tools, readTool)
		case "tool_choice":
			return readToolChoice(c, &m.ToolChoice)
		case "stop":
			return c.texts(&m.Stop)
		case "response_format":
			return one(c, &m.ResponseFormat, readResponseFormat)
		case "stream_options":
			return one(c, &m.StreamOptions, readStreamOptions)
		default:
			return readChatOption(c, m, string(name))
		}
	})
}

// readChatOption reads the members of the body that are single values.
func readChatOption(c *cursor, m *genbusv1.ChatCompletionBody, name string) bool {
	switch name {
	case "reasoning_effort":
		return c.optText(&m.ReasoningEffort)
	case "max_completion_tokens":
		return c.optInt64(&m.MaxCompletionTokens)
	case "n":
		return c.optInt32(&m.N)
	case "seed":
		return c.optInt64(&m.Seed)
	case "presence_penalty":
		return c.optDouble(&m.PresencePenalty)
	case "frequency_penalty":
		return c.optDouble(&m.FrequencyPenalty)
	case "logprobs":
		return c.optBool(&m.Logprobs)
	case "top_logprobs":
		return c.optInt32(&m.TopLogprobs)
	case "parallel_tool_calls":
		return c.optBool(&m.ParallelToolCalls)
	case "user":
		return c.optText(&m.User)
	case "service_tier":
		return c.optText(&m.ServiceTier)
	case "logit_bias":
		return dict(c, &m.LogitBias, (*cursor).double)
	case "metadata":
		return dict(c, &m.Metadata, anyText)
	case "verbosity":
		return c.optText(&m.Verbosity)
	}
	return false
}
