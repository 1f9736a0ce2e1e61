package chat

import (
	"strings"

	"github.com/genbus/genbus/internal/upstream"
)

// TimedOut reports whether a call failed because someone stopped waiting for the upstream: genbus,
// or a gateway in front of the model. The upstream may still be working on the chat and charge for
// it, so that repeating the call may cost twice. It is false for a call that the upstream certainly
// did not get.
func TimedOut(e *upstream.Error) bool {
	named := namesTimeout(e.Code) || namesTimeout(e.Type)
	refused := e.Final && e.Code+e.Type != "" && !named
	if e.Op != op || !e.Written || refused {
		return false
	}
	switch e.Code {
	case CodeFirstByteTimeout, CodeIdleTimeout, CodeTotalTimeout:
		return true
	}
	switch e.HTTPStatus {
	case 408, // LiteLLM's litellm.Timeout
		504,
		524: // Cloudflare: the origin accepted the request and did not answer within 100 s
		return true
	}
	// A gateway that has begun an answer, or answers 500 for everything, has only words.
	return e.Reported && (e.HTTPStatus < 300 || e.HTTPStatus >= 500) && named
}

// namesTimeout reports whether a code or type is a word for a timeout, such as timeout_error,
// APITimeoutError, upstream_timeout or DEADLINE_EXCEEDED, or the status of one.
func namesTimeout(word string) bool {
	switch word {
	case "408", "504", "524":
		return true
	}
	word = strings.ToLower(word)
	return strings.Contains(word, "timeout") || strings.Contains(word, "timed_out") || word == "deadline_exceeded"
}
