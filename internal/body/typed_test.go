package body

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/reflect/protoreflect"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// parseChat and parseVideo invert Chat and Video for typed bodies, keeping anything that the fields
// cannot express in extra_json. genbus itself never parses into a typed request; the tests do, to
// show that writing one loses nothing.

func parseChat(body []byte) (*genbusv1.ChatCompletionBody, error) {
	m := new(genbusv1.ChatCompletionBody)
	return m, parseTyped(body, m.ProtoReflect())
}

func parseVideo(body []byte) (*genbusv1.VideoGeneration, error) {
	m := new(genbusv1.VideoGeneration)
	return m, parseTyped(body, m.ProtoReflect())
}

func parseTyped(body []byte, m protoreflect.Message) error {
	if err := checkRequest(body); err != nil {
		return err
	}
	readTyped(newCursor(body), m)
	return nil
}

// readTyped reads an object into a message whose fields are named like the members.
func readTyped(c *cursor, m protoreflect.Message) {
	if message, ok := m.Interface().(*genbusv1.ChatMessage); ok { // replies have messages too
		readMessage(c, message)
		return
	}
	var extra []byte
	c.object(&extra, func(name []byte) bool {
		f := fieldOf(m.Descriptor(), string(name))
		if f == nil {
			return false
		}
		start := c.At
		v, ok := readField(c, m.NewField(f), f)
		if !ok {
			c.At = start
			return false
		}
		m.Set(f, v)
		return true
	})
	if extra != nil {
		m.Set(m.Descriptor().Fields().ByName("extra_json"), protoreflect.ValueOfBytes(extra))
	}
}

// fieldOf returns the field of a member. An object without typed fields is in <name>_json, a field
// of bytes.
func fieldOf(d protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if f := d.Fields().ByName(protoreflect.Name(name)); f != nil && f.Kind() != protoreflect.BytesKind {
		return f
	}
	if name == "extra" {
		return nil
	}
	return d.Fields().ByName(protoreflect.Name(name + "_json"))
}

// readField reads the next value. It returns false if the field cannot express it: an empty list or
// map, or "" if the field cannot be absent.
func readField(c *cursor, v protoreflect.Value, f protoreflect.FieldDescriptor) (protoreflect.Value, bool) {
	switch {
	case f.IsMap():
		if c.Peek() != '{' {
			return v, false
		}
		for quoted := range c.Members() {
			element, ok := readValue(c, v.Map().NewValue(), f.MapValue())
			if !ok {
				return v, false
			}
			v.Map().Set(protoreflect.ValueOfString(textOf(quoted)).MapKey(), element)
		}
		return v, v.Map().Len() > 0
	case f.IsList():
		if c.Peek() != '[' {
			return v, false
		}
		for range c.Elements() {
			element, ok := readValue(c, v.List().NewElement(), f)
			if !ok {
				return v, false
			}
			v.List().Append(element)
		}
		return v, v.List().Len() > 0
	default:
		v, ok := readValue(c, v, f)
		return v, ok && (f.HasPresence() || v.Interface() != "")
	}
}

func readValue(c *cursor, v protoreflect.Value, f protoreflect.FieldDescriptor) (protoreflect.Value, bool) {
	switch kind := c.Peek(); f.Kind() {
	case protoreflect.StringKind:
		if kind != '"' {
			return v, false
		}
		return protoreflect.ValueOfString(textOf(c.Value())), true
	case protoreflect.BoolKind:
		if kind != 't' && kind != 'f' {
			return v, false
		}
		c.Skip()
		return protoreflect.ValueOfBool(kind == 't'), true
	case protoreflect.Int32Kind:
		var i int32
		ok := c.position(&i)
		return protoreflect.ValueOfInt32(i), ok
	case protoreflect.Int64Kind:
		i, ok := c.integer()
		return protoreflect.ValueOfInt64(i), ok
	case protoreflect.DoubleKind:
		start := c.At
		var n float64
		ok := c.nearest(&n) && bytes.Equal(digits(bytes.TrimSpace(c.Text[start:c.At])), digits(jsontext.AppendFloat(nil, n, 64)))
		return protoreflect.ValueOfFloat64(n), ok
	case protoreflect.BytesKind:
		if kind != '{' {
			return v, false
		}
		return protoreflect.ValueOfBytes(slices.Clone(c.Value())), true
	default:
		if choice, ok := v.Message().Interface().(*genbusv1.ChatToolChoice); ok {
			return v, readToolChoice(c, choice)
		}
		if kind != '{' {
			return v, false
		}
		readTyped(c, v.Message())
		return v, true
	}
}

// digits returns the significant digits of a number, which a double keeps if writing it yields the
// same ones.
func digits(text []byte) []byte {
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		text = text[:i]
	}
	return bytes.Trim(bytes.ReplaceAll(text, []byte("."), nil), "-0")
}

func readToolChoice(c *cursor, m *genbusv1.ChatToolChoice) bool {
	switch c.Peek() {
	case '"':
		m.Choice = &genbusv1.ChatToolChoice_Mode{Mode: textOf(c.Value())}
	case '{':
		raw := slices.Clone(c.Value())
		m.Choice = &genbusv1.ChatToolChoice_RawJson{RawJson: raw}
		if name, ok := namedFunction(raw); ok {
			m.Choice = &genbusv1.ChatToolChoice_Function{Function: name}
		}
	default:
		return false
	}
	return true
}

// namedFunction returns the name from {"type":"function","function":{"name":"..."}} if it has no
// other member.
func namedFunction(raw []byte) (string, bool) {
	var tool genbusv1.ChatTool
	readTyped(newCursor(raw), tool.ProtoReflect())
	f := tool.GetFunction()
	plain := tool.GetType() == "function" && f.GetName() != "" && f.Description == nil && f.Strict == nil &&
		len(f.GetParametersJson())+len(f.GetExtraJson())+len(tool.GetExtraJson()) == 0
	return f.GetName(), plain
}
