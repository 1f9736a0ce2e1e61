// Package body converts requests to JSON for the upstream, and the JSON of replies to typed
// messages, without loss in either direction.
//
// Inside genbus the canonical form of a request is the JSON that the client sent. Two rules hold
// everywhere:
//
//   - Anything that a typed field cannot express (an unknown member, an explicit null, a value of
//     another type, an empty string or list) is kept as written in extra_json at its level.
//   - A typed field is omitted if it is absent, or if it has no presence and is empty. But index,
//     choices and logprob are always written, because clients expect their zero values.
package body

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/errcode"
)

// Limits of one body. The size of a body is limited at admission, by the tenant's configuration.
const (
	// MaxDepth is the maximum nesting depth of objects and arrays.
	MaxDepth = 200
	// MaxValues is the maximum number of values in a request: members and elements at all levels.
	// Checking for duplicate names costs about 100 bytes and a microsecond per value.
	MaxValues = 250_000
)

// Violation describes a problem with a field of a request. It holds the field's path, such as
// "messages[3].role" (empty for the whole body), and describes what would be valid. It never
// contains the field's value.
type Violation = errcode.Violation

// FieldError is a Violation as an error.
type FieldError struct {
	Violation
	// Limit is true if the JSON is valid but exceeds a limit.
	Limit bool
}

// Error returns the path and the description.
func (e *FieldError) Error() string {
	if e.Field == "" {
		return "the body " + e.Description
	}
	return e.Field + " " + e.Description
}

// Errorf returns a FieldError. The description continues a sentence that begins with the field's
// name, such as "is missing". An empty field means the whole body.
func Errorf(field, format string, args ...any) *FieldError {
	return &FieldError{Violation: Violation{Field: field, Description: fmt.Sprintf(format, args...)}}
}

func fieldErrorOf(field string, err error) *FieldError {
	_, limit := errors.AsType[limitError](err)
	return &FieldError{Violation: Violation{Field: field, Description: err.Error()}, Limit: limit}
}

type limitError string

func (e limitError) Error() string { return string(e) }

var (
	errTooMany = limitf("has more than %d values", MaxValues)
	errTooDeep = limitf("is nested deeper than %d levels", MaxDepth)
)

func limitf(format string, args ...any) error { return limitError(fmt.Sprintf(format, args...)) }

// Fault converts an error about a whole body. The result is InvalidRequest if the body exceeds a
// limit, and InvalidJSON if it is not one JSON object.
func Fault(err error) *errcode.Error {
	if e, ok := errors.AsType[*FieldError](err); ok && e.Limit {
		return errcode.New(errcode.InvalidRequest, "%w", err)
	}
	return errcode.New(errcode.InvalidJSON, "%w", err)
}

// strictness describes the requirements on JSON beyond its grammar.
type strictness int

const (
	// strict is for requests. It requires valid UTF-8 and no duplicate names in an object.
	strict strictness = iota
	// lenient is for replies, which genbus cannot refuse.
	lenient
)

var (
	strictOptions  = jsontext.AllowInvalidUTF8(true) // allows a lone "\ud83d"; the bytes are checked separately
	lenientOptions = []jsontext.Options{jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)}
)

// checkRequest is like checkObject but is for a client's JSON. It counts the values first, because
// checking too many of them for duplicate names would use the memory that the limit protects.
func checkRequest(raw []byte) error {
	if tooMany(raw) {
		return errTooMany
	}
	return checkObject(raw, strict)
}

// checkObject returns nil if raw is one JSON object within the limits. Its errors continue a
// sentence that begins with the field's name.
func checkObject(raw []byte, how strictness) error {
	if err := checkValue(raw, how); err != nil {
		return err
	}
	if kind := NewCursor(raw).Peek(); kind != '{' {
		return fmt.Errorf("is %s; it must be a JSON object", kindName(kind))
	}
	return nil
}

func checkValue(raw []byte, how strictness) error {
	if len(raw) == 0 {
		return errors.New("is empty; it must be JSON")
	}
	if !valid(raw, how) {
		return syntaxError(raw, how)
	}
	if deeper(raw, MaxDepth) {
		return errTooDeep
	}
	return nil
}

func valid(raw []byte, how strictness) bool {
	if how == lenient {
		return jsontext.Value(raw).IsValid(lenientOptions...)
	}
	return jsontext.Value(raw).IsValid(strictOptions) && utf8.Valid(raw)
}

func syntaxError(raw []byte, how strictness) error {
	opts := []jsontext.Options{strictOptions}
	if how == lenient {
		opts = lenientOptions
	}
	dec := jsontext.NewDecoder(bytes.NewReader(raw), opts...)
	err := dec.SkipValue()
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Errorf("has a duplicate member in an object, before byte %d", dec.InputOffset())
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errors.New("is not valid JSON: it ends too early")
	case err != nil:
		return fmt.Errorf("is not valid JSON: syntax error near byte %d", offset(err, dec))
	case !utf8.Valid(raw):
		return errors.New("is not valid UTF-8")
	default:
		return fmt.Errorf("has more than one JSON value: text follows at byte %d", dec.InputOffset())
	}
}

// offset returns where the decoder found err. The error's own text may quote the body and must not
// be used.
func offset(err error, dec *jsontext.Decoder) int64 {
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		return syntactic.ByteOffset
	}
	return dec.InputOffset()
}

// deeper reports whether valid JSON is nested deeper than levels. Counting brackets first is fast
// and rules out most bodies.
func deeper(raw []byte, levels int) bool {
	if brackets(raw) <= levels {
		return false
	}
	_, depth := measure(raw)
	return depth > levels
}

// tooMany reports whether JSON has more than MaxValues values. Counting commas and brackets first
// is fast and rules out most bodies.
func tooMany(raw []byte) bool {
	if bytes.Count(raw, []byte(","))+brackets(raw) < MaxValues {
		return false
	}
	values, _ := measure(raw)
	return values > MaxValues
}

func brackets(raw []byte) int { return bytes.Count(raw, []byte("{")) + bytes.Count(raw, []byte("[")) }

// measure returns the number of values in a JSON text, including the outermost one, and the nesting
// depth. For invalid JSON, the results are arbitrary.
func measure(raw []byte) (values, depth int) {
	values = 1
	open, last := 0, byte(0)
	for c := NewCursor(raw); c.Peek() != 0; {
		kind := c.Peek()
		switch kind {
		case '"':
			c.SkipString()
			last = kind
			continue
		case ',':
			values++
		case '{', '[':
			open++
			depth = max(depth, open)
		case '}', ']':
			open--
			if last != '{' && last != '[' {
				values++
			}
		}
		last = kind
		c.At++
	}
	return values, depth
}

func kindName(kind byte) string {
	switch kind {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}
