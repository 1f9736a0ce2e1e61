package chat

import (
	"bytes"
	"strconv"
)

// The functions in this file change one member of a JSON object and leave every
// other byte as it was. The object must be valid JSON with unique names; what is
// no object is returned unchanged. They never write into the slice that they are given, and
// return it when there is nothing to change.

// SetStream sets stream. When it becomes false, stream_options goes: servers
// refuse it without stream.
func SetStream(body []byte, on bool) []byte {
	if !on {
		body = WithoutField(body, "stream_options")
	}
	return WithField(body, "stream", strconv.AppendBool(nil, on))
}

// AskForUsage sets stream_options.include_usage, and keeps the other options.
func AskForUsage(body []byte) []byte {
	options := member(body, "stream_options")
	if len(options) == 0 || options[0] != '{' {
		options = []byte("{}")
	}
	return WithField(body, "stream_options", WithField(options, "include_usage", []byte("true")))
}

// WithField sets the member name to value, which is JSON. A new member becomes
// the last.
func WithField(object []byte, name string, value []byte) []byte {
	if at, ok := memberSpan(object, name); ok {
		if bytes.Equal(object[at.from:at.to], value) {
			return object
		}
		return splice(object, at, value)
	}
	end, empty, ok := objectEnd(object)
	if !ok {
		return object
	}
	var added []byte
	if !empty {
		added = append(added, ',')
	}
	added = append(appendName(added, name), value...)
	return splice(object, span{end, end}, added)
}

// WithoutField removes the member name and the comma that it no longer needs.
func WithoutField(object []byte, name string) []byte {
	c := cursor{b: object}
	if !c.enter('{') {
		return object
	}
	for first := true; c.more('}', first); first = false {
		from := c.i
		found := string(c.key()) == name
		if v := c.value(); !found || v == nil {
			continue
		}
		switch {
		case c.peek() == ',':
			return splice(object, span{from, c.i + 1}, nil)
		case !first:
			// From the comma in front, which more has just stepped over.
			return splice(object, span{bytes.LastIndexByte(object[:from], ','), c.i}, nil)
		}
		return splice(object, span{from, c.i}, nil)
	}
	return object
}

// objectEnd finds where a new last member goes: behind the last value, or
// behind the opening brace.
func objectEnd(object []byte) (at int, empty, ok bool) {
	c := cursor{b: object}
	if !c.enter('{') {
		return 0, false, false
	}
	at, empty = c.i, true
	for c.more('}', empty) {
		c.key()
		c.value()
		at, empty = c.i, false
	}
	return at, empty, !c.bad
}

func splice(b []byte, at span, with []byte) []byte {
	out := make([]byte, 0, len(b)-(at.to-at.from)+len(with))
	out = append(append(out, b[:at.from]...), with...)
	return append(out, b[at.to:]...)
}
