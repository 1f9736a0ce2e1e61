package content

import (
	"net/netip"
	"net/url"
	"testing"
)

// FuzzAddress checks that every accepted address is http or https with a host, and has the same
// origin after the round trip through String that a request makes.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{
		"", "http://h", "HTTP://H:80/x", "https://h:443", "http://h:/", "http://[::1]:8080/", "http://[::1%25lo]/", "http://user:password@h/", "http://h\\@evil.example/", "http://h#@evil.example/", "http://evil.example%2f@h/",
		"http:h", "http:///x", "//h/x", "file:///etc/passwd", "gopher://h/", "data:,x", "http://h?x#y", "http://h/%0d%0a", "http://h/\x7f", "http://①②⑦.0.0.1/", "http://127.1/", "http://h:99999/", "http://h:0080/", "javascript://h/%0aalert(1)",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u := parseAddress(s)
		if u == nil {
			if SameOrigin(s, s) {
				t.Fatalf("%q is none, and has an origin", s)
			}
			return
		}
		if u.Hostname() == "" || originOf(u).scheme != "http" && originOf(u).scheme != "https" || !SameOrigin(s, s) {
			t.Fatalf("%q is called as %v", s, originOf(u))
		}
		again, err := url.Parse(u.String())
		if err == nil && originOf(again) != originOf(u) {
			t.Fatalf("%q is judged as %v and called as %v", s, originOf(u), originOf(again))
		}
	})
}

// FuzzIsPublic checks that no form of an address of this machine or of a private network counts as
// public.
func FuzzIsPublic(f *testing.F) {
	for _, seed := range []string{
		"127.0.0.1", "::1", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "fe80::1%lo", "2600::1", "8.8.8.8", "0.0.0.0", "255.255.255.255", "fc00::", "ff02::1", "2001:0:1:2::",
	} {
		a := netip.MustParseAddr(seed)
		f.Add(a.AsSlice())
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, ok := netip.AddrFromSlice(raw)
		if !ok || !isPublic(a) {
			return
		}
		plain := a.Unmap()
		if plain.IsLoopback() || plain.IsPrivate() || plain.IsLinkLocalUnicast() || plain.IsMulticast() || plain.IsUnspecified() || !plain.IsGlobalUnicast() {
			t.Fatalf("%s is public", a)
		}
		if plain.Is4() && !isPublic(netip.AddrFrom16(plain.As16())) {
			t.Fatalf("%s is public, and mapped to IPv6 it is not", a)
		}
		if !isPublic(a.WithZone("lo")) {
			t.Fatalf("%s is another one with a zone", a)
		}
	})
}
