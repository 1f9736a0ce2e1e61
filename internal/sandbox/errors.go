package sandbox

import (
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
	_, _ = w.Write(body) // the client may be gone; there is nobody else to tell
}

// jsonType is shared by all answers so that a poll allocates no header value.
var jsonType = []string{"application/json; charset=utf-8"}

func writeModelNotFound(w http.ResponseWriter, model string) {
	writeNested(w, http.StatusServiceUnavailable, apiError{
		code:    "model_not_found",
		message: "No available channel for model " + model + " under group default (distributor)",
		kind:    kindNewAPI,
	})
}

func writeFull(w http.ResponseWriter) {
	writeNested(w, http.StatusServiceUnavailable, apiError{
		code:    "system_memory_overloaded",
		message: "the sandbox remembers no more tasks or keys; raise MaxTasks or restart it",
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
