package chat

import (
	"slices"

	"github.com/genbus/genbus/internal/body"
)

// maxItems limits the elements of a list that may still grow. Further elements are only added.
const maxItems = 1024

// growing are the types of elements that arrive in fragments with neither an index nor an ID: the
// thinking of LiteLLM and Mistral, and OpenRouter's reasoning.
var growing = []string{"thinking", "reasoning.text", "reasoning.summary"}

// Members of an element that are text. The data of other elements than encrypted reasoning is an
// image or sound, which arrives whole. Lists inside an element are not merged, so that their depth
// does not matter.
var (
	itemSchema = schema{fields: map[string]field{
		"text": {rule: ruleText}, "thinking": {rule: ruleText}, "reasoning": {rule: ruleText}, "summary": {rule: ruleText},
		"content": {rule: ruleText}, "arguments": {rule: ruleText}, "input": {rule: ruleText},
	}}
	encryptedSchema = schema{fields: map[string]field{"data": {rule: ruleText}}}
)

// itemList assembles an array of a delta. Its elements are in the order in which they first
// appeared.
type itemList struct {
	items  []item
	grown  int // items with a record
	arrays int // arrays added
}

// item is an element that may still grow, or a run of elements that do not.
type item struct {
	run      []byte // the elements, with commas between them; nil if there is a record
	index    int    // -1 if missing
	id, kind string
	array    int // number of the last array with a fragment
	record   record
}

// itemFragment holds the values of an element that decide which item it continues.
type itemFragment struct {
	text                []byte
	index               int // -1 if missing
	id, kind, signature []byte
}

// add adds the elements of an array. If merge is false, no element continues an earlier one.
func (l *itemList) add(array []byte, merge bool, b *budget) {
	l.arrays++
	c := body.NewCursor(array)
	for range c.Elements() {
		v := c.Value()
		if len(v) > 0 && v[0] == '{' && merge {
			l.merge(v, b)
		} else {
			l.addWhole(v, b)
		}
		if b.err != nil {
			return
		}
	}
	if c.Bad {
		b.err = errBadBlock
	}
}

// addWhole adds an element that does not grow.
func (l *itemList) addWhole(v []byte, b *budget) {
	if !b.reserve(len(v) + 1) {
		return
	}
	if n := len(l.items); n > 0 && l.items[n-1].run != nil {
		last := &l.items[n-1]
		last.run = append(append(last.run, ','), v...)
		return
	}
	l.items = append(l.items, item{run: slices.Clone(v)})
}

// merge adds an object to the item that it continues, if any.
func (l *itemList) merge(v []byte, b *budget) {
	f := readItem(v)
	if f.index < 0 && len(f.id) == 0 && !slices.Contains(growing, string(f.kind)) {
		l.addWhole(v, b)
		return
	}
	it := l.find(f)
	if it == nil {
		if l.grown == maxItems {
			l.addWhole(v, b)
			return
		}
		if !b.reserve(2 * partCost) {
			return
		}
		l.grown++
		l.items = append(l.items, item{index: f.index})
		it = &l.items[len(l.items)-1]
	}
	it.array = l.arrays
	if it.id == "" {
		it.id = string(f.id)
	}
	if it.kind == "" {
		it.kind = string(f.kind)
	}
	c := body.NewCursor(v)
	if it.record.addObject(c, it.schema(), b); c.Bad && b.err == nil {
		b.err = errBadBlock
	}
}

func readItem(v []byte) itemFragment {
	f := itemFragment{text: v, index: -1}
	c := body.NewCursor(v)
	for quoted := range c.Members() {
		name, v := body.MemberName(quoted), c.Value()
		switch string(name) {
		case "index":
			f.index = number(v, -1)
		case "id":
			f.id = inside(v)
		case "type":
			f.kind = inside(v)
		case "signature":
			f.signature = v
		}
	}
	return f
}

// inside returns the text of a JSON string as written, or nil for any other value.
func inside(v []byte) []byte {
	if !isString(v) {
		return nil
	}
	return v[1 : len(v)-1]
}

func (it *item) schema() *schema {
	if it.kind == "reasoning.encrypted" {
		return &encryptedSchema
	}
	return &itemSchema
}

// find returns the item that a fragment continues, or nil if it starts a new one. This is the last
// item with the same index or ID. If the fragment has neither, it is the last item of an earlier
// array. Some servers number every element 0, so the item must also take the fragment.
func (l *itemList) find(f itemFragment) *item {
	for i := len(l.items) - 1; i >= 0; i-- {
		it := &l.items[i]
		switch {
		case f.index >= 0 && (it.run != nil || it.index != f.index):
			continue
		case f.index < 0 && len(f.id) > 0 && it.id != string(f.id):
			continue
		case it.run != nil, f.index < 0 && len(f.id) == 0 && it.array == l.arrays, !it.takes(f):
			return nil
		}
		return it
	}
	return nil
}

// takes reports whether a fragment may continue the item. Text continues it unless the fragment has
// another type or ID, or the item is signed. Other members must not change.
func (it *item) takes(f itemFragment) bool {
	if differ(it.kind, f.kind) || differ(it.id, f.id) {
		return false
	}
	text, same := false, true
	c, s := body.NewCursor(f.text), it.schema()
	for quoted := range c.Members() {
		name, v := body.MemberName(quoted), c.Value()
		p := it.record.find(string(name))
		switch {
		case isEmpty(v):
		case s.of(name).rule == ruleText:
			text = true
		case !p.empty() && string(p.bytes) != string(v):
			same = false
		}
	}
	if signature := it.record.find("signature"); text && !signature.empty() {
		return string(signature.bytes) == string(f.signature)
	}
	return text || same
}

func differ(a string, b []byte) bool { return a != "" && len(b) > 0 && a != string(b) }

func (l *itemList) appendValue(dst []byte) []byte {
	dst = append(dst, '[')
	for i := range l.items {
		if i > 0 {
			dst = append(dst, ',')
		}
		if it := &l.items[i]; it.run != nil {
			dst = append(dst, it.run...)
		} else {
			dst = append(it.record.appendMembers(append(dst, '{'), true), '}')
		}
	}
	return append(dst, ']')
}
