package primary

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The types here read a field that has the expected form and skip it when it
// has another one: real servers put numbers into strings, strings into numbers
// and null anywhere, and one odd field must not make a whole answer unreadable.

// maxItems bounds how many entries of a list are read.
const maxItems = 64

// text is a JSON string, or "".
type text string

func (t *text) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*t = ""
	if dec.PeekKind() != '"' {
		return dec.SkipValue()
	}
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	*t = text(tok.String())
	return nil
}

// statusText is a JSON string that remembers that it was there.
type statusText struct {
	word string
	set  bool
}

func (s *statusText) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	s.set = dec.PeekKind() == '"'
	return (*text)(&s.word).UnmarshalJSONFrom(dec)
}

// word is a JSON string, or an integer as written; 0 is "".
type word string

func (w *word) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '0' {
		return (*text)(w).UnmarshalJSONFrom(dec)
	}
	v, err := dec.ReadValue()
	if err != nil {
		return err
	}
	*w = ""
	if s := string(v); s != "0" && !strings.ContainsAny(s, ".eE") {
		*w = word(s)
	}
	return nil
}

// number is a JSON number, or a string that holds one ("5.1"); 0 when neither.
// It is always finite.
type number float64

func (n *number) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*n = 0
	s, err := readNumber(dec)
	if f, bad := strconv.ParseFloat(strings.TrimSpace(s), 64); bad == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
		*n = number(f)
	}
	return err
}

// readNumber gives a number or string as written, and "" for everything else.
func readNumber(dec *jsontext.Decoder) (string, error) {
	if dec.PeekKind() != '0' {
		var t text
		err := t.UnmarshalJSONFrom(dec)
		return string(t), err
	}
	v, err := dec.ReadValue()
	return string(v), err
}

// percent is a progress: an integer, a number or "37%", cut to 0..100.
type percent struct {
	value int
	set   bool
}

func (p *percent) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*p = percent{}
	s, err := readNumber(dec)
	s = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(s), "%"))
	if f, bad := strconv.ParseFloat(s, 64); bad == nil && !math.IsNaN(f) {
		*p = percent{value: int(min(max(f, 0), 100)), set: true}
	}
	return err
}

// moment is a Unix time in seconds or milliseconds, or an RFC 3339 text.
type moment struct{ time.Time }

func (m *moment) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*m = moment{}
	s, err := readNumber(dec)
	if f, bad := strconv.ParseFloat(s, 64); bad == nil {
		m.Time = unix(f)
	} else if t, bad := time.Parse(time.RFC3339, s); bad == nil {
		m.Time = t.UTC()
	}
	return err
}

// unix tells milliseconds from seconds by their size, and gives the zero time
// for what is neither.
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

// rawObject is a JSON object kept as it is, or nil.
type rawObject []byte

func (o *rawObject) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*o = nil
	if dec.PeekKind() != '{' {
		return dec.SkipValue()
	}
	v, err := dec.ReadValue()
	*o = rawObject(v.Clone())
	return err
}

// object is a JSON object read into T, or unset.
type object[T any] struct {
	value T
	set   bool
}

func (o *object[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*o = object[T]{}
	if dec.PeekKind() != '{' {
		return dec.SkipValue()
	}
	o.set = true
	return json.UnmarshalDecode(dec, &o.value)
}

// list is a JSON array of which the first 64 entries are read, or nil.
type list[T any] []T

func (l *list[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*l = nil
	if dec.PeekKind() != '[' {
		return dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != ']' {
		if len(*l) == maxItems {
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
