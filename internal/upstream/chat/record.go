package chat

import (
	"errors"
	"slices"

	"github.com/genbus/genbus/internal/body"
)

// errReplyTooLarge reports that the reply exceeds the assembler's limit.
var errReplyTooLarge = errors.New("the reply is larger than allowed")

// errTooManyFields reports an object with more fields than maxFields, which bounds the cost of
// looking up a name.
var errTooManyFields = errors.New("an object of more than 256 fields")

const (
	maxFields = 256
	// partCost is the memory that a field uses in addition to its bytes.
	partCost = 64
)

// budget counts the bytes that an assembler holds. Its first error sticks.
type budget struct {
	limit, held int
	err         error
}

// reserve reserves n bytes, or releases some if n is negative.
func (b *budget) reserve(n int) bool {
	if b.err != nil {
		return false
	}
	if n > b.limit-b.held {
		b.err = errReplyTooLarge
		return false
	}
	b.held += n
	return true
}

// rule describes how to merge the values of a field across chunks.
type rule int

const (
	ruleLast  rule = iota // the last value that is not empty
	ruleFirst             // the first value that is not empty
	ruleMore              // concatenate arrays; keep the last of other values
	ruleText              // concatenate strings and arrays
	ruleList              // merge the elements of arrays; keep the last of other values
	ruleJoin              // concatenate strings, merge the elements of arrays
	ruleDrop              // drop the field
	ruleInto              // merge objects by the rules of their fields
	ruleCalls             // merge tool calls
)

type schema struct {
	fields map[string]field
	others rule
}

type field struct {
	rule rule
	into *schema
}

func (s *schema) of(name []byte) field {
	if f, known := s.fields[string(name)]; known {
		return f
	}
	return field{rule: s.others}
}

// record is an object being assembled. Its fields are in the order in which they first appeared.
type record struct {
	parts []part
}

// part is a field of a record, as raw JSON. Strings that may still grow are stored without quotes.
// They can be concatenated byte by byte, even if an escape, a
// surrogate pair or a UTF-8 sequence is split between chunks.
type part struct {
	name  string
	form  form
	bytes []byte
	into  *record
	calls *callList
	items *itemList
}

type form int

const (
	formRaw form = iota
	formText
	formItems
	formInto
	formCalls
)

func (r *record) find(name string) *part {
	for i := range r.parts {
		if r.parts[i].name == name {
			return &r.parts[i]
		}
	}
	return nil
}

// at returns the part for name and creates it if needed. It returns nil if a limit is reached.
func (r *record) at(name []byte, b *budget) *part {
	for i := range r.parts {
		if r.parts[i].name == string(name) {
			return &r.parts[i]
		}
	}
	if len(r.parts) == maxFields {
		b.err = errTooManyFields
		return nil
	}
	if !b.reserve(len(name) + partCost) {
		return nil
	}
	r.parts = append(r.parts, part{name: string(name)})
	return &r.parts[len(r.parts)-1]
}

// addObject merges the fields of an object. It reports errors in c.Bad and b.err.
func (r *record) addObject(c *body.Cursor, s *schema, b *budget) {
	for quoted := range c.Members() {
		name := body.MemberName(quoted)
		if r.add(name, c.Value(), s.of(name), b); b.err != nil {
			return
		}
	}
}

func (r *record) add(name, v []byte, f field, b *budget) {
	if f.rule == ruleDrop || v == nil {
		return
	}
	p := r.at(name, b)
	if p == nil {
		return
	}
	switch {
	case f.rule == ruleInto && v[0] == '{':
		if p.into == nil {
			p.into, p.form = new(record), formInto
		}
		p.into.addObject(body.NewCursor(v), f.into, b)
	case f.rule == ruleCalls && v[0] == '[':
		if p.calls == nil {
			p.calls, p.form = new(callList), formCalls
		}
		p.calls.add(v, b)
	case (f.rule == ruleJoin || f.rule == ruleText) && v[0] == '"':
		p.joinText(v[1:len(v)-1], b)
	case (f.rule == ruleJoin || f.rule == ruleList) && v[0] == '[' && !isEmpty(v):
		p.joinArray(v, true, b)
	case (f.rule == ruleText || f.rule == ruleMore) && v[0] == '[' && !isEmpty(v):
		p.joinArray(v, false, b)
	case f.rule == ruleFirst:
		if isNothing(p.bytes) {
			p.set(v, b)
		}
	default:
		p.setLast(v, b)
	}
}

// setLast replaces the value. It keeps the old one if the part is not raw JSON, or if the new value
// is empty (null, "", {} or []) and the old one is not null.
func (p *part) setLast(v []byte, b *budget) {
	if p.form != formRaw || len(p.bytes) > 0 && !isNull(p.bytes) && isEmpty(v) {
		return
	}
	p.set(v, b)
}

// isEmpty reports whether a value is empty. The values false and 0 are not empty.
func isEmpty(v []byte) bool {
	switch string(v) {
	case "null", `""`, "{}", "[]":
		return true
	}
	return false
}

func (p *part) set(v []byte, b *budget) {
	if b.reserve(len(v) - len(p.bytes)) {
		p.bytes = append(p.bytes[:0], v...)
	}
}

func (p *part) joinText(text []byte, b *budget) {
	if p.form == formItems {
		if len(text) > 0 {
			p.items.addWhole(textItem(text), b)
		}
		return
	}
	if p.form == formRaw {
		p.set(nil, b)
		p.form = formText
	}
	if b.reserve(len(text)) {
		p.bytes = append(p.bytes, text...)
	}
}

func (p *part) joinArray(v []byte, merge bool, b *budget) {
	if p.form == formRaw || p.form == formText {
		text := p.bytes
		if p.form == formRaw {
			text = nil
		}
		p.set(nil, b)
		p.items, p.form = new(itemList), formItems
		if len(text) > 0 {
			p.items.addWhole(textItem(text), b)
		}
	}
	if p.form == formItems { // the other forms keep their value
		p.items.add(v, merge, b)
	}
}

// textItem converts text to a content part, for servers that mix both forms.
func textItem(text []byte) []byte {
	item := append([]byte(`{"type":"text","text":"`), text...)
	return append(item, `"}`...)
}

// empty reports whether the part has no meaningful value.
func (p *part) empty() bool {
	return p == nil || p.form == formText && len(p.bytes) == 0 || p.form == formRaw && isNothing(p.bytes)
}

func (p *part) appendValue(dst []byte) []byte {
	switch p.form {
	case formText:
		return append(append(append(dst, '"'), p.bytes...), '"')
	case formItems:
		return p.items.appendValue(dst)
	case formInto:
		return append(p.into.appendMembers(append(dst, '{'), true), '}')
	case formCalls:
		return p.calls.appendValue(dst)
	default:
		return append(dst, p.bytes...)
	}
}

// appendMembers writes the fields except those in skip. first is false if other members precede
// them.
func (r *record) appendMembers(dst []byte, first bool, skip ...string) []byte {
	for i := range r.parts {
		p := &r.parts[i]
		if slices.Contains(skip, p.name) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = p.appendValue(body.AppendName(dst, p.name))
	}
	return dst
}
