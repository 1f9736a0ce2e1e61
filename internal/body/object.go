package body

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Object builds a JSON object member by member. A member that is set again keeps
// its place and gets the new value. The zero value is empty and ready to use.
type Object struct {
	names  []string
	values [][]byte
	// places is where each name is, once there are many and one is looked
	// for; nil until then, and after a Drop.
	places map[string]int
}

// few is up to how many members a search through all of them is the fastest.
const few = 16

// Set sets a member to a JSON text, which is not copied.
func (o *Object) Set(name string, value []byte) {
	if i := o.place(name); i >= 0 {
		o.values[i] = value
		return
	}
	o.append(name, value)
}

// place is where a member is, or -1.
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

// append adds a member whose name is not there yet.
func (o *Object) append(name string, value []byte) {
	if o.places != nil {
		o.places[name] = len(o.names)
	}
	o.names, o.values = append(o.names, name), append(o.values, value)
}

// SetText sets a member to a string. What is not UTF-8 in it is replaced.
func (o *Object) SetText(name, value string) {
	// The only error is about invalid UTF-8, which has been replaced by then.
	quoted, _ := jsontext.AppendQuote(nil, value)
	o.Set(name, quoted)
}

// SetInt sets a member to an integer.
func (o *Object) SetInt(name string, value int64) { o.Set(name, strconv.AppendInt(nil, value, 10)) }

// Merge sets every member of a document, each to the text that it has there.
func (o *Object) Merge(d Document) {
	for name, value := range d.Members() {
		o.Set(name, value)
	}
}

// Add merges a JSON object of which no member may be set yet, and checks it. field is
// where the object is in the request, for the error, which is a *FieldError; o is then
// as it was. An object of no bytes adds nothing.
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

// shortened bounds a name that a client chose, for an error.
func shortened(name string) string {
	const enough = 64
	if len(name) <= enough {
		return name
	}
	return strings.ToValidUTF8(name[:enough], "") + "..."
}

// Drop removes a member. It takes a time that grows with the object: it is for the
// few that must not be there.
func (o *Object) Drop(name string) {
	if i := o.place(name); i >= 0 {
		o.names, o.values = slices.Delete(o.names, i, i+1), slices.Delete(o.values, i, i+1)
		o.places = nil // those behind it have moved
	}
}

// Has reports whether a member is set.
func (o *Object) Has(name string) bool { return o.place(name) >= 0 }

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

// Document is the object as the body of a request. It is not parsed: what is set is valid
// JSON, so only the limits are checked. Errors are *FieldError.
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

// Text gives the text of a JSON string without white space around it, and "" for
// every other value and for none.
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
