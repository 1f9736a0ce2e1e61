package fault

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
// HTML would have escaped, such as <, stands as it is: people read it.
func (e *Error) Envelope() []byte {
	body := envelope{Error: envelopeError{Message: Clip(e.Message, maxMessage), Type: e.errorType(), Code: e.httpCode()}}
	if len(e.Violations) > 0 && e.Violations[0].Field != "" {
		body.Error.Param = &e.Violations[0].Field
	}
	out, err := json.Marshal(body, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return []byte(`{"error":{"message":"internal","type":"server_error","param":null,"code":"internal"}}`)
	}
	return out
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

// WriteHTTP answers a request with the error. Our code, Retry-After and
// x-should-retry (which the OpenAI SDKs obey) are set where they apply: an
// answer of unknown acceptance must not be repeated by a client on its own.
func (e *Error) WriteHTTP(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	e.SetHeader(w.Header())
	w.WriteHeader(e.Status())
	// A client that went away is no error of ours.
	_, _ = w.Write(e.Envelope())
}

// SetHeader sets the headers of an answer that says the error, whatever its
// body is.
func (e *Error) SetHeader(h http.Header) {
	h.Set("Genbus-Error-Code", string(e.Code))
	if s := e.RetryAfterText(); s != "" {
		h.Set("Retry-After", s)
	}
	if e.Code == AcceptanceUnknown {
		h.Set("X-Should-Retry", "false")
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
