package body

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/jsonscan"
)

const (
	maxViolations = 20
	maxModelBytes = 256
	maxChoices    = 128
)

// rule judges one member. check is called with the member's text; it adds what
// is wrong to the checker.
type rule struct {
	name     string
	required bool
	check    func(k *checker, value []byte)
}

var videoRules = []rule{
	{"model", true, scalar(modelID)},
	{"prompt", false, scalar(anyString)},
	{"image", false, scalar(anyString)},
	{"duration", false, scalar(seconds)},
	{"width", false, scalar(positive)},
	{"height", false, scalar(positive)},
	{"fps", false, scalar(positive)},
	{"seed", false, scalar(anyInteger)},
	{"n", false, scalar(choices)},
	{"metadata", false, scalar(objectOrText)},
}

var chatRules = []rule{
	{"model", true, scalar(modelID)},
	{"messages", true, (*checker).messages},
	{"stream", false, scalar(boolean)},
	{"temperature", false, scalar(number)},
	{"top_p", false, scalar(number)},
	{"max_tokens", false, scalar(positive)},
	{"n", false, scalar(choices)},
	{"stop", false, (*checker).stop},
	{"tools", false, (*checker).tools},
}

// CheckVideo says what is wrong with a video request's body; nil when nothing
// is. It judges the members of the interface document. Members that it does not
// know are legal, and so is null for one that may be absent. It stops after 20.
func (d Document) CheckVideo() []Violation { return d.check(videoRules) }

// CheckChat says what is wrong with a chat request's body, as CheckVideo does.
// What depends on the model is left to the upstream.
func (d Document) CheckChat() []Violation { return d.check(chatRules) }

func (d Document) check(rules []rule) []Violation {
	k := new(checker)
	values := make([][]byte, len(rules))
	c := jsonscan.New(d.object())
	for quoted := range c.Members() {
		name := jsonscan.Name(quoted)
		if i := slices.IndexFunc(rules, func(r rule) bool { return r.name == string(name) }); i >= 0 {
			values[i] = c.Value()
		}
	}
	for i, r := range rules {
		switch {
		case values[i] == nil && r.required:
			k.add(r.name, "is required")
		case values[i] == nil, values[i][0] == 'n' && !r.required:
		default:
			k.in(r.name, single, values[i], r.check)
		}
	}
	return k.violations
}

type checker struct {
	violations []Violation
	// at leads to the value that is being checked.
	at path
}

func (k *checker) full() bool { return len(k.violations) >= maxViolations }

// add adds a violation of a member of the value, or with "" of the value.
func (k *checker) add(field, description string) {
	if !k.full() {
		k.violations = append(k.violations, Violation{Field: k.at.to(field), Description: description})
	}
}

// in checks a member of the value, or an element of that member.
func (k *checker) in(name string, index int, value []byte, check func(*checker, []byte)) {
	k.at = append(k.at, step{name, index})
	check(k, value)
	k.at = k.at[:len(k.at)-1]
}

// need adds a violation and returns false when the value is of another kind.
func (k *checker) need(value []byte, kind byte, wanted string) bool {
	if value[0] == kind {
		return true
	}
	k.add("", is(value, wanted))
	return false
}

func is(value []byte, wanted string) string {
	return "is " + kindName(value[0]) + "; it must be " + wanted
}

// scalar makes a check of a function that describes what is wrong, or gives "".
func scalar(describe func(value []byte) string) func(*checker, []byte) {
	return func(k *checker, value []byte) {
		if wrong := describe(value); wrong != "" {
			k.add("", wrong)
		}
	}
}

func modelID(value []byte) string {
	if wrong := someText(value); wrong != "" {
		return wrong
	}
	switch model := textOf(value); {
	case len(model) > maxModelBytes:
		return fmt.Sprintf("has %d bytes; a model id has at most %d", len(model), maxModelBytes)
	case slices.ContainsFunc([]rune(model), unicode.IsControl):
		return "holds a control character; a model id has none"
	}
	return ""
}

func someText(value []byte) string {
	if string(value) == `""` {
		return "is empty; it is required"
	}
	return anyString(value)
}

func anyString(value []byte) string {
	if value[0] != '"' {
		return is(value, "a string")
	}
	return ""
}

func boolean(value []byte) string {
	if value[0] != 't' && value[0] != 'f' {
		return is(value, "true or false")
	}
	return ""
}

func number(value []byte) string {
	if !isNumber(value[0]) {
		return is(value, "a number")
	}
	return ""
}

// seconds takes "5" too: clients of gateways send it.
func seconds(value []byte) string {
	text := value
	if value[0] == '"' {
		text = []byte(textOf(value))
		if !jsontext.Value(text).IsValid() || !isNumber(text[0]) {
			return "is a string that holds no number; it must be a number above 0, in seconds"
		}
	} else if !isNumber(value[0]) {
		return is(value, "a number above 0, in seconds")
	}
	if v, err := strconv.ParseFloat(string(text), 64); err != nil || v <= 0 {
		return "must be a number above 0, in seconds"
	}
	return ""
}

func anyInteger(value []byte) string {
	if !isNumber(value[0]) {
		return is(value, "an integer")
	}
	if _, ok := parseInteger(value); !ok && !isDigits(value) {
		return "must be an integer"
	}
	return ""
}

// isDigits tells integers of any size from numbers with a fraction or exponent.
func isDigits(value []byte) bool {
	return !slices.ContainsFunc(value, func(b byte) bool { return b == '.' || b == 'e' || b == 'E' })
}

func positive(value []byte) string {
	return upTo(math.MaxInt64, value, "an integer above 0")
}

func choices(value []byte) string {
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

// objectOrText takes a string too: gateways read JSON in it.
func objectOrText(value []byte) string {
	if value[0] != '{' && value[0] != '"' {
		return is(value, "an object")
	}
	return ""
}

func (k *checker) messages(value []byte) {
	if !k.need(value, '[', "an array of messages") {
		return
	}
	if n := k.each(value, (*checker).message); n == 0 {
		k.add("", "is empty; at least one message is required")
	}
}

// each checks the elements of an array, and gives their number or the number of
// those that it looked at before there were violations enough.
func (k *checker) each(value []byte, check func(*checker, []byte)) int {
	last := len(k.at) - 1
	of := k.at[last]
	c, n := jsonscan.New(value), 0
	for i := range c.Elements() {
		n++
		k.at[last].index = i
		if check(k, c.Value()); k.full() {
			break
		}
	}
	k.at[last] = of
	return n
}

func (k *checker) message(value []byte) {
	if !k.need(value, '{', "an object with role and content") {
		return
	}
	c, role := jsonscan.New(value), false
	for quoted := range c.Members() {
		switch string(jsonscan.Name(quoted)) {
		case "role":
			role = true
			k.in("role", single, c.Value(), checkRole)
		case "content":
			k.in("content", single, c.Value(), (*checker).content)
		}
	}
	if !role {
		k.add("role", `is required, such as "user"`)
	}
}

var checkRole = scalar(someText)

func (k *checker) content(value []byte) {
	switch value[0] {
	case '"', 'n':
	case '[':
		k.each(value, (*checker).object)
	default:
		k.add("", is(value, "a string, an array of parts, or null"))
	}
}

func (k *checker) object(value []byte) { k.need(value, '{', "an object") }

func (k *checker) string(value []byte) { k.need(value, '"', "a string") }

func (k *checker) tools(value []byte) {
	if k.need(value, '[', "an array of tools") {
		k.each(value, (*checker).object)
	}
}

func (k *checker) stop(value []byte) {
	switch value[0] {
	case '"':
	case '[':
		k.each(value, (*checker).string)
	default:
		k.add("", is(value, "a string or an array of strings"))
	}
}
