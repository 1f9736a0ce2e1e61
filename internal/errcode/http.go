package errcode

import (
	"math"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// envelope is the error body of the OpenAI API.
type envelope struct {
	Error envelopeError `json:"error"`
}

type envelopeError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// Envelope returns the error's JSON body for HTTP: {"error":{message,type,param,code}}. It does not
// escape characters such as <, unlike encoding/json, because people read it.
func (e *Error) Envelope() []byte {
	body := envelope{Error: envelopeError{Message: Clip(e.Message, MaxMessage), Type: e.httpType(), Code: e.httpCode()}}
	if len(e.Violations) > 0 && e.Violations[0].Field != "" {
		body.Error.Param = &e.Violations[0].Field
	}
	out, err := json.Marshal(body, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return []byte(`{"error":{"message":"internal","type":"server_error","param":null,"code":"internal"}}`)
	}
	return out
}

// httpType returns the error's type. For an upstream's refusal that is answered with a 5xx, it
// returns server_error, because clients attribute a 5xx to the server.
func (e *Error) httpType() string {
	if t := e.errorType(); t != typeRequest || e.Status() < http.StatusInternalServerError {
		return t
	}
	return typeServer
}

// httpCode returns the error's code. If an upstream's refusal is passed on with its status, it
// returns the upstream's own code, which clients know.
func (e *Error) httpCode() string {
	if e.HTTPStatus != 0 && e.UpstreamCode != "" {
		return Clip(e.UpstreamCode, 128)
	}
	return string(e.Code)
}

// Status returns the error's HTTP status.
func (e *Error) Status() int {
	if e.HTTPStatus != 0 {
		return e.HTTPStatus
	}
	return e.Meaning().HTTP
}

// WriteHTTP answers a request with the error.
func (e *Error) WriteHTTP(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	e.SetHeader(w.Header())
	w.WriteHeader(e.Status())
	// The client may have disconnected.
	_, _ = w.Write(e.Envelope())
}

// HeaderCode is the header with the code of an error answer.
const HeaderCode = "Genbus-Error-Code"

// HeaderShouldRetry tells the OpenAI SDKs whether to retry a request. Without it they retry every
// 408, 409, 429 and 5xx.
const HeaderShouldRetry = "X-Should-Retry"

// SetHeader sets the headers of an error answer, regardless of its body. X-Should-Retry follows the
// table and TimedOut, unless the caller has set it.
func (e *Error) SetHeader(h http.Header) {
	h.Set(HeaderCode, string(e.Code))
	if s := e.RetryAfterText(); s != "" {
		h.Set("Retry-After", s)
	}
	if h.Get(HeaderShouldRetry) == "" {
		h.Set(HeaderShouldRetry, strconv.FormatBool(e.Meaning().Retry && !e.TimedOut))
	}
}

// RetryAfterText returns the value of a Retry-After header in whole seconds, at least 1. It returns
// "" if the time is unknown.
func (e *Error) RetryAfterText() string {
	if e.RetryAfter <= 0 {
		return ""
	}
	return strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds())))
}
