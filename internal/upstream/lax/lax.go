// Package lax reads JSON fields as real servers write them, for example numbers as strings, strings
// as numbers, and null anywhere. It skips a field with an unexpected form, so that one odd field
// does not make a whole answer unreadable. It is meant for answers; requests are checked strictly.
package lax

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxItems limits the items read from a list.
const MaxItems = 64

// Text is a JSON string, or "".
type Text string

// UnmarshalJSONFrom reads a string and skips anything else.
func (t *Text) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*t = ""
	if dec.PeekKind() != '"' {
		return dec.SkipValue()
	}
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	*t = Text(tok.String())
	return nil
}

// Status is a JSON string that records whether it was present.
type Status struct {
	Word string
	Set  bool
}

// UnmarshalJSONFrom reads a string and skips anything else.
func (s *Status) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	s.Set = dec.PeekKind() == '"'
	return (*Text)(&s.Word).UnmarshalJSONFrom(dec)
}

// Word is a JSON string, or an integer as written. 0 becomes "".
type Word string

// UnmarshalJSONFrom reads a string or an integer and skips anything else.
func (w *Word) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '0' {
		return (*Text)(w).UnmarshalJSONFrom(dec)
	}
	v, err := dec.ReadValue()
	if err != nil {
		return err
	}
	*w = ""
	if s := string(v); s != "0" && !strings.ContainsAny(s, ".eE") {
		*w = Word(s)
	}
	return nil
}

// Number is a JSON number, or a string that holds one ("5.1"). Anything else becomes 0. It is
// always finite.
type Number float64

// UnmarshalJSONFrom reads a number or a string and skips anything else.
func (n *Number) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*n = 0
	s, err := readNumber(dec)
	if f, bad := strconv.ParseFloat(strings.TrimSpace(s), 64); bad == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
		*n = Number(f)
	}
	return err
}

// readNumber returns a number or string as written, and "" for anything else.
func readNumber(dec *jsontext.Decoder) (string, error) {
	if dec.PeekKind() != '0' {
		var t Text
		err := t.UnmarshalJSONFrom(dec)
		return string(t), err
	}
	v, err := dec.ReadValue()
	return string(v), err
}

// Percent is a progress value, given as a number or as "37%", truncated to an integer and limited
// to 0 to 100.
type Percent struct {
	Value int
	Set   bool
}

// UnmarshalJSONFrom reads a number or a string and skips anything else.
func (p *Percent) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*p = Percent{}
	s, err := readNumber(dec)
	s = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(s), "%"))
	if f, bad := strconv.ParseFloat(s, 64); bad == nil && !math.IsNaN(f) {
		*p = Percent{Value: int(min(max(f, 0), 100)), Set: true}
	}
	return err
}

// Moment is a Unix time in seconds or milliseconds, or a time in RFC 3339 format.
type Moment struct{ time.Time }

// UnmarshalJSONFrom reads a number or a string and skips anything else.
func (m *Moment) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*m = Moment{}
	s, err := readNumber(dec)
	if f, bad := strconv.ParseFloat(s, 64); bad == nil {
		m.Time = unix(f)
	} else if t, bad := time.Parse(time.RFC3339, s); bad == nil {
		m.Time = t.UTC()
	}
	return err
}

// Options make decoding accept duplicate names and invalid UTF-8, which servers send.
var Options = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// unix distinguishes seconds and milliseconds by their magnitude. It returns the zero time for
// numbers out of range.
func unix(f float64) time.Time {
	const firstMillis, last = 1e11, 1e14
	if !(f > 0 && f < last) {
		return time.Time{}
	}
	if f > firstMillis {
		return time.UnixMilli(int64(f)).UTC()
	}
	return time.Unix(int64(f), 0).UTC()
}

// RawObject is a JSON object as written, or nil.
type RawObject []byte

// UnmarshalJSONFrom reads an object and skips anything else.
func (o *RawObject) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*o = nil
	if dec.PeekKind() != '{' {
		return dec.SkipValue()
	}
	v, err := dec.ReadValue()
	*o = RawObject(v.Clone())
	return err
}

// Object is a JSON object decoded into T, or unset.
type Object[T any] struct {
	Value T
	Set   bool
}

// UnmarshalJSONFrom reads an object and skips anything else.
func (o *Object[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*o = Object[T]{}
	if dec.PeekKind() != '{' {
		return dec.SkipValue()
	}
	o.Set = true
	return json.UnmarshalDecode(dec, &o.Value)
}

// List holds the first 64 items of a JSON array, or nil.
type List[T any] []T

// UnmarshalJSONFrom reads an array and skips anything else.
func (l *List[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*l = nil
	if dec.PeekKind() != '[' {
		return dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != ']' {
		if len(*l) == MaxItems {
			if err := dec.SkipValue(); err != nil {
				return err
			}
			continue
		}
		var item T
		if err := json.UnmarshalDecode(dec, &item); err != nil {
			return err
		}
		*l = append(*l, item)
	}
	_, err := dec.ReadToken()
	return err
}
