package body

import (
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

func (w *writer) tool(m *genbusv1.ChatTool) {
	o := w.open()
	o.text("type", m.GetType())
	nest(o, "function", m.GetFunction(), (*writer).function)
	o.close(m.GetExtraJson())
}

func (w *writer) function(m *genbusv1.ChatFunction) {
	o := w.open()
	o.text("name", m.GetName())
	o.optText("description", m.Description)
	o.rawObject("parameters", "parameters_json", m.GetParametersJson())
	o.optBool("strict", m.Strict)
	o.close(m.GetExtraJson())
}

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

func (w *writer) responseFormat(m *genbusv1.ChatResponseFormat) {
	o := w.open()
	o.text("type", m.GetType())
	nest(o, "json_schema", m.GetJsonSchema(), (*writer).jsonSchema)
	o.close(m.GetExtraJson())
}

func (w *writer) jsonSchema(m *genbusv1.ChatJsonSchema) {
	o := w.open()
	o.text("name", m.GetName())
	o.rawObject("schema", "schema_json", m.GetSchemaJson())
	o.optBool("strict", m.Strict)
	o.optText("description", m.Description)
	o.close(m.GetExtraJson())
}

func (w *writer) streamOptions(m *genbusv1.ChatStreamOptions) {
	o := w.open()
	o.optBool("include_usage", m.IncludeUsage)
	o.close(m.GetExtraJson())
}
