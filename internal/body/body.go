// Package body turns the body of a request into the upstream's JSON, and the
// JSON of replies into typed messages, without losing anything either way. It
// is not a client and it decides nothing: it reads bytes and writes bytes.
//
// The canonical form of a request inside genbus is the JSON as the client sent
// it. Two rules hold everywhere:
//
//   - What a typed field cannot express (an unknown member, an explicit null, a
//     member of another type, an empty string or list) is kept, as written, in
//     extra_json at its level.
//   - A typed field is written unless it is absent or, where the field cannot be
//     absent, empty. Only index, choices and logprob are written always, because
//     their zero is a value that clients wait for.
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

// Limits of one body. Its size is not among them: what a tenant may send is the
// configuration's, and admission holds every request to it.
const (
	// MaxDepth is how deep objects and arrays may stand in one another.
	MaxDepth = 200
	// MaxValues is the most values of a request's body: members of objects and
	// elements of arrays, of all levels together. To see that no name is there
	// twice takes about 100 bytes and a microsecond for each.
	MaxValues = 250_000
)

// Violation says what is wrong with one field of a request: its path, such as
// "messages[3].role" (empty for the whole body), and what would be right. It
// never holds the field's value.
type Violation = errcode.Violation

// FieldError is a Violation that made the operation impossible.
type FieldError struct {
	Violation
	// Limit is true for what is JSON, and more of it than is taken.
	Limit bool
}

// Error gives the path and the description.
func (e *FieldError) Error() string {
	if e.Field == "" {
		return "the body " + e.Description
	}
	return e.Field + " " + e.Description
}

// Errorf says what is wrong with a field of a request. The description goes on
// after the field's name, such as "is missing"; an empty field is the whole body.
func Errorf(field, format string, args ...any) *FieldError {
	return &FieldError{Violation: Violation{Field: field, Description: fmt.Sprintf(format, args...)}}
}

// fieldErrorOf is the FieldError of what a check found.
func fieldErrorOf(field string, err error) *FieldError {
	_, limit := errors.AsType[limitError](err)
	return &FieldError{Violation: Violation{Field: field, Description: err.Error()}, Limit: limit}
}

// limitError is what a check says of JSON that is more than is taken.
type limitError string

func (e limitError) Error() string { return string(e) }

// What a check says of a body that is above a limit.
var (
	errTooMany = limitf("has more than %d values", MaxValues)
	errTooDeep = limitf("is nested deeper than %d levels", MaxDepth)
)

func limitf(format string, args ...any) error { return limitError(fmt.Sprintf(format, args...)) }

// Fault gives an error about a whole body its meaning: it is not one JSON object,
// or more than is taken.
func Fault(err error) *errcode.Error {
	if e, ok := errors.AsType[*FieldError](err); ok && e.Limit {
		return errcode.New(errcode.InvalidRequest, "%w", err)
	}
	return errcode.New(errcode.InvalidJSON, "%w", err)
}

// strictness is what a JSON text has to keep beyond the grammar.
type strictness int

const (
	// strict: requests. Valid UTF-8, no name twice in one object.
	strict strictness = iota
	// lenient: replies, which are what they are.
	lenient
)

var (
	strictOptions  = jsontext.AllowInvalidUTF8(true) // for "\ud83d" alone; the bytes are checked apart
	lenientOptions = []jsontext.Options{jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)}
)

// checkRequest is checkObject for what a client wrote, which may have so many
// values only. It counts them first: what they take must not be taken.
func checkRequest(raw []byte) error {
	if tooMany(raw) {
		return errTooMany
	}
	return checkObject(raw, strict)
}

// checkObject returns nil when raw is one JSON object within the limits. It says
// what is wrong as the end of a sentence that begins with the field's name.
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

// syntaxError finds out what valid only refused.
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

// offset is where the decoder met err. The error's own text is not used: it may
// quote the body.
func offset(err error, dec *jsontext.Decoder) int64 {
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		return syntactic.ByteOffset
	}
	return dec.InputOffset()
}

// deeper tells whether valid JSON is nested deeper than so many levels. Few bodies
// hold that many brackets at all, and counting them is fast.
func deeper(raw []byte, levels int) bool {
	if brackets(raw) <= levels {
		return false
	}
	_, depth := measure(raw)
	return depth > levels
}

// tooMany tells whether JSON has more than MaxValues values. Few bodies hold that
// many commas and brackets at all, and counting them is fast.
func tooMany(raw []byte) bool {
	if bytes.Count(raw, []byte(","))+brackets(raw) < MaxValues {
		return false
	}
	values, _ := measure(raw)
	return values > MaxValues
}

func brackets(raw []byte) int { return bytes.Count(raw, []byte("{")) + bytes.Count(raw, []byte("[")) }

// measure gives the number of values of a JSON text, itself included, and how deep
// they are nested. Of what is no JSON it gives some numbers.
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
