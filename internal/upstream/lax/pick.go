package lax

import (
	"math"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Decode reads an answer in one pass. The error says that it is not a JSON
// object; odd fields inside it are skipped, if T is made of this package's types.
// The result is never nil, and holds what was read before the error.
func Decode[T any](body []byte) (*T, error) {
	answer := new(T)
	err := json.Unmarshal(body, answer, Options)
	return answer, err
}

// First gives the first candidate that is more than white space, without the
// white space around it, or "".
func First[S ~string](candidates ...S) string {
	for _, c := range candidates {
		if s := strings.TrimSpace(string(c)); s != "" {
			return s
		}
	}
	return ""
}

// Positive gives the first value above 0, or 0.
func Positive(values ...Number) float64 {
	for _, v := range values {
		if v > 0 {
			return float64(v)
		}
	}
	return 0
}

// Pixels gives a width or height, cut to a whole number; 0 for what is none.
func Pixels(n Number) int {
	if n < 1 || n > math.MaxInt32 {
		return 0
	}
	return int(n)
}

// ID is an id that may be a text or an integer, which servers mean differently:
// inside an envelope the integer is a database key and not the task's id.
type ID struct {
	Word  Word
	IsInt bool
}

// UnmarshalJSONFrom reads a string or a whole number, and skips everything else.
func (i *ID) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	i.IsInt = dec.PeekKind() == '0'
	return i.Word.UnmarshalJSONFrom(dec)
}

// Text is the id where it is a text, and "" where it is an integer.
func (i ID) Text() Word {
	if i.IsInt {
		return ""
	}
	return i.Word
}
