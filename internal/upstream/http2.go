package upstream

import (
	"regexp"
	"strings"
)

// Texts of the net/http errors for requests that the server did not process. net/http has no error
// type for them if it cannot retry the request itself. If a text is not recognised, the outcome is
// unknown, which is safe. Only the start of a text is matched, because the server controls the rest
// of some of them.
//
// A graceful GOAWAY is proof, because streams above its last stream ID "are not or will not be
// processed" (RFC 9113, section 6.8). After a connection error, the ID instead names the last
// stream "successfully received" (section 5.4.1). Servers that do not track it send 0, although
// they may have passed on part of the request. So a GOAWAY with an error code proves nothing.
// However, net/http reports the error code only for the first stream of a connection, in a
// different text. For the other streams, every GOAWAY looks graceful.
var (
	refusedStream  = regexp.MustCompile(`^http2: Transport: cannot retry err \[stream error: stream ID \d+; REFUSED_STREAM; received from peer\] after `)
	gracefulGoAway = "http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] after "
)

// unprocessed describes how an HTTP/2 upstream signalled that it did not and will not process a
// request (RFC 9113, section 8.7): it reset the stream with REFUSED_STREAM, or sent GOAWAY with a
// lower last stream ID. It returns "" for other errors. If the upstream has sent a 1xx answer,
// neither signal is proof.
func unprocessed(err error) string {
	text := err.Error()
	switch {
	case refusedStream.MatchString(text):
		return "it refused the HTTP/2 stream (REFUSED_STREAM)"
	case strings.HasPrefix(text, gracefulGoAway):
		return "it is closing the HTTP/2 connection (GOAWAY)"
	default:
		return ""
	}
}
