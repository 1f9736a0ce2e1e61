package lax

import (
	"math"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Decode decodes an answer. It fails if body is not a JSON object. Unexpected fields inside are
// skipped if T consists of this package's types. The result is never nil. After an error it holds
// the fields read so far.
func Decode[T any](body []byte) (*T, error) {
	answer := new(T)
	err := json.Unmarshal(body, answer, Options)
	return answer, err
}

// First returns the first candidate that is not blank, with surrounding white space removed, or "".
func First[S ~string](candidates ...S) string {
	for _, c := range candidates {
		if s := strings.TrimSpace(string(c)); s != "" {
			return s
		}
	}
	return ""
}

// Positive returns the first value above 0, or 0.
func Positive(values ...Number) float64 {
	for _, v := range values {
		if v > 0 {
			return float64(v)
		}
	}
	return 0
}

// Pixels returns a width or height as an integer, or 0 if it is not valid.
func Pixels(n Number) int {
	if n < 1 || n > math.MaxInt32 {
		return 0
	}
	return int(n)
}

// ID is a string or integer ID. Inside an envelope, some servers send an integer that is a database
// key, not the task's ID.
type ID struct {
	Word  Word
	IsInt bool
}

// UnmarshalJSONFrom reads a string or an integer and skips anything else.
func (i *ID) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	i.IsInt = dec.PeekKind() == '0'
	return i.Word.UnmarshalJSONFrom(dec)
}

// Text returns a string ID, or "" for an integer.
func (i ID) Text() Word {
	if i.IsInt {
		return ""
	}
	return i.Word
}
