package upstream

import (
	"net/netip"
	"net/url"
	"strings"
)

// maxResultURL is the maximum length in bytes of an http or https result URL. A data: URL is
// limited only by the size of the answer.
const maxResultURL = 16 << 10

// reachable returns the URL at which genbus can reach a result. If a remote gateway sends a
// loopback URL, it means itself, and its public address was never configured. reachable then
// replaces the server in the URL with that of the base URL. A loopback URL from a gateway on this
// machine is left unchanged.
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

// IsResultURL reports whether s is an absolute http or https URL, or a data: URL. Some servers put
// error messages or paths where the URL belongs. Those are not results.
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
