package content

import (
	"net/netip"
	"net/url"
	"testing"
)

func TestIsPublic(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"1.1.1.1", "8.8.8.8", "11.0.0.1", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.0.1.1", "193.0.0.1",
		"198.17.255.255", "198.20.0.1", "223.255.255.255", "168.63.129.15", "2600::1", "2a00:1450::1", "2003::1", "::ffff:8.8.8.8",
		"64:ff9b::8.8.8.8", "2002:808:808::1",
	} {
		if !isPublic(netip.MustParseAddr(s)) {
			t.Errorf("%s is not public", s)
		}
	}
	for _, s := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "100.127.255.255", "127.0.0.1",
		"127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1",
		"192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
		"255.255.255.255", "168.63.129.16",
		"::", "::1", "::127.0.0.1", "::ffff:10.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1", "64:ff9b::10.0.0.1",
		"64:ff9b::a9fe:a9fe", "64:ff9b:1::8.8.8.8", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::1",
		"3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "4000::1",
		"2001:db8::1%lo", "::1%lo",
	} {
		if isPublic(netip.MustParseAddr(s)) {
			t.Errorf("%s is public", s)
		}
	}
	if isPublic(netip.Addr{}) || guard(t.Context(), "tcp", "no address", nil) == nil || guard(t.Context(), "tcp", "8.8.8.8:443", nil) != nil {
		t.Error("the guard is wrong about what is no address, or about one that is")
	}
}

// TestProxiesOnlyWherePrivateAddressesAreAllowed checks that only the transport for private
// addresses uses the environment's proxies, since a proxy would reach private addresses for us. It
// inspects the transports because net/http reads the environment only once per process.
func TestProxiesOnlyWherePrivateAddressesAreAllowed(t *testing.T) {
	t.Parallel()
	r := NewReader(Options{})
	defer r.Close()
	if r.public.Proxy != nil || r.anywhere.Proxy == nil {
		t.Error("the transports use proxies the wrong way round")
	}
	stranger := &url.URL{Scheme: "http", Host: "results.invalid"}
	for private, want := range map[bool]any{false: r.public, true: r.anywhere} {
		w := &walk{reader: r, place: Place{PrivateOK: private}}
		if got := w.transport(stranger); got != want {
			t.Errorf("with private addresses %v a stranger is called by the wrong transport", private)
		}
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		a, b string
		same bool
	}{
		{"https://host/a", "https://host:443/b", true},
		{"http://host/a", "http://host:80", true},
		{"HTTP://HOST/a", "http://host/b?c", true},
		{"https://user:pass@host/", "https://host/", true},
		{"http://[::1]/", "http://[::1]:80/", true},
		{"http://host", "https://host", false},
		{"https://host", "https://host:8443", false},
		{"https://host:80", "http://host", false},
		{"https://host", "https://host.evil", false},
		{"https://host", "https://evil/@host", false},
		{"https://host", "https://host@evil", false},
		{"https://host", "https://evil#host", false},
	} {
		a, b := parseAddress(row.a), parseAddress(row.b)
		if a == nil || b == nil {
			t.Errorf("%s or %s is no address", row.a, row.b)
		} else if got := originOf(a) == originOf(b); got != row.same {
			t.Errorf("%s and %s: same origin %v", row.a, row.b, got)
		}
		if got := SameOrigin(row.a, row.b); got != row.same {
			t.Errorf("SameOrigin(%s, %s) = %v", row.a, row.b, got)
		}
	}
	if originOf(&url.URL{Scheme: "ftp", Host: "host"}) != (origin{}) {
		t.Error("ftp has an origin")
	}
	for _, none := range []string{"", "/v/a.mp4", "host", "ftp://host/", "data:,", "http://", "http://%zz/"} {
		if SameOrigin(none, none) {
			t.Errorf("%q has an origin", none)
		}
	}
}
