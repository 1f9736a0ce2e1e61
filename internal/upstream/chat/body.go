package chat

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// BodyError says what is wrong with a request body. It quotes names, never
// values.
type BodyError struct {
	// Param is the field at fault, empty when it is the JSON as a whole.
	Param string
	// Message says what is wrong, for the client to read.
	Message string
}

func (e *BodyError) Error() string { return e.Message }

// Peeked is what routing needs to know of a request body.
type Peeked struct {
	// Model is the model's name, empty when there is none.
	Model string
	// Stream is the value of stream; absent and null are false.
	Stream bool
	// IncludeUsage is stream_options.include_usage.
	IncludeUsage bool
	// HasMessages is true when there is a messages array with something in it.
	HasMessages bool
	// N is how many choices are asked for; 1 when absent or null.
	N int
}

// Peek reads a request body in one pass without decoding it. The whole body is
// checked: the error is a *BodyError when it is not one JSON object, repeats a
// name anywhere, or has a field above of the wrong type. What is missing is not
// an error.
func Peek(body []byte) (Peeked, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	if kind := d.PeekKind(); kind != '{' && kind != jsontext.KindInvalid {
		return Peeked{}, &BodyError{Message: "the request body must be a JSON object"}
	}
	if _, err := d.ReadToken(); err != nil {
		return Peeked{}, badJSON(d, err)
	}
	p := Peeked{N: 1}
	for d.PeekKind() == '"' {
		if err := p.readMember(d); err != nil {
			return Peeked{}, err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return Peeked{}, badJSON(d, err)
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return Peeked{}, &BodyError{Message: "the request body holds more than one JSON value"}
	}
	return p, nil
}

func (p *Peeked) readMember(d *jsontext.Decoder) error {
	name, err := d.ReadToken()
	if err != nil {
		return badJSON(d, err)
	}
	set := setter(name.String())
	if set == nil {
		if err := d.SkipValue(); err != nil {
			return badJSON(d, err)
		}
		return nil
	}
	v, err := d.ReadValue()
	if err != nil {
		return badJSON(d, err)
	}
	if isNull(v) {
		return nil
	}
	return set(p, v)
}

// setter gives what reads the member called name, nil when nothing does.
func setter(name string) func(*Peeked, jsontext.Value) error {
	switch name {
	case "model":
		return (*Peeked).setModel
	case "stream":
		return (*Peeked).setStream
	case "stream_options":
		return (*Peeked).setStreamOptions
	case "messages":
		return (*Peeked).setMessages
	case "n":
		return (*Peeked).setN
	}
	return nil
}

func (p *Peeked) setModel(v jsontext.Value) error {
	if v.Kind() != '"' {
		return &BodyError{"model", "model must be a string"}
	}
	name, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return &BodyError{"model", "model is not valid UTF-8"}
	}
	p.Model = string(name)
	return nil
}

func (p *Peeked) setStream(v jsontext.Value) error {
	if k := v.Kind(); k != 't' && k != 'f' {
		return &BodyError{"stream", "stream must be true or false"}
	}
	p.Stream = v.Kind() == 't'
	return nil
}

func (p *Peeked) setStreamOptions(v jsontext.Value) error {
	if v.Kind() != '{' {
		return &BodyError{"stream_options", "stream_options must be an object"}
	}
	p.IncludeUsage = string(member(v, "include_usage")) == "true"
	return nil
}

func (p *Peeked) setMessages(v jsontext.Value) error {
	if v.Kind() != '[' {
		return &BodyError{"messages", "messages must be an array"}
	}
	c := cursor{b: v}
	p.HasMessages = c.enter('[') && c.more(']', true)
	return nil
}

func (p *Peeked) setN(v jsontext.Value) error {
	n, err := strconv.Atoi(string(v))
	if err != nil || n < 1 || n > maxChoices {
		return &BodyError{"n", fmt.Sprintf("n must be a whole number from 1 to %d", maxChoices)}
	}
	p.N = n
	return nil
}

// badJSON words a fault of the JSON with its place, and without its text.
func badJSON(d *jsontext.Decoder, err error) *BodyError {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return &BodyError{Message: fmt.Sprintf("the request body repeats a name in one object, at byte %d", faultOffset(d, err))}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return &BodyError{Message: "the request body is not valid JSON: it ends too early"}
	}
	return &BodyError{Message: fmt.Sprintf("the request body is not valid JSON, at byte %d", faultOffset(d, err))}
}

func faultOffset(d *jsontext.Decoder, err error) int64 {
	if fault, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fault.ByteOffset
	}
	return d.InputOffset()
}
