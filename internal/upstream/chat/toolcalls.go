package chat

import (
	"cmp"
	"errors"
	"slices"

	"github.com/genbus/genbus/internal/body"
)

const maxCalls = 1024

var errTooManyCalls = errors.New("more than 1024 tool calls in one choice")

// callList assembles the tool calls of a choice from fragments.
type callList struct {
	calls []toolCall
}

type toolCall struct {
	index  int
	id     string
	named  bool
	record record
}

// fragment holds the values of a tool call fragment that decide which call the fragment belongs to.
type fragment struct {
	index int // -1 if missing
	id    []byte
	named bool
}

func (l *callList) add(array []byte, b *budget) {
	c := body.NewCursor(array)
	for range c.Elements() {
		v := c.Value()
		if len(v) == 0 || v[0] != '{' {
			continue
		}
		f := readFragment(v)
		call := l.find(f)
		if call == nil {
			call = l.begin(f, b)
		}
		if call == nil {
			return
		}
		if len(f.id) > 0 && call.id == "" {
			call.id = string(f.id)
		}
		call.named = call.named || f.named
		o := body.NewCursor(v)
		call.record.addObject(o, &callSchema, b)
		if o.Bad {
			c.Fail()
		}
		if b.err != nil {
			return
		}
	}
	if c.Bad {
		b.err = errBadBlock
	}
}

func readFragment(v []byte) fragment {
	f := fragment{index: -1}
	c := body.NewCursor(v)
	for name := range c.Members() {
		switch string(body.MemberName(name)) {
		case "index":
			f.index = number(c.Value(), -1)
		case "id":
			if id := c.Value(); isString(id) {
				f.id = id[1 : len(id)-1]
			}
		case "function", "custom":
			f.named = !isNothing(body.FindMember(c.Value(), "name"))
		}
	}
	return f
}

// find returns the call that a fragment continues, or nil if it starts a new call. Some servers
// omit the index, repeat the ID, or number every call 0.
func (l *callList) find(f fragment) *toolCall {
	for i := len(l.calls) - 1; i >= 0; i-- {
		call := &l.calls[i]
		other := len(f.id) > 0 && call.id != "" && call.id != string(f.id)
		switch {
		case f.index >= 0:
			if call.index == f.index {
				if other && f.named {
					return nil
				}
				return call
			}
		case len(f.id) > 0:
			if call.id == string(f.id) {
				return call
			}
		default:
			if f.named && call.named {
				return nil
			}
			return call
		}
	}
	return nil
}

func (l *callList) begin(f fragment, b *budget) *toolCall {
	if len(l.calls) == maxCalls {
		b.err = errTooManyCalls
		return nil
	}
	if !b.reserve(2 * partCost) {
		return nil
	}
	index := f.index
	if index < 0 {
		index = len(l.calls)
	}
	l.calls = append(l.calls, toolCall{index: index})
	return &l.calls[len(l.calls)-1]
}

func (l *callList) appendValue(dst []byte) []byte {
	slices.SortStableFunc(l.calls, func(a, b toolCall) int { return cmp.Compare(a.index, b.index) })
	dst = append(dst, '[')
	for i := range l.calls {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(l.calls[i].record.appendMembers(append(dst, '{'), true), '}')
	}
	return append(dst, ']')
}
