package body

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Fingerprint returns the SHA-256 of the body's canonical form: members sorted by name at every
// level, no white space between tokens, strings with the shortest escapes, numbers as written (1.0
// differs from 1). Two bodies with the same fingerprint are the same request.
func (d Document) Fingerprint() [sha256.Size]byte {
	f := canonical{c: Cursor{Text: d.object()}, out: make([]byte, 0, len(d.text))}
	f.value()
	return sha256.Sum256(f.out)
}

// canonical appends the canonical form of the text under c to out.
type canonical struct {
	c   Cursor
	out []byte
	// members holds the members of the open objects, the innermost last.
	members []member
	scratch []byte
	text    []byte // of the last string
}

// member locates a member in the canonical text. The quoted name ends at colon.
type member struct{ start, colon, end int }

// value recurses into nested values, up to MaxDepth.
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

// sort orders the members at the end of the text by name. It copies them only if they are out of
// order.
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

// string writes a string with the shortest escapes, as jsontext does, except that half a surrogate
// pair stays an escape. jsontext would write U+FFFD instead, and two different requests could get
// the same fingerprint.
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

// requote writes a string with the shortest escapes. If quoted is not a string or contains half a
// surrogate pair, it writes nothing and returns false.
func (f *canonical) requote(quoted []byte) bool {
	text, err := jsontext.AppendUnquote(f.text[:0], quoted)
	if f.text = text; err != nil {
		return false
	}
	f.out, err = jsontext.AppendQuote(f.out, text)
	return err == nil
}

// escape writes the escape at the start of rest and returns how many bytes it read. It prefers the
// longest valid escape. If there is none, it writes half a surrogate pair.
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
