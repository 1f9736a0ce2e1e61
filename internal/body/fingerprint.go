package body

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/genbus/genbus/internal/jsonscan"
)

// Fingerprint gives the SHA-256 of the canonical form of a request's body:
// members sorted by name at every level, no white space between tokens, strings
// with the shortest escapes, numbers as written (1.0 is not 1). Two bodies with
// one fingerprint are the same request.
func (d Document) Fingerprint() [sha256.Size]byte {
	f := canonical{c: jsonscan.Cursor{Text: d.text}, out: make([]byte, 0, len(d.text))}
	f.value()
	return sha256.Sum256(f.out)
}

// canonical appends the canonical form of what c walks over to out.
type canonical struct {
	c   jsonscan.Cursor
	out []byte
	// members are those of the open objects, the innermost last.
	members []member
	scratch []byte
}

// member is a span of canonical text: the quoted name ends at colon.
type member struct{ start, colon, end int }

// value is called by itself for nested values; MaxDepth bounds it.
func (f *canonical) value() {
	switch f.c.Peek() {
	case '"':
		f.out = appendCanonicalString(f.out, f.c.Value())
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
		f.out = appendCanonicalString(f.out, quoted)
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

// appendCanonicalString keeps half a surrogate pair as an escape, so that it
// stays apart from U+FFFD.
func appendCanonicalString(out, quoted []byte) []byte {
	for {
		i := bytes.IndexByte(quoted, '\\')
		if i < 0 {
			return append(out, quoted...)
		}
		out = append(out, quoted[:i]...)
		if quoted[i+1] != 'u' {
			out = appendShortEscape(out, quoted[i+1])
			quoted = quoted[i+2:]
			continue
		}
		r, n := unicodeEscape(quoted[i:])
		out = appendCanonicalRune(out, r)
		quoted = quoted[i+n:]
	}
}

func appendShortEscape(out []byte, b byte) []byte {
	if b == '/' {
		return append(out, '/')
	}
	return append(out, '\\', b)
}

// unicodeEscape reads \uXXXX, or two of them that are a surrogate pair, and
// gives the rune (or the surrogate alone) and the length.
func unicodeEscape(s []byte) (rune, int) {
	r := hexRune(s[2:6])
	if utf16.IsSurrogate(r) && len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
		if pair := utf16.DecodeRune(r, hexRune(s[8:12])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return r, 6
}

func hexRune(hex []byte) rune {
	v, _ := strconv.ParseUint(string(hex), 16, 16) // the grammar has been checked
	return rune(v)
}

func appendCanonicalRune(out []byte, r rune) []byte {
	const short = "\b\t\n\f\r\"\\"
	switch i := bytes.IndexRune([]byte(short), r); {
	case r < utf8.RuneSelf && i >= 0:
		return append(out, '\\', `btnfr"\`[i])
	case r < ' ' || utf16.IsSurrogate(r):
		return append(append(out, '\\', 'u'), hexDigits(r)...)
	default:
		return utf8.AppendRune(out, r)
	}
}

func hexDigits(r rune) []byte {
	const digits = "0123456789abcdef"
	return []byte{digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15]}
}
