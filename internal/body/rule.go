package body

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxViolations = 20
	maxModelBytes = 256
	maxChoices    = 128
)

// Rule checks one top-level member of a body. A protocol has a list of rules. Members without a
// rule are allowed, and so is null for an optional member.
type Rule struct {
	Name string
	// Required is true if the member must be present.
	Required bool
	// Wrong describes the problem with the member's JSON text, or returns "".
	Wrong func(value []byte) string
	// parts replaces Wrong for members whose parts are checked one by one.
	parts func(k *checker, value []byte)
}

// Check returns the violations of rules in a body, at most 20, or nil.
func (d Document) Check(rules []Rule) []Violation {
	k := new(checker)
	values := make([][]byte, len(rules))
	c := NewCursor(d.object())
	for quoted := range c.Members() {
		name := MemberName(quoted)
		if i := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == string(name) }); i >= 0 {
			values[i] = c.Value()
		}
	}
	for i, r := range rules {
		switch {
		case values[i] == nil && r.Required:
			k.add(r.Name, "is required")
		case values[i] == nil, values[i][0] == 'n' && !r.Required:
		case r.parts != nil:
			k.in(r.Name, values[i], r.parts)
		default:
			k.in(r.Name, values[i], scalar(r.Wrong))
		}
	}
	return k.violations
}

// IsModel requires a model ID: a string of 1 to 256 bytes without control characters. Like the
// other checks below, it returns a description of the problem, or "".
func IsModel(value []byte) string {
	if wrong := IsText(value); wrong != "" {
		return wrong
	}
	switch model := textOf(value); {
	case len(model) > maxModelBytes:
		return fmt.Sprintf("has %d bytes; a model ID has at most %d", len(model), maxModelBytes)
	case slices.ContainsFunc([]rune(model), unicode.IsControl):
		return "contains a control character, which a model ID must not"
	}
	return ""
}

// IsText requires a string that is not empty.
func IsText(value []byte) string {
	if string(value) == `""` {
		return "is empty; it is required"
	}
	return IsString(value)
}

// IsString requires a string.
func IsString(value []byte) string {
	if value[0] != '"' {
		return is(value, "a string")
	}
	return ""
}

// IsNumber requires a number.
func IsNumber(value []byte) string {
	if !isNumber(value[0]) {
		return is(value, "a number")
	}
	return ""
}

// IsSeconds requires a number above 0, or a string that holds one, as clients of gateways send it.
func IsSeconds(value []byte) string {
	text := value
	if value[0] == '"' {
		text = []byte(textOf(value))
		if !jsontext.Value(text).IsValid() || !isNumber(text[0]) {
			return "is not a numeric string; it must be a number above 0, in seconds"
		}
	} else if !isNumber(value[0]) {
		return is(value, "a number above 0, in seconds")
	}
	if v, err := strconv.ParseFloat(string(text), 64); err != nil || v <= 0 {
		return "must be a number above 0, in seconds"
	}
	return ""
}

// IsInteger requires an integer of any size.
func IsInteger(value []byte) string {
	if !isNumber(value[0]) {
		return is(value, "an integer")
	}
	if _, ok := parseInteger(value); !ok && !isDigits(value) {
		return "must be an integer"
	}
	return ""
}

func isDigits(value []byte) bool {
	return !slices.ContainsFunc(value, func(b byte) bool { return b == '.' || b == 'e' || b == 'E' })
}

// IsPositive requires an integer above 0.
func IsPositive(value []byte) string {
	return upTo(math.MaxInt64, value, "an integer above 0")
}

// IsChoices requires a number of choices: an integer from 1 to 128.
func IsChoices(value []byte) string {
	return upTo(maxChoices, value, fmt.Sprintf("an integer from 1 to %d", maxChoices))
}

func upTo(limit int64, value []byte, wanted string) string {
	if !isNumber(value[0]) {
		return is(value, wanted)
	}
	if v, ok := parseInteger(value); !ok || v < 1 || v > limit {
		return "must be " + wanted
	}
	return ""
}

// IsArray requires an array.
func IsArray(value []byte) string {
	if value[0] != '[' {
		return is(value, "an array")
	}
	return ""
}

// IsObjectOrText requires an object, or a string, which gateways parse as JSON.
func IsObjectOrText(value []byte) string {
	if value[0] != '{' && value[0] != '"' {
		return is(value, "an object")
	}
	return ""
}

func is(value []byte, wanted string) string {
	return "is " + kindName(value[0]) + "; it must be " + wanted
}
