package body

import (
	"slices"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

func (w *writer) tool(m *genbusv1.ChatTool) {
	o := w.open()
	o.text("type", m.GetType())
	nest(o, "function", m.GetFunction(), (*writer).function)
	o.close(m.GetExtraJson())
}

func readTool(c *cursor, m *genbusv1.ChatTool) {
	c.object(&m.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "type":
			return c.text(&m.Type)
		case "function":
			return one(c, &m.Function, readFunction)
		}
		return false
	})
}

func (w *writer) function(m *genbusv1.ChatFunction) {
	o := w.open()
	o.text("name", m.GetName())
	o.optText("description", m.Description)
	o.rawObject("parameters", "parameters_json", m.GetParametersJson())
	o.optBool("strict", m.Strict)
	o.close(m.GetExtraJson())
}

func readFunction(c *cursor, m *genbusv1.ChatFunction) {
	c.object(&m.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "name":
			return c.text(&m.Name)
		case "description":
			return c.optText(&m.Description)
		case "parameters":
			return c.rawObject(&m.ParametersJson)
		case "strict":
			return c.optBool(&m.Strict)
		}
		return false
	})
}

// toolChoice writes the member tool_choice, unless nothing is chosen.
func (o object) toolChoice(m *genbusv1.ChatToolChoice) {
	switch choice := m.GetChoice().(type) {
	case *genbusv1.ChatToolChoice_Mode:
		o.always("tool_choice", choice.Mode)
	case *genbusv1.ChatToolChoice_Function:
		o.name("tool_choice")
		named := o.w.open()
		named.always("type", "function")
		named.name("function")
		function := o.w.open()
		function.always("name", choice.Function)
		function.close(nil)
		named.close(nil)
	case *genbusv1.ChatToolChoice_RawJson:
		o.rawObject("tool_choice", "tool_choice.raw_json", choice.RawJson)
	}
}

func readToolChoice(c *cursor, dst **genbusv1.ChatToolChoice) bool {
	switch c.Peek() {
	case '"':
		*dst = &genbusv1.ChatToolChoice{Choice: &genbusv1.ChatToolChoice_Mode{Mode: textOf(c.Value())}}
	case '{':
		raw := c.Value()
		*dst = &genbusv1.ChatToolChoice{Choice: &genbusv1.ChatToolChoice_RawJson{RawJson: slices.Clone(raw)}}
		if name, ok := namedFunction(raw); ok {
			*dst = &genbusv1.ChatToolChoice{Choice: &genbusv1.ChatToolChoice_Function{Function: name}}
		}
	default:
		return false
	}
	return true
}

// namedFunction reads {"type":"function","function":{"name":"..."}} with no
// other member.
func namedFunction(raw []byte) (string, bool) {
	var tool genbusv1.ChatTool
	readTool(newCursor(raw), &tool)
	f := tool.GetFunction()
	plain := tool.GetType() == "function" && f.GetName() != "" && f.Description == nil && f.Strict == nil &&
		len(f.GetParametersJson())+len(f.GetExtraJson())+len(tool.GetExtraJson()) == 0
	return f.GetName(), plain
}

func (w *writer) responseFormat(m *genbusv1.ChatResponseFormat) {
	o := w.open()
	o.text("type", m.GetType())
	nest(o, "json_schema", m.GetJsonSchema(), (*writer).jsonSchema)
	o.close(m.GetExtraJson())
}

func readResponseFormat(c *cursor, m *genbusv1.ChatResponseFormat) {
	c.object(&m.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "type":
			return c.text(&m.Type)
		case "json_schema":
			return one(c, &m.JsonSchema, readJSONSchema)
		}
		return false
	})
}

func (w *writer) jsonSchema(m *genbusv1.ChatJsonSchema) {
	o := w.open()
	o.text("name", m.GetName())
	o.rawObject("schema", "schema_json", m.GetSchemaJson())
	o.optBool("strict", m.Strict)
	o.optText("description", m.Description)
	o.close(m.GetExtraJson())
}

func readJSONSchema(c *cursor, m *genbusv1.ChatJsonSchema) {
	c.object(&m.ExtraJson, func(name []byte) bool {
		switch string(name) {
		case "name":
			return c.text(&m.Name)
		case "schema":
			return c.rawObject(&m.SchemaJson)
		case "strict":
			return c.optBool(&m.Strict)
		case "description":
			return c.optText(&m.Description)
		}
		return false
	})
}

func (w *writer) streamOptions(m *genbusv1.ChatStreamOptions) {
	o := w.open()
	o.optBool("include_usage", m.IncludeUsage)
	o.close(m.GetExtraJson())
}

func readStreamOptions(c *cursor, m *genbusv1.ChatStreamOptions) {
	c.object(&m.ExtraJson, func(name []byte) bool {
		return string(name) == "include_usage" && c.optBool(&m.IncludeUsage)
	})
}
