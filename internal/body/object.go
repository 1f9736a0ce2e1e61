package body

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Object builds a JSON object member by member. A member that is set again keeps
// its place and gets the new value. The zero value is empty and ready to use.
type Object struct {
	names  []string
	values [][]byte
}

// Set sets a member to a JSON text, which is not copied.
func (o *Object) Set(name string, value []byte) {
	if i := slices.Index(o.names, name); i >= 0 {
		o.values[i] = value
		return
	}
	o.names, o.values = append(o.names, name), append(o.values, value)
}

// SetText sets a member to a string. Text that is not UTF-8 is mended.
func (o *Object) SetText(name, value string) {
	// The only error is about invalid UTF-8, which has been replaced by then.
	quoted, _ := jsontext.AppendQuote(nil, value)
	o.Set(name, quoted)
}

// SetInt sets a member to an integer.
func (o *Object) SetInt(name string, value int64) { o.Set(name, strconv.AppendInt(nil, value, 10)) }

// SetNumber sets a member to a number, which must be finite.
func (o *Object) SetNumber(name string, value float64) {
	o.Set(name, strconv.AppendFloat(nil, value, 'f', -1, 64))
}

// Merge sets every member of a JSON object, each to the text that it has there.
// Errors are *FieldError.
func (o *Object) Merge(object []byte) error {
	if err := checkObject(object, strict); err != nil {
		return fieldError("", "%s", err)
	}
	c := cursor{b: object}
	c.members(func(quoted []byte) { o.Set(string(nameOf(quoted)), c.raw()) })
	return nil
}

// Drop removes a member.
func (o *Object) Drop(name string) {
	if i := slices.Index(o.names, name); i >= 0 {
		o.names, o.values = slices.Delete(o.names, i, i+1), slices.Delete(o.values, i, i+1)
	}
}

// Has reports whether a member is set.
func (o *Object) Has(name string) bool { return slices.Contains(o.names, name) }

// JSON is the object as a JSON text.
func (o *Object) JSON() []byte {
	out := []byte{'{'}
	for i, name := range o.names {
		if i > 0 {
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, name)
		out = append(append(out, ':'), o.values[i]...)
	}
	return append(out, '}')
}

// Member gives the JSON text of a top-level member, or nil when the body has
// none of that name or is no JSON object.
func Member(body []byte, name string) []byte {
	if checkObject(body, lenient) != nil {
		return nil
	}
	if at := find(body, name); at.found {
		return body[at.start:at.end]
	}
	return nil
}

// MemberText gives the value of a top-level member that is a string, and "" for
// everything else.
func MemberText(body []byte, name string) string {
	value := Member(body, name)
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	return textOf(value)
}

// NumberText gives a top-level member that is a number, or a string that holds
// one, as it was written, and "" for everything else. It is at most 32 bytes.
func NumberText(body []byte, name string) string {
	value := string(Member(body, name))
	if len(value) > 0 && value[0] == '"' {
		value = MemberText(body, name)
	}
	if len(value) > 32 || value == "" || !isNumber(value[0]) || !jsontext.Value(value).IsValid() {
		return ""
	}
	return value
}
