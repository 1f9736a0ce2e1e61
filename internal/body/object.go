package body

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Object builds a JSON object member by member. Setting a member again keeps its position. The zero
// value is empty and ready to use.
type Object struct {
	names  []string
	values [][]byte
	// places indexes the names. It is nil until an object with many members is searched, and after
	// a Drop.
	places map[string]int
}

// few is the largest number of members for which a linear search is fastest.
const few = 16

// Set sets a member to a JSON text, which it does not copy.
func (o *Object) Set(name string, value []byte) {
	if i := o.place(name); i >= 0 {
		o.values[i] = value
		return
	}
	o.append(name, value)
}

func (o *Object) place(name string) int {
	if len(o.names) <= few {
		return slices.Index(o.names, name)
	}
	if o.places == nil {
		o.places = make(map[string]int, len(o.names))
		for i, n := range o.names {
			o.places[n] = i
		}
	}
	if i, ok := o.places[name]; ok {
		return i
	}
	return -1
}

// append adds a member that is not set yet.
func (o *Object) append(name string, value []byte) {
	if o.places != nil {
		o.places[name] = len(o.names)
	}
	o.names, o.values = append(o.names, name), append(o.values, value)
}

// SetText sets a member to a string. Invalid UTF-8 is replaced.
func (o *Object) SetText(name, value string) {
	// The only possible error is invalid UTF-8, which AppendQuote has already replaced.
	quoted, _ := jsontext.AppendQuote(nil, value)
	o.Set(name, quoted)
}

// SetInt sets a member to an integer.
func (o *Object) SetInt(name string, value int64) { o.Set(name, strconv.AppendInt(nil, value, 10)) }

// Merge sets every member of a document.
func (o *Object) Merge(d Document) {
	for name, value := range d.Members() {
		o.Set(name, value)
	}
}

// Add checks a JSON object and merges it. None of its members may be set already. An empty text
// adds nothing. field is the object's path in the request. Errors are *FieldError and leave o
// unchanged.
func (o *Object) Add(field string, object []byte) error {
	if len(object) == 0 {
		return nil
	}
	if err := checkObject(object, strict); err != nil {
		return fieldErrorOf(field, err)
	}
	added := Trusted(object)
	for name := range added.Members() {
		if o.Has(name) {
			return Errorf(field, "contains %q, which is also set elsewhere in the request; set it once", shortened(name))
		}
	}
	for name, value := range added.Members() {
		o.append(name, value)
	}
	return nil
}

func shortened(name string) string {
	const enough = 64
	if len(name) <= enough {
		return name
	}
	return strings.ToValidUTF8(name[:enough], "") + "..."
}

// Drop removes a member. It takes time proportional to the size of the object.
func (o *Object) Drop(name string) {
	if i := o.place(name); i >= 0 {
		o.names, o.values = slices.Delete(o.names, i, i+1), slices.Delete(o.values, i, i+1)
		o.places = nil // the members after it have moved
	}
}

// Has reports whether a member is set.
func (o *Object) Has(name string) bool { return o.place(name) >= 0 }

// JSON returns the object as JSON.
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

// Document returns the object as the body of a request. It checks only the limits, because the
// members are valid JSON. Errors are *FieldError.
func (o *Object) Document() (Document, error) {
	d := Document{text: o.JSON()}
	switch {
	case tooMany(d.text):
		d.err = fieldErrorOf("", errTooMany)
	case deeper(d.text, MaxDepth):
		d.err = fieldErrorOf("", errTooDeep)
	}
	return d, d.Err()
}

// Text returns the text of a JSON string, which must have no white space around it. It returns ""
// for any other value.
func Text(value []byte) string {
	if len(value) < len(`""`) || value[0] != '"' {
		return ""
	}
	return textOf(value)
}

func numberText(raw []byte) string {
	value := string(raw)
	if len(value) > 0 && value[0] == '"' {
		value = Text(raw)
	}
	if len(value) > 32 || value == "" || !isNumber(value[0]) || !jsontext.Value(value).IsValid() {
		return ""
	}
	return value
}
