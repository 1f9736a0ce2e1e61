package admission

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/upstream/registry"
)

// Limits of fields outside the body.
const (
	maxRequestID = 255
	maxLabels    = 16
	maxLabel     = 128 // bytes of a key or value
	maxSize      = 32  // stored bytes of the requested size
)

// Check validates a request and finds its ID and route. It stores nothing. Every error is an
// *errcode.Error. The result depends on the time and the configuration, so Check may refuse a
// request that was accepted earlier. If c has a fingerprint, c.ID names a job that may exist, even
// if err is not nil.
func (a *Admission) Check(r Request) (c Checked, err error) {
	if c.ID, c.Fresh, err = r.id(); err != nil {
		return c, err
	}
	if c.ID != "" && !c.Fresh {
		c.Fingerprint = r.Fingerprint()
	}
	if r.Attached != nil {
		err = a.checkAttached(r, &c)
	} else {
		err = a.check(r, &c)
	}
	return c, err
}

func (a *Admission) check(r Request, c *Checked) error {
	n, limit := int64(len(r.Body.Bytes())), int64(a.cfg.LimitsOf(r.Tenant).MaxBodyBytes)
	if n > limit {
		return errcode.New(errcode.BodyTooLarge, "the body has %d bytes; the limit is %d", n, limit)
	}
	if err := r.Body.Err(); err != nil {
		return body.Fault(err)
	}
	read := a.readBody(r)
	if v := append(a.violations(r), read.violations...); len(v) > 0 {
		return errcode.Invalid(v)
	}
	c.Model, c.Stream, c.StreamSet = read.model, read.head.Stream, read.head.StreamSet
	if err := a.route(r, read, c); err != nil {
		return err
	}
	if err := c.write(r); err != nil {
		return err
	}
	if c.Route.Draining {
		return errcode.New(errcode.ModelNotFound, "route %s, which serves the model %q, is draining and accepts no new jobs", c.Route.Name, errcode.Clip(c.Model, maxModel))
	}
	return nil
}

// checkAttached is like check but for a task that was already submitted. Such a task only needs
// polling, so a draining route accepts it too. The body is kept without validation and may be
// missing.
func (a *Admission) checkAttached(r Request, c *Checked) error {
	if v := a.violations(r); len(v) > 0 {
		return errcode.Invalid(v)
	}
	t := r.Attached
	c.Route, c.Model, c.Body, c.Asked = t.Route, t.Model, r.Body.Bytes(), t.Asked
	return t.Refusal
}

// write sets the body for the upstream: the client's own bytes, or the typed request in its route's
// protocol.
func (c *Checked) write(r Request) error {
	d := r.Body
	c.Body = d.Bytes()
	if r.Kind != subject.Video {
		return nil
	}
	p, ok := registry.Find(c.Route.Protocol)
	if !ok {
		return errcode.New(errcode.Internal, "route %s speaks protocol %q, which does not exist", c.Route.Name, c.Route.Protocol)
	}
	if r.Typed != nil && p.Name != registry.Default().Name {
		var err error
		if d, err = p.Bodies.FromTyped(r.Typed); err != nil {
			return unwritable(err)
		}
		c.Body = d.Bytes()
		if v := p.Bodies.Check(d); len(v) > 0 {
			return errcode.Invalid(v)
		}
	}
	c.Asked = p.Bodies.Asked(d)
	c.Asked.Size = errcode.Clip(c.Asked.Size, maxSize) // stored in every event of the task
	return nil
}

// unwritable returns the error for a typed request that has no JSON form. The error names the
// invalid field if it is known.
func unwritable(err error) error {
	var field *body.FieldError
	if errors.As(err, &field) {
		return errcode.Invalid([]errcode.Violation{{Field: field.Field, Description: field.Description}})
	}
	return errcode.New(errcode.InvalidRequest, "encode the request as JSON: %w", err)
}

// Fingerprint returns a hash of the request's body or attached task, for comparing requests with
// the same ID. It returns nil if the body is not a JSON object, because no accepted request had
// such a body.
func (r Request) Fingerprint() []byte {
	if r.Attached != nil {
		return r.Attached.fingerprint()
	}
	if r.Body.Err() != nil {
		return nil
	}
	sum := r.Body.Fingerprint()
	return sum[:]
}

// id returns the ID of the request's job, or "" if the tenant or request ID is invalid. fresh is
// true if nothing identifies the request.
func (r Request) id() (id string, fresh bool, err error) {
	legal := subject.CheckToken(r.Tenant) == nil && LegalRequestID(r.RequestID)
	if !legal {
		return "", false, nil
	}
	source, err := r.source()
	if err != nil {
		return "", false, errcode.From(err)
	}
	return subject.JobID(r.Kind, r.Tenant, source.text), source.random, nil
}

func (r Request) source() (Source, error) {
	switch {
	case r.RequestID != "":
		return ByRequestID(r.RequestID), nil
	case r.Source != nil:
		return *r.Source, nil
	default:
		return byNothing()
	}
}

func (a *Admission) violations(r Request) []errcode.Violation {
	var out []errcode.Violation
	add := func(field, format string, args ...any) {
		out = append(out, errcode.Violation{Field: field, Description: fmt.Sprintf(format, args...)})
	}
	if err := subject.CheckToken(r.Tenant); err != nil {
		add("tenant", "%v", err)
	}
	if !LegalRequestID(r.RequestID) {
		add("request_id", "must be 1 to %d printable ASCII characters", maxRequestID)
	}
	if r.RetryOf != "" && !jobID(r.RetryOf) {
		add("retry_of", "must be a job ID")
	}
	if !r.ExpiresAt.IsZero() {
		// Skip this check if the clock is wrong. In that case, item refuses queued requests.
		if now, err := a.b.Clock().Now(); err == nil && !r.ExpiresAt.After(now) {
			add("expires_at", "%s has passed", r.ExpiresAt.UTC().Format(time.RFC3339))
		}
	}
	if r.Archive != nil && r.Kind != subject.Video {
		add("archive", "is for videos only")
	}
	if len(r.Labels) > maxLabels {
		add("labels", "has %d entries; the limit is %d", len(r.Labels), maxLabels)
	}
	for k, v := range r.Labels {
		if k == "" || len(k) > maxLabel || len(v) > maxLabel || !utf8.ValidString(k) || !utf8.ValidString(v) {
			add("labels", "every key must have 1 to %d bytes of UTF-8, and every value at most %d", maxLabel, maxLabel)
			break
		}
	}
	return out
}

func jobID(id string) bool {
	_, ok := subject.KindOf(id)
	return ok
}

// LegalRequestID reports whether id has at most 255 characters, all printable ASCII. It accepts the
// empty string.
func LegalRequestID(id string) bool {
	for i := range len(id) {
		if id[i] < 0x20 || id[i] > 0x7e {
			return false
		}
	}
	return len(id) <= maxRequestID
}

// JobID returns the ID of the job that the request names, or "" if its tenant or request ID is
// invalid or nothing identifies it.
func (r Request) JobID() string {
	id, fresh, err := r.id()
	if err != nil || fresh {
		return ""
	}
	return id
}
