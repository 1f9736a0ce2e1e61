package chat

import (
	"errors"
	"slices"

	"github.com/genbus/genbus/internal/body"
)

// errReplyTooLarge says that the chunks make more than the assembler may hold.
var errReplyTooLarge = errors.New("the reply is larger than allowed")

// errTooManyFields bounds what looking up a name may cost.
var errTooManyFields = errors.New("an object of more than 256 fields")

const (
	maxFields = 256
	// partCost is what one field takes beyond its bytes.
	partCost = 64
)

// budget counts the bytes that an assembler holds. Its first failure sticks.
type budget struct {
	most, held int
	err        error
}

// take reserves n bytes, or gives some back when n is negative.
func (b *budget) take(n int) bool {
	if b.err != nil {
		return false
	}
	if n > b.most-b.held {
		b.err = errReplyTooLarge
		return false
	}
	b.held += n
	return true
}

// rule says how the values of one field, seen chunk after chunk, become one.
type rule int

const (
	ruleLast  rule = iota // the last that says something
	ruleFirst             // the first that says something
	ruleMore              // arrays one behind the other, of others the last
	ruleJoin              // texts and arrays one behind the other
	ruleDrop              // not kept
	ruleInto              // an object, whose fields have rules of their own
	ruleCalls             // tool calls
)

// schema gives the rules of an object's fields.
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

// record is an object being put together. Its fields keep the order in which
// they were first seen.
type record struct {
	parts []part
}

// part is one field of it. It holds raw JSON; a text or an array without its
// quotes or brackets while it may still grow. The bytes between the quotes can
// be joined as they are: escapes, and even half a surrogate pair or half a
// UTF-8 sequence, find their other half.
type part struct {
	name  string
	form  form
	bytes []byte
	into  *record
	calls *callList
}

type form int

const (
	formRaw form = iota
	formText
	formArray
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

// at finds or makes the part for name, nil when there is no room for it.
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
	if !b.take(len(name) + partCost) {
		return nil
	}
	r.parts = append(r.parts, part{name: string(name)})
	return &r.parts[len(r.parts)-1]
}

// addObject reads an object and adds its fields. It reports faults in c.Bad
// and in b.err.
func (r *record) addObject(c *body.Cursor, s *schema, b *budget) {
	for quoted := range c.Members() {
		name := body.MemberName(quoted)
		if r.add(name, c.Value(), s.of(name), b); b.err != nil {
			return
		}
	}
}

// add adds the value v of one field.
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
	case f.rule == ruleJoin && v[0] == '"':
		p.joinText(v[1:len(v)-1], b)
	case (f.rule == ruleJoin || f.rule == ruleMore) && v[0] == '[' && !isEmpty(v):
		p.joinArray(v, b)
	case f.rule == ruleFirst:
		if isNothing(p.bytes) {
			p.set(v, b)
		}
	default:
		p.setLast(v, b)
	}
}

// setLast replaces the value unless the new one says less: null, "", {} and []
// come in place of what was said before, and an object or text that grows has
// said it.
func (p *part) setLast(v []byte, b *budget) {
	if p.form != formRaw || len(p.bytes) > 0 && !isNull(p.bytes) && isEmpty(v) {
		return
	}
	p.set(v, b)
}

// isEmpty reports whether a value holds nothing; false and 0 do say something.
func isEmpty(v []byte) bool {
	switch string(v) {
	case "null", `""`, "{}", "[]":
		return true
	}
	return false
}

func (p *part) set(v []byte, b *budget) {
	if b.take(len(v) - len(p.bytes)) {
		p.bytes = append(p.bytes[:0], v...)
	}
}

func (p *part) joinText(text []byte, b *budget) {
	if p.form == formArray {
		if len(text) > 0 {
			p.addItem(textItem(text), b)
		}
		return
	}
	if p.form == formRaw {
		p.set(nil, b)
		p.form = formText
	}
	if b.take(len(text)) {
		p.bytes = append(p.bytes, text...)
	}
}

func (p *part) joinArray(v []byte, b *budget) {
	switch before := p.bytes; p.form {
	case formRaw:
		p.set(nil, b)
		p.form = formArray
	case formText:
		p.form = formArray
		if len(before) > 0 {
			p.set(textItem(before), b)
		}
	default: // an array already, or a value that items do not change
	}
	c := body.NewCursor(v)
	for range c.Elements() {
		p.addItem(c.Value(), b)
	}
	if c.Bad {
		b.err = errBadBlock
	}
}

func (p *part) addItem(item []byte, b *budget) {
	if !b.take(len(item) + 1) {
		return
	}
	if len(p.bytes) > 0 {
		p.bytes = append(p.bytes, ',')
	}
	p.bytes = append(p.bytes, item...)
}

// textItem makes a content part of a text, for servers that send now the one
// and now the other.
func textItem(text []byte) []byte {
	item := append([]byte(`{"type":"text","text":"`), text...)
	return append(item, `"}`...)
}

// empty reports whether the part says nothing.
func (p *part) empty() bool {
	return p == nil || p.form == formText && len(p.bytes) == 0 || p.form == formRaw && isNothing(p.bytes)
}

func (p *part) appendValue(dst []byte) []byte {
	switch p.form {
	case formText:
		return append(append(append(dst, '"'), p.bytes...), '"')
	case formArray:
		return append(append(append(dst, '['), p.bytes...), ']')
	case formInto:
		return append(p.into.appendMembers(append(dst, '{'), true), '}')
	case formCalls:
		return p.calls.appendValue(dst)
	default:
		return append(dst, p.bytes...)
	}
}

// appendMembers writes the fields, but for those skipped. first is false when
// others stand before them.
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
