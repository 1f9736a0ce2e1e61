package upstream

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzIsResultURL checks that every result is a data: URL, or an http or https URL with a host.
func FuzzIsResultURL(f *testing.F) {
	for _, seed := range []string{
		"", "http://", "http://h", "HTTPS://h/x", "httpx://h", "http:h", "http:///x", "http://[::1", "http://h:99999/", "http://\x00/", "http://a b/", "data:", "data:,", "DATA:x,y",
		"data:" + strings.Repeat("a", 300) + ",", "file:///etc/passwd", "//h/x", "/x", "upstream failed: http://h", "http://h/" + strings.Repeat("a", 17<<10), "http://user:password@h/", "http://\xff\xfe/",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !IsResultURL(s) || strings.EqualFold(s[:5], "data:") {
			return
		}
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || len(s) > maxResultURL {
			t.Fatalf("%q, %v", s, err)
		}
	})
}

// FuzzStatusWords checks that every word has a progression, and that truncated texts are bounded
// and valid.
func FuzzStatusWords(f *testing.F) {
	for _, seed := range []string{"", "queued", "SUCCESS", " Failed ", "in-progress", "IN_PROGRESS", "\xff", "é", "failed\x00", strings.Repeat("a", 5000), strings.Repeat("é", 3000), "\u0130", "ſuccess", "completed\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if p := ProgressionOf(s); p < Running || p > Failed {
			t.Fatalf("%q is %d", s, p)
		}
		if n := NormaliseStatus(s); NormaliseStatus(n) != n {
			t.Fatalf("%q, and once more %q", n, NormaliseStatus(n))
		}
		for limit, cut := range map[int]string{maxWord: CutWord(s), maxMessage: CutMessage(s)} {
			if len(cut) > limit || !utf8.ValidString(cut) {
				t.Fatalf("%q: %d bytes are left of %d", s, len(cut), len(s))
			}
		}
	})
}
