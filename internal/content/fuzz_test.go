package content

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/url"
	"testing"
	"testing/iotest"
)

// FuzzRange checks that a parsed range survives a round trip and lies within a file of any length.
func FuzzRange(f *testing.F) {
	for _, s := range []string{"bytes=0-", "bytes=0-99", "bytes=-5", "bytes=5-1", "bytes=0-1,3-4", "bytes=99999999999999999999-", "bytes", "=-", "Bytes= 1-2 "} {
		f.Add(s, int64(100))
	}
	f.Fuzz(func(t *testing.T, header string, length int64) {
		r := parseRange(header)
		if r == nil {
			return
		}
		if again := parseRange(r.String()); again == nil || *again != *r {
			t.Errorf("%q is %v, and read again %v", header, r, again)
		}
		start, n, ok := r.within(max(length, 0))
		if ok && (start < 0 || n < 1 || start > length-n) {
			t.Errorf("%q of %d bytes: %d from %d", header, length, n, start)
		}
	})
}

// FuzzContentRange checks that a parsed Content-Range survives a round trip and answers only ranges
// that begin where it does.
func FuzzContentRange(f *testing.F) {
	for _, s := range []string{"bytes 0-99/100", "bytes 5-9/*", "bytes */100", "bytes 9-5/10", "bytes 0-9223372036854775807/*", "bytes 0-1/1", ""} {
		f.Add(s, "bytes=0-")
	}
	f.Fuzz(func(t *testing.T, sent, asked string) {
		c, r := parseContentRange(sent), parseRange(asked)
		if c == nil {
			return
		}
		if again := parseContentRange(c.String()); again == nil || *again != *c || c.size() < 1 {
			t.Errorf("%q is %v, and read again %v", sent, c, again)
		}
		if r != nil && c.answers(*r) && r.suffix < 0 && c.first != r.first {
			t.Errorf("%q answers %q", sent, asked)
		}
	})
}

// FuzzDataURL checks that decoding does not depend on the size of reads and inverts encoding.
func FuzzDataURL(f *testing.F) {
	for _, s := range []string{"data:,a%20b", "data:video/mp4;base64,AAAA", "data:;base64,AA==", "data:;base64,_-8", "data:;base64,A A\nA=", "data:,%", "data:;base64,A=A", "data:a;base64;b,AA"} {
		f.Add(s, []byte("\x00\xff"))
	}
	f.Fuzz(func(t *testing.T, s string, data []byte) {
		if d, ok := parseDataURL(s); ok {
			whole, err := io.ReadAll(d.open())
			bytewise, bytewiseErr := io.ReadAll(iotest.OneByteReader(d.open()))
			if (err == nil) != (bytewiseErr == nil) || err == nil && !bytes.Equal(whole, bytewise) {
				t.Errorf("%q: %q, %v in large reads and %q, %v in small ones", s, whole, err, bytewise, bytewiseErr)
			}
		}
		for _, encoded := range []string{
			"data:x/y;base64," + base64.StdEncoding.EncodeToString(data),
			"data:x/y;base64," + base64.RawURLEncoding.EncodeToString(data),
			"data:x/y," + url.PathEscape(string(data)),
		} {
			d, ok := parseDataURL(encoded)
			if got, err := io.ReadAll(d.open()); !ok || err != nil || !bytes.Equal(got, data) || d.kind != "x/y" {
				t.Errorf("%q came back from %q as %q, %v", data, encoded, got, err)
			}
		}
	})
}

// FuzzMediaType checks that a type that is passed on is stable, well-formed and not active content.
func FuzzMediaType(f *testing.F) {
	for _, s := range []string{"video/mp4", "text/html", "TEXT/HTML; charset=x", "image/svg+xml", "application/json", "a", "video/mp4; codecs=\"avc1\"", "text/html;a=b;a=c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		kind := declaredType(header)
		if kind == typeHTML || kind == typeJSON || kind == "" {
			return
		}
		if again := declaredType(kind); again != kind && again != "" || bytes.ContainsAny([]byte(kind), "\r\n") {
			t.Errorf("%q became %q, then %q", header, kind, again)
		}
	})
}
