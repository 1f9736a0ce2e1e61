package upstream

import (
	"regexp"
	"strings"
)

// net/http ends a request that its server did not process with one of these texts, and
// has no type for them where the request cannot be sent again by net/http itself. A
// text that is not recognized leaves the outcome unknown, which is safe. A text must
// begin so: servers choose the end of others.
//
// GOAWAY is a proof by its last stream: streams above it "are not or will not be
// processed" (RFC 9113, section 6.8). After a connection error the number is another one,
// that of the last stream "successfully received" (section 5.4.1), which is 0 for servers
// that keep no count, and part of ours may have been passed on. So GOAWAY with an error
// code proves nothing; net/http shows the code to the first stream of a connection only,
// by another text, and to later ones every GOAWAY as a graceful one.
var (
	refusedStream = regexp.MustCompile(`^http2: Transport: cannot retry err \[stream error: stream ID \d+; REFUSED_STREAM; received from peer\] after `)
	goneAway      = "http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] after "
)

// unprocessed says how an upstream told by HTTP/2 that it did not process a request
// and never will (RFC 9113, section 8.7): it reset the stream with REFUSED_STREAM, or
// it is going away and the stream is above the last one that it has served. It is
// empty for every other error. After a 1xx neither is true.
func unprocessed(err error) string {
	text := err.Error()
	switch {
	case refusedStream.MatchString(text):
		return "it refused the HTTP/2 stream (REFUSED_STREAM)"
	case strings.HasPrefix(text, goneAway):
		return "it is closing the HTTP/2 connection (GOAWAY)"
	default:
		return ""
	}
}
