package upstream

import (
	"net/netip"
	"net/url"
	"strings"
)

// maxResultURL bounds an http or https result URL, in bytes. A data: URL is
// bounded by the answer's own limit.
const maxResultURL = 16 << 10

// reachable is the address of a result, with the server of the base URL in place of a
// loopback address: that is what a gateway writes whose own public address was never set,
// and there it means the gateway itself. A gateway on this machine means what it says.
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

// IsResultURL reports whether s is an absolute http or https URL, or a data:
// URL. Nothing else is taken for a result: servers put failure texts and paths
// where the URL belongs.
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
