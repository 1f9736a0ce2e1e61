package upstream

import (
	"regexp"
	"strings"
)

// Errors of net/http for requests that the server did not process. net/http has no type for them if
// it cannot repeat the request itself. An unrecognised text leaves the outcome unknown, which is
// safe. Only the beginning is matched, because servers choose the end of some texts.
//
// A graceful GOAWAY is proof: streams above its last stream "are not or will not be processed" (RFC
// 9113, section 6.8). After a connection error, the number instead means the last stream
// "successfully received" (section 5.4.1). Servers that do not count send 0, although they may have
// passed on part of the request. So a GOAWAY with an error code proves nothing. However, net/http
// reports the error code only to the first stream of a connection, with another text; to later
// streams every GOAWAY looks graceful.
var (
	refusedStream = regexp.MustCompile(`^http2: Transport: cannot retry err \[stream error: stream ID \d+; REFUSED_STREAM; received from peer\] after `)
	goneAway      = "http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] after "
)

// unprocessed returns how an HTTP/2 upstream said that it did not and will not process a request
// (RFC 9113, section 8.7): it reset the stream with REFUSED_STREAM, or sent GOAWAY with a lower
// last stream. It returns "" for other errors. After a 1xx answer neither is proof.
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
