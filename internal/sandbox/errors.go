package sandbox

import (
	"cmp"
	"net/http"
	"strconv"
)

// The error types of the nested envelope.
const (
	kindNewAPI  = "new_api_error"
	kindInvalid = "invalid_request_error"
)

// apiError is an error answer, in either envelope.
type apiError struct {
	code    string
	message string
	kind    string // nested envelope only
	param   string // nested envelope only
}

// refuser answers an error in the envelope of one kind of upstream. An empty code
// means the one that the status suggests.
type refuser func(w http.ResponseWriter, status int, code, message string)

// refusal answers one error; nil is none.
type refusal func(w http.ResponseWriter)

func (f refuser) refusal(status int, code, message string) refusal {
	return func(w http.ResponseWriter) { f(w, status, code, message) }
}

// refuseNested is the refuser of everything that is no video task.
func refuseNested(w http.ResponseWriter, status int, code, message string) {
	writeNested(w, status, apiError{code: cmp.Or(code, codeOf(status)), message: message, kind: kindNewAPI})
}

// refuseFlat is the refuser of video tasks behind the common gateway program.
func refuseFlat(w http.ResponseWriter, status int, code, message string) {
	writeFlat(w, status, cmp.Or(code, codeOf(status)), message)
}

// writeNested answers {"error":{"code","message","type","param"}}: chat, keys,
// models, routing.
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

// writeFlat answers {"code","message","data":null}: the errors of video tasks.
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
	_, _ = w.Write(body) // the client may be gone
}

// jsonType is shared by all answers so that a poll allocates no header value.
var jsonType = []string{"application/json; charset=utf-8"}

// modelNotFound refuses a model that no channel serves, as the common gateway
// program does: 503, though it is final.
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

// codeOf is the code word of a refusal that names none.
func codeOf(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "rate_limited"
	case status == http.StatusUnauthorized:
		return "invalid_api_key"
	case status == http.StatusForbidden:
		return "insufficient_user_quota"
	case status >= 500:
		return "internal_error"
	default:
		return "invalid_request"
	}
}
