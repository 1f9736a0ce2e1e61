package body

import (
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

func (w *writer) message(m *genbusv1.ChatMessage) {
	o := w.open()
	o.text("role", m.GetRole())
	switch content := m.GetContent().(type) {
	case *genbusv1.ChatMessage_Text:
		o.always("content", content.Text)
	case *genbusv1.ChatMessage_Parts:
		array(o, "content", "parts", content.Parts.GetParts(), (*writer).part)
	}
	o.optText("name", m.Name)
	list(o, "tool_calls", m.GetToolCalls(), (*writer).toolCall)
	o.optText("tool_call_id", m.ToolCallId)
	o.optText("refusal", m.Refusal)
	o.optText("reasoning_content", m.ReasoningContent)
	o.close(m.GetExtraJson())
}

func readMessage(c *cursor, m *genbusv1.ChatMessage) {
	c.object(&m.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "role":
			return c.text(&m.Role)
		case "content":
			return readContent(c, m)
		case "name":
			return c.optText(&m.Name)
		case "tool_calls":
			return some(c, &m.ToolCalls, readToolCall)
		case "tool_call_id":
			return c.optText(&m.ToolCallId)
		case "refusal":
			return c.optText(&m.Refusal)
		case "reasoning_content":
			return c.optText(&m.ReasoningContent)
		}
		return false
	})
}

// MessageText returns the text of a message or of a streamed delta, joining its parts.
func MessageText(m *genbusv1.ChatMessage) string {
	text := m.GetText()
	for _, part := range m.GetParts().GetParts() {
		text += part.GetText()
	}
	return text
}

func readContent(c *cursor, m *genbusv1.ChatMessage) bool {
	if c.Peek() == '"' {
		m.Content = &genbusv1.ChatMessage_Text{Text: wordOf(c.Value())}
		return true
	}
	var parts []*genbusv1.ChatContentPart
	if !many(c, &parts, readPart) {
		return false
	}
	m.Content = &genbusv1.ChatMessage_Parts{Parts: &genbusv1.ChatContentParts{Parts: parts}}
	return true
}

func (w *writer) part(p *genbusv1.ChatContentPart) {
	o := w.open()
	o.text("type", p.GetType())
	o.optText("text", p.Text)
	nest(o, "image_url", p.GetImageUrl(), (*writer).imageURL)
	nest(o, "input_audio", p.GetInputAudio(), (*writer).inputAudio)
	nest(o, "file", p.GetFile(), (*writer).file)
	o.optText("refusal", p.Refusal)
	o.close(p.GetExtraJson())
}

func readPart(c *cursor, p *genbusv1.ChatContentPart) {
	c.object(&p.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "type":
			return c.text(&p.Type)
		case "text":
			return c.optText(&p.Text)
		case "image_url":
			return one(c, &p.ImageUrl, readImageURL)
		case "input_audio":
			return one(c, &p.InputAudio, readInputAudio)
		case "file":
			return one(c, &p.File, readFile)
		case "refusal":
			return c.optText(&p.Refusal)
		}
		return false
	})
}

func (w *writer) imageURL(m *genbusv1.ChatImageUrl) {
	o := w.open()
	o.text("url", m.GetUrl())
	o.optText("detail", m.Detail)
	o.close(m.GetExtraJson())
}

func readImageURL(c *cursor, m *genbusv1.ChatImageUrl) {
	c.object(&m.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "url":
			return c.text(&m.Url)
		case "detail":
			return c.optText(&m.Detail)
		}
		return false
	})
}

func (w *writer) inputAudio(m *genbusv1.ChatInputAudio) {
	o := w.open()
	o.text("data", m.GetData())
	o.text("format", m.GetFormat())
	o.close(m.GetExtraJson())
}

func readInputAudio(c *cursor, m *genbusv1.ChatInputAudio) {
	c.object(&m.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "data":
			return c.text(&m.Data)
		case "format":
			return c.text(&m.Format)
		}
		return false
	})
}

func (w *writer) file(m *genbusv1.ChatFile) {
	o := w.open()
	o.optText("filename", m.Filename)
	o.optText("file_data", m.FileData)
	o.optText("file_id", m.FileId)
	o.close(m.GetExtraJson())
}

func readFile(c *cursor, m *genbusv1.ChatFile) {
	c.object(&m.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "filename":
			return c.optText(&m.Filename)
		case "file_data":
			return c.optText(&m.FileData)
		case "file_id":
			return c.optText(&m.FileId)
		}
		return false
	})
}

func (w *writer) toolCall(m *genbusv1.ChatToolCall) {
	o := w.open()
	o.text("id", m.GetId())
	o.text("type", m.GetType())
	nest(o, "function", m.GetFunction(), (*writer).functionCall)
	o.optInt32("index", m.Index)
	o.close(m.GetExtraJson())
}

func readToolCall(c *cursor, m *genbusv1.ChatToolCall) {
	c.object(&m.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "id":
			return c.text(&m.Id)
		case "type":
			return c.text(&m.Type)
		case "function":
			return one(c, &m.Function, readFunctionCall)
		case "index":
			return c.optInt32(&m.Index)
		}
		return false
	})
}

func (w *writer) functionCall(m *genbusv1.ChatFunctionCall) {
	o := w.open()
	o.optText("name", m.Name)
	o.optText("arguments", m.Arguments)
	o.close(m.GetExtraJson())
}

func readFunctionCall(c *cursor, m *genbusv1.ChatFunctionCall) {
	c.object(&m.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "name":
			return c.optText(&m.Name)
		case "arguments":
			return c.optText(&m.Arguments)
		}
		return false
	})
}
