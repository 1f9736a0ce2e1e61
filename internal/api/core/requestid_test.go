package core

import "testing"

// FuzzRequestID checks that an id from a caller is safe in a header and a log.
func FuzzRequestID(f *testing.F) {
	for _, seed := range []string{"", "a-1", "a b", "a\r\nb", "\x7f"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		got := RequestID([]string{given})[0]
		if got == "" || len(got) > maxCallID {
			t.Fatalf("%q", got)
		}
		for _, c := range []byte(got) {
			if c <= ' ' || c >= 0x7f {
				t.Fatalf("%q", got)
			}
		}
	})
}
