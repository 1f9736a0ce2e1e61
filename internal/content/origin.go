package content

import (
	"net/url"
	"strings"
)

// origin is a scheme, a host and a port. A key that belongs to one is of no
// concern to any other.
type origin struct{ scheme, host, port string }

// originOf gives the zero origin, which equals none that is called, for a URL
// that is neither http nor https.
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

// SameOrigin reports whether two absolute http or https URLs have the scheme, the
// host and the port in common; a port that is left out is the scheme's. What is no
// such URL has no origin.
func SameOrigin(a, b string) bool {
	x, y := parseAddress(a), parseAddress(b)
	return x != nil && y != nil && originOf(x) == originOf(y)
}

// parseAddress parses an absolute http or https URL; nil when it is none.
func parseAddress(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil || originOf(u) == (origin{}) {
		return nil
	}
	return u
}
