package body

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Fingerprint gives the SHA-256 of the canonical form of a request's body:
// members sorted by name at every level, no white space between tokens, strings
// with the shortest escapes, numbers as written (1.0 is not 1). Two bodies with
// one fingerprint are the same request.
func (d Document) Fingerprint() [sha256.Size]byte {
	f := canonical{c: Cursor{Text: d.object()}, out: make([]byte, 0, len(d.text))}
	f.value()
	return sha256.Sum256(f.out)
}

// canonical appends the canonical form of what c walks over to out.
type canonical struct {
	c   Cursor
	out []byte
	// members are those of the open objects, the innermost last.
	members []member
	scratch []byte
	text    []byte // of the last string
}

// member is a span of canonical text: the quoted name ends at colon.
type member struct{ start, colon, end int }

// value is called by itself for nested values; MaxDepth bounds it.
func (f *canonical) value() {
	switch f.c.Peek() {
	case '"':
		f.string(f.c.Value())
	case '{':
		f.object()
	case '[':
		f.out = append(f.out, '[')
		for n := range f.c.Elements() {
			if n > 0 {
				f.out = append(f.out, ',')
			}
			f.value()
		}
		f.out = append(f.out, ']')
	default:
		f.out = append(f.out, f.c.Value()...)
	}
}

func (f *canonical) object() {
	f.out = append(f.out, '{')
	first := len(f.members)
	for quoted := range f.c.Members() {
		if len(f.members) > first {
			f.out = append(f.out, ',')
		}
		m := member{start: len(f.out)}
		f.string(quoted)
		m.colon = len(f.out)
		f.out = append(f.out, ':')
		f.value()
		m.end = len(f.out)
		f.members = append(f.members, m)
	}
	f.sort(f.members[first:])
	f.members = f.members[:first]
	f.out = append(f.out, '}')
}

// sort puts the members, which end the text, into the order of their names. It
// copies them only when they are in another order.
func (f *canonical) sort(members []member) {
	byName := func(a, b member) int {
		return bytes.Compare(f.out[a.start:a.colon], f.out[b.start:b.colon])
	}
	if slices.IsSortedFunc(members, byName) {
		return
	}
	begin := members[0].start
	slices.SortFunc(members, byName)
	f.scratch = append(f.scratch[:0], f.out[begin:]...)
	f.out = f.out[:begin]
	for i, m := range members {
		if i > 0 {
			f.out = append(f.out, ',')
		}
		f.out = append(f.out, f.scratch[m.start-begin:m.end-begin]...)
	}
}

// string writes a string with the shortest escapes, as jsontext does. Only half of a
// surrogate pair, for which that would write U+FFFD, stays an escape: the two are not the
// same request.
func (f *canonical) string(quoted []byte) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		f.out = append(f.out, quoted...)
		return
	}
	if f.requote(quoted) {
		return
	}
	f.out = append(f.out, '"')
	rest := quoted[1 : len(quoted)-1]
	for i := bytes.IndexByte(rest, '\\'); i >= 0; i = bytes.IndexByte(rest, '\\') {
		f.out = append(f.out, rest[:i]...)
		rest = rest[i+f.escape(rest[i:]):]
	}
	f.out = append(append(f.out, rest...), '"')
}

// requote is false, and has written nothing, for what has half of a pair in it or is no
// string.
func (f *canonical) requote(quoted []byte) bool {
	text, err := jsontext.AppendUnquote(f.text[:0], quoted)
	if f.text = text; err != nil {
		return false
	}
	f.out, err = jsontext.AppendQuote(f.out, text)
	return err == nil
}

// escape writes the escape that rest begins with, and what may follow it, and gives the
// length of what it has read: the longest that is whole, or else half of a pair.
func (f *canonical) escape(rest []byte) int {
	from := len(f.out)
	for _, n := range []int{len(`\ud83d\ude00`), len(`\u0041`), len(`\n`)} {
		if n <= len(rest) && f.requote(append(append([]byte{'"'}, rest[:n]...), '"')) {
			f.out = append(f.out[:from], f.out[from+1:len(f.out)-1]...)
			return n
		}
	}
	f.out = append(f.out, bytes.ToLower(rest[:len(`\ud83d`)])...)
	return len(`\ud83d`)
}
