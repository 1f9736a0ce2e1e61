package upstream

import (
	"regexp"
	"strings"
)

// net/http ends a request that its server did not process with one of these texts, and
// has no type for them where the request cannot be sent again by net/http itself. A
// text that is not recognized leaves the outcome unknown, which is safe. All of a text
// must match: servers choose a part of others.
var (
	refusedStream = regexp.MustCompile(`^http2: Transport: cannot retry err \[stream error: stream ID \d+; REFUSED_STREAM; received from peer\] after `)
	goneAway      = []string{
		"http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] after ",
		"http2: Transport received GOAWAY from server ErrCode:", // for the first stream of a connection
	}
)

// unprocessed says how an upstream told by HTTP/2 that it did not process a request
// and never will (RFC 9113, section 8.7): it reset the stream with REFUSED_STREAM, or
// it is going away and the stream is above the last one that it has served. It is
// empty for every other error.
func unprocessed(err error) string {
	text := err.Error()
	if refusedStream.MatchString(text) {
		return "it refused the HTTP/2 stream (REFUSED_STREAM)"
	}
	for _, prefix := range goneAway {
		if strings.HasPrefix(text, prefix) {
			return "it is closing the HTTP/2 connection (GOAWAY)"
		}
	}
	return ""
}
