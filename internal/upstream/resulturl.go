package upstream

import (
	"net/netip"
	"net/url"
	"strings"
)

// maxResultURL bounds the bytes of an http or https result URL. A data: URL is bounded by the limit
// on the answer.
const maxResultURL = 16 << 10

// reachable returns the address of a result. If a remote gateway sends a loopback address,
// reachable puts it on the base URL's server: the gateway's public address was never set, and it
// means itself. A loopback address from a gateway on this machine stays as it is.
func (ep *Endpoint) reachable(result string) string {
	u, err := url.Parse(result)
	if err != nil || !loopback(u.Hostname()) {
		return result
	}
	base, err := url.Parse(ep.BaseURL)
	if err != nil || loopback(base.Hostname()) {
		return result
	}
	return ep.URL(u.RequestURI())
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}

// IsResultURL reports whether s is an absolute http or https URL, or a data: URL. Servers also put
// failure texts and paths where the URL belongs, and these are no results.
func IsResultURL(s string) bool {
	if len(s) > len("data:") && strings.EqualFold(s[:len("data:")], "data:") {
		return strings.Contains(s[:min(len(s), 256)], ",")
	}
	if len(s) > maxResultURL || len(s) < len("http://h") || !strings.EqualFold(s[:4], "http") {
		return false
	}
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}
