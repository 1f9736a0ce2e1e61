package upstream

import (
	"net/url"
	"strings"
)

// maxResultURL bounds an http or https result URL, in bytes. A data: URL is
// bounded by the answer's own limit.
const maxResultURL = 16 << 10

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
