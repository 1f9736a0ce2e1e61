package console

import (
	"net/url"
	"strconv"
)

// Path is the path of the console.
const Path = "/console"

func jobURL(kind, tenant, id string) string {
	return Path + "/jobs/" + url.PathEscape(kind) + "/" + url.PathEscape(tenant) + "/" + url.PathEscape(id)
}

// query1 returns the address of a page with query parameters, given as alternating names and
// values. It omits empty values.
func query1(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return Path + path
	}
	return Path + path + "?" + q.Encode()
}

func deadLetterURL(seq uint64) string { return Path + "/decisions/" + strconv.FormatUint(seq, 10) }
