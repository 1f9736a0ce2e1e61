package errcode

import (
	"math"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// envelope is the error body of the OpenAI interface.
type envelope struct {
	Error envelopeError `json:"error"`
}

type envelopeError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// Envelope is the error's JSON body on HTTP: {"error":{message,type,param,code}}. What
// encoding/json escapes for HTML, such as <, is not escaped: people read it.
func (e *Error) Envelope() []byte {
	body := envelope{Error: envelopeError{Message: Clip(e.Message, maxMessage), Type: e.httpType(), Code: e.httpCode()}}
	if len(e.Violations) > 0 && e.Violations[0].Field != "" {
		body.Error.Param = &e.Violations[0].Field
	}
	out, err := json.Marshal(body, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return []byte(`{"error":{"message":"internal","type":"server_error","param":null,"code":"internal"}}`)
	}
	return out
}

// httpType is the error's type, but for a request that an upstream refused and that is
// answered with a status of ours: SDKs and people take a 5xx for the server's matter.
func (e *Error) httpType() string {
	if t := e.errorType(); t != typeRequest || e.Status() < http.StatusInternalServerError {
		return t
	}
	return typeServer
}

// httpCode is the error's code, but for a refusal of the upstream that is passed
// on with its status: clients know the upstream's own code.
func (e *Error) httpCode() string {
	if e.HTTPStatus != 0 && e.UpstreamCode != "" {
		return Clip(e.UpstreamCode, 128)
	}
	return string(e.Code)
}

// Status is the error's HTTP status.
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
	// A client that went away is no error of ours.
	_, _ = w.Write(e.Envelope())
}

// HeaderShouldRetry tells the OpenAI SDKs whether to send a request again on their own.
// Without it they repeat every 408, 409, 429 and 5xx.
const HeaderShouldRetry = "X-Should-Retry"

// SetHeader sets the headers of an answer that says the error, whatever its
// body is. X-Should-Retry says what the table says, unless the caller, who knows the
// request, has set it before.
func (e *Error) SetHeader(h http.Header) {
	h.Set("Genbus-Error-Code", string(e.Code))
	if s := e.RetryAfterText(); s != "" {
		h.Set("Retry-After", s)
	}
	if h.Get(HeaderShouldRetry) == "" {
		h.Set(HeaderShouldRetry, strconv.FormatBool(e.Meaning().Retry))
	}
}

// RetryAfterText is the value of a Retry-After header: whole seconds, at least 1. It is
// empty where nothing is known of when to try again.
func (e *Error) RetryAfterText() string {
	if e.RetryAfter <= 0 {
		return ""
	}
	return strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds())))
}
