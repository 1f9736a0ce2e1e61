package admission

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
)

// Limits of what is not the body.
const (
	maxRequestID = 255
	maxLabels    = 16
	maxLabel     = 128 // bytes of a key or a value
)

// Check is the one validator: it judges the request, finds its route and its
// id, and stores nothing. Every error is a *fault.Error.
func (a *Admission) Check(r Request) (Checked, error) {
	if int64(len(r.Body)) > int64(a.cfg.HTTP.MaxBodyBytes) {
		return Checked{}, fault.New(fault.BodyTooLarge, "the body has %d bytes; the limit is %d", len(r.Body), a.cfg.HTTP.MaxBodyBytes)
	}
	head, err := body.Header(r.Body)
	if err != nil {
		return Checked{}, fault.New(fault.InvalidJSON, "the body is not one JSON object: %w", err)
	}
	if v := a.violations(r); len(v) > 0 {
		return Checked{}, fault.Invalid(v)
	}
	c := Checked{Model: head.Model, Stream: head.Stream}
	if err := a.route(r, &c); err != nil {
		return Checked{}, err
	}
	if c.Fingerprint, err = body.Fingerprint(r.Body); err != nil {
		return Checked{}, fault.New(fault.InvalidJSON, "the body is not one JSON object: %w", err)
	}
	source, err := r.source()
	if err != nil {
		return Checked{}, fault.From(err)
	}
	c.ID, c.Fresh = JobID(r.Kind, r.Tenant, source.text), source.random
	return c, nil
}

func (r Request) source() (Source, error) {
	switch {
	case r.RequestID != "":
		return ByRequestID(r.RequestID), nil
	case r.Inbox != nil:
		return *r.Inbox, nil
	default:
		return ByNothing()
	}
}

func (a *Admission) route(r Request, c *Checked) error {
	route, ok := a.cfg.Route(string(r.Kind), c.Model)
	if !ok {
		return fault.New(fault.ModelNotFound, "no %s route serves the model %q; see GET /v1/models", r.Kind, fault.Clip(c.Model, 128))
	}
	if r.Protocol != "" && r.Protocol != route.Protocol {
		return fault.New(fault.WrongProtocol, "the model %q is served by protocol %q, not %q", c.Model, route.Protocol, fault.Clip(r.Protocol, 64))
	}
	c.Route = route
	return nil
}

func (a *Admission) violations(r Request) []fault.Violation {
	var out []fault.Violation
	add := func(field, format string, args ...any) {
		out = append(out, fault.Violation{Field: field, Description: fmt.Sprintf(format, args...)})
	}
	if err := subject.CheckToken(r.Tenant); err != nil {
		add("tenant", "%v", err)
	}
	if !printable(r.RequestID) || len(r.RequestID) > maxRequestID {
		add("request_id", "must be 1 to %d printable ASCII characters", maxRequestID)
	}
	if r.RetryOf != "" && !jobID(r.RetryOf) {
		add("retry_of", "must be the id of a job")
	}
	if !r.ExpiresAt.IsZero() && !r.ExpiresAt.After(a.now()) {
		add("expires_at", "%s has passed", r.ExpiresAt.UTC().Format(time.RFC3339))
	}
	if r.Archive != nil && *r.Archive {
		add("archive", "is not available in this version; leave it out")
	}
	if len(r.Labels) > maxLabels {
		add("labels", "there are %d; at most %d are allowed", len(r.Labels), maxLabels)
	}
	for k, v := range r.Labels {
		if k == "" || len(k) > maxLabel || len(v) > maxLabel || !utf8.ValidString(k) || !utf8.ValidString(v) {
			add("labels", "every key needs 1 to %d bytes of UTF-8, every value at most %d", maxLabel, maxLabel)
			break
		}
	}
	for _, v := range bodyViolations(r) {
		add(v.Field, "%s", v.Description)
	}
	return out
}

func bodyViolations(r Request) []body.Violation {
	if r.Kind == subject.Chat {
		return body.CheckChat(r.Body)
	}
	return body.CheckVideo(r.Body)
}

func jobID(id string) bool {
	_, ok := KindOf(id)
	return ok
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// JobID is the id of the job that the request names, or "" when its tenant or
// its request id is not legal, or when nothing identifies it.
func (r Request) JobID() string {
	if subject.CheckToken(r.Tenant) != nil || !printable(r.RequestID) || len(r.RequestID) > maxRequestID {
		return ""
	}
	source, err := r.source()
	if err != nil || source.random {
		return ""
	}
	return JobID(r.Kind, r.Tenant, source.text)
}
