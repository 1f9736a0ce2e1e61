package sandbox

import (
	"cmp"
	"net/http"
	"strconv"
)

// Error types of the nested envelope.
const (
	kindNewAPI  = "new_api_error"
	kindInvalid = "invalid_request_error"
)

type apiError struct {
	code    string
	message string
	kind    string // nested envelope only
	param   string // nested envelope only
}

// refuser writes an error in the envelope of an upstream. An empty code selects the default code of
// the status.
type refuser func(w http.ResponseWriter, status int, code, message string)

// refusal writes one error. nil means no error.
type refusal func(w http.ResponseWriter)

func (f refuser) refusal(status int, code, message string) refusal {
	return func(w http.ResponseWriter) { f(w, status, code, message) }
}

// refuseNested is the refuser for chats and for paths without video tasks.
func refuseNested(w http.ResponseWriter, status int, code, message string) {
	writeNested(w, status, apiError{code: cmp.Or(code, codeOf(status)), message: message, kind: kindNewAPI})
}

// refuseFlat is the refuser for video tasks behind the common gateway program.
func refuseFlat(w http.ResponseWriter, status int, code, message string) {
	writeFlat(w, status, cmp.Or(code, codeOf(status)), message)
}

// writeNested writes {"error":{"code","message","type","param"}}, the envelope of chat, key, model
// and routing errors.
func writeNested(w http.ResponseWriter, status int, e apiError) {
	writeJSON(w, status, appendNested(nil, e))
}

func appendNested(b []byte, e apiError) []byte {
	b = append(b, `{"error":{"code":`...)
	b = appendJSON(b, e.code)
	b = append(b, `,"message":`...)
	b = appendJSON(b, e.message)
	b = append(b, `,"type":`...)
	b = appendJSON(b, e.kind)
	b = append(b, `,"param":`...)
	b = appendJSON(b, e.param)
	return append(b, `}}`...)
}

// writeFlat writes {"code","message","data":null}, the envelope of video task errors.
func writeFlat(w http.ResponseWriter, status int, code, message string) {
	b := append([]byte(nil), `{"code":`...)
	b = appendJSON(b, code)
	b = append(b, `,"message":`...)
	b = appendJSON(b, message)
	writeJSON(w, status, append(b, `,"data":null}`...))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have disconnected
}

// jsonType is shared by all answers to avoid allocating a header value for each poll.
var jsonType = []string{"application/json; charset=utf-8"}

// modelNotFound refuses a model that no channel serves. The common gateway program answers 503,
// although the error is final.
func modelNotFound(model string) refusal {
	return refuser(refuseNested).refusal(http.StatusServiceUnavailable, "model_not_found",
		"No available channel for model "+model+" under group default (distributor)")
}

// modelNotNamed refuses a create that the gateway cannot route.
func modelNotNamed(w http.ResponseWriter) {
	writeNested(w, http.StatusBadRequest, apiError{message: "Model name not specified", kind: kindNewAPI})
}

func writeFull(w http.ResponseWriter) {
	writeNested(w, http.StatusServiceUnavailable, apiError{
		code:    "system_memory_overloaded",
		message: "the sandbox cannot remember more tasks or keys; raise MaxTasks or restart it",
		kind:    kindNewAPI,
	})
}

func invalidURL(w http.ResponseWriter, r *http.Request) {
	writeNested(w, http.StatusNotFound, apiError{
		message: "Invalid URL (" + r.Method + " " + r.URL.Path + ")",
		kind:    kindInvalid,
	})
}

func codeOf(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "rate_limited"
	case status == http.StatusUnauthorized:
		return "invalid_api_key"
	case status == http.StatusPaymentRequired, status == http.StatusForbidden:
		return "insufficient_user_quota"
	case status >= 500:
		return "internal_error"
	default:
		return "invalid_request"
	}
}
