package content

import (
	"net/url"
	"strings"
)

// origin is a scheme, a host and a port. A key is sent only to the origin that it belongs to.
type origin struct{ scheme, host, port string }

// originOf returns the origin of an http or https URL. For any other URL it returns the zero
// origin, which no callable URL has.
func originOf(u *url.URL) origin {
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	switch {
	case scheme != "http" && scheme != "https" || u.Hostname() == "":
		return origin{}
	case port == "" && scheme == "http":
		port = "80"
	case port == "":
		port = "443"
	}
	return origin{scheme, strings.ToLower(u.Hostname()), port}
}

// SameOrigin reports whether two absolute http or https URLs have the same scheme, host and port. A
// missing port is the scheme's default. It returns false if either is not such a URL.
func SameOrigin(a, b string) bool {
	x, y := parseAddress(a), parseAddress(b)
	return x != nil && y != nil && originOf(x) == originOf(y)
}

// parseAddress parses an absolute http or https URL. It returns nil for anything else.
func parseAddress(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil || originOf(u) == (origin{}) {
		return nil
	}
	return u
}
