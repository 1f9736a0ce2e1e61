package natsapi

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzOneLine checks that a NATS header value is one line of valid text.
func FuzzOneLine(f *testing.F) {
	for _, seed := range []string{"", "a", "a\r\nb: c", "\x00", "\xff\xfe", strings.Repeat("é", 400), "\t"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := oneLine(s)
		if len(got) > 512 || !utf8.ValidString(got) || strings.ContainsFunc(got, func(c rune) bool { return c < ' ' }) {
			t.Fatalf("%q", got)
		}
	})
}
