package console

import (
	"net/url"
	"strconv"
)

// Path is where the console is. Everything of it is below.
const Path = "/console"

// jobURL is the page of a job.
func jobURL(kind, tenant, id string) string {
	return Path + "/jobs/" + url.PathEscape(kind) + "/" + url.PathEscape(tenant) + "/" + url.PathEscape(id)
}

// query1 is the address of a page with parameters, given as names and values; empty ones are
// left out.
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

// letterURL is the page of a dead letter.
func letterURL(seq uint64) string { return Path + "/decisions/" + strconv.FormatUint(seq, 10) }
