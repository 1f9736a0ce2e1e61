package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/genbus/genbus/internal/api/core"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// exchange is one HTTP call by a tenant or operator.
type exchange struct {
	*response
	r      *http.Request
	h      *Handler
	tenant string // empty for an operator
}

const (
	headerJobID  = "Genbus-Job-Id"
	headerNotice = "Genbus-Notice"
)

// enter checks the origin, identifies the tenant, counts the request and checks the query.
func (x *exchange) enter(identify func(*exchange) (string, error)) (err error) {
	if err := x.checkOrigin(); err != nil {
		return err
	}
	x.tenant, err = x.h.core.Callers.Enter(func() (string, error) { return identify(x) })
	if err != nil {
		return err
	}
	return x.checkQuery()
}

// run identifies the tenant and serves the call. Calls join the caller's trace only after the
// tenant has been identified.
func (x *exchange) run(identify func(*exchange) (string, error), serve func(*exchange) error) error {
	if err := x.enter(identify); err != nil {
		return err
	}
	// If spans are exported, the context already contains the server's span.
	if x.r.Header["Traceparent"] != nil && !trace.SpanContextFromContext(x.ctx()).IsValid() {
		x.r = x.r.WithContext(x.h.propagator.Extract(x.r.Context(), propagation.HeaderCarrier(x.r.Header)))
	}
	return serve(x)
}

func (x *exchange) ctx() context.Context { return x.r.Context() }

func (x *exchange) name(kind subject.Kind) subject.JobName {
	return subject.JobName{Kind: kind, Tenant: x.tenant, ID: x.r.PathValue("id")}
}

func (x *exchange) request(kind subject.Kind, d body.Document) (admission.Request, error) {
	req := admission.Request{Kind: kind, Tenant: x.tenant, Body: d, Ingress: telemetry.IngressHTTP}
	err := natsreq.AddHeaders(&req, x.r.Header.Get("Idempotency-Key"), strings.Join(x.r.Header["Genbus-Labels"], ","))
	return req, err
}

// number parses an integer query parameter between least and most. If the parameter is empty,
// number returns missing.
func number(text, field string, missing, least, most int) (int, error) {
	if text == "" {
		return missing, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, errcode.Invalid([]errcode.Violation{{
			Field: field, Description: mustBe(fmt.Sprintf("must be an integer from %d to %d", least, most), text),
		}})
	}
	return n, nil
}

// job sets the response headers for a job's ID and notice, if any.
func (x *exchange) job(j task.Job) {
	x.jobID(j.GetId())
	if notice := x.h.core.Jobs.Notice(j); notice != "" {
		x.Header()[headerNotice] = []string{notice}
	}
}

// jobID sets the response header for a job's ID.
func (x *exchange) jobID(id string) {
	if id != "" {
		x.Header()[headerJobID] = []string{id}
	}
}

func (x *exchange) json(status int, body []byte) error {
	h := x.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.WriteHeader(status)
	// Ignore a failed write, because the client may have left.
	_, _ = x.Write(body)
	return nil
}

// fail answers with an error, unless the answer has already begun.
func (x *exchange) fail(err error) {
	f := errcode.From(err)
	x.note(err)
	if x.status != 0 {
		return
	}
	setRefusal(x.Header(), x.r, err)
	x.refuse(x.response, f)
}

// setRefusal sets the response headers for an error. They are the same for all body formats.
func setRefusal(h http.Header, r *http.Request, err error) {
	f := errcode.From(err)
	if f.JobID != "" {
		h[headerJobID] = []string{f.JobID}
	}
	var final *core.FinalError
	switch {
	case errors.As(err, &final):
		h[errcode.HeaderShouldRetry] = []string{"false"} // a retry would attach to the ended job
	case f.Code == errcode.AcceptanceUnknown && r.Header.Get("Idempotency-Key") != "":
		h[errcode.HeaderShouldRetry] = []string{"true"} // the same key attaches to an accepted job
	case f.Code == errcode.InvalidAPIKey:
		h["Www-Authenticate"] = []string{"Bearer"}
	case f.Code == errcode.ShuttingDown:
		h["Connection"] = []string{"close"}
	}
	f.SetHeader(h)
}

// note logs an error if the caller does not see all of it.
func (x *exchange) note(err error) {
	f := errcode.From(err)
	if level, ok := core.LogLevel(x.ctx(), f); ok {
		x.h.log.Log(x.ctx(), level, "HTTP call failed", telemetry.KeyRequestID, x.Header().Get("X-Request-Id"),
			telemetry.KeyRoute, x.r.Pattern, telemetry.KeyJobID, f.JobID, telemetry.KeyError, f)
	}
}
