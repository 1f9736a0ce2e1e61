package admission

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/protocol"
	"github.com/genbus/genbus/internal/subject"
)

// Limits of what is not the body.
const (
	maxRequestID = 255
	maxLabels    = 16
	maxLabel     = 128 // bytes of a key or a value
	maxSize      = 32  // bytes that are kept of the size that a request asks for
)

// Check is the one validator: it judges the request, finds its route and its
// id, and stores nothing. Every error is a *errcode.Error.
func (a *Admission) Check(r Request) (Checked, error) {
	if r.Attached != nil {
		return a.checkAttached(r)
	}
	n, limit := int64(len(r.Body.Bytes())), int64(a.cfg.LimitsOf(r.Tenant).MaxBodyBytes)
	if n > limit {
		return Checked{}, errcode.New(errcode.BodyTooLarge, "the body has %d bytes; the limit is %d", n, limit)
	}
	if err := r.Body.Err(); err != nil {
		return Checked{}, body.Fault(err)
	}
	read := a.readBody(r)
	if v := append(a.violations(r), read.violations...); len(v) > 0 {
		return Checked{}, errcode.Invalid(v)
	}
	c := Checked{Model: read.model, Stream: read.head.Stream, StreamSet: read.head.StreamSet}
	if err := a.route(r, read, &c); err != nil {
		return Checked{}, err
	}
	if err := c.write(r); err != nil {
		return Checked{}, err
	}
	source, err := r.source()
	if err != nil {
		return Checked{}, errcode.From(err)
	}
	c.ID, c.Fresh = subject.JobID(r.Kind, r.Tenant, source.text), source.random
	if !c.Fresh {
		sum := r.Body.Fingerprint()
		c.Fingerprint = sum[:]
	}
	return c, nil
}

// checkAttached is Check for a task that was submitted once already. Its body is
// not judged again, and may be missing: it is only kept.
func (a *Admission) checkAttached(r Request) (Checked, error) {
	if v := a.violations(r); len(v) > 0 {
		return Checked{}, errcode.Invalid(v)
	}
	source, err := r.source()
	if err != nil {
		return Checked{}, errcode.From(err)
	}
	t := r.Attached
	return Checked{
		ID: subject.JobID(r.Kind, r.Tenant, source.text), Fresh: source.random, Route: t.Route, Model: t.Model, Body: r.Body.Bytes(), Asked: t.Asked,
		Fingerprint: t.fingerprint(),
	}, nil
}

// Refusal says that the request's route takes no new job. It is asked when no job of the
// request is known: a request of an accepted job attaches to that.
func (c Checked) Refusal() error {
	if !c.Route.Draining {
		return nil
	}
	return errcode.New(errcode.ModelNotFound, "route %s, which serves the model %q, is draining and takes no new jobs", c.Route.Name, errcode.Clip(c.Model, 128))
}

// write sets the body that the upstream gets: the client's own bytes, or the
// typed request in the protocol of its route.
func (c *Checked) write(r Request) error {
	d := r.Body
	c.Body = d.Bytes()
	if r.Kind != subject.Video {
		return nil
	}
	p, ok := protocol.Find(c.Route.Protocol)
	if !ok {
		return errcode.New(errcode.Internal, "route %s speaks protocol %q, which does not exist", c.Route.Name, c.Route.Protocol)
	}
	if r.Typed != nil && p.Name != protocol.Default().Name {
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
	c.Asked.Size = errcode.Clip(c.Asked.Size, maxSize) // every event of the task has it
	return nil
}

// unwritable is a typed request that has no JSON form, with the field to blame.
func unwritable(err error) error {
	var field *body.FieldError
	if errors.As(err, &field) {
		return errcode.Invalid([]errcode.Violation{{Field: field.Field, Description: field.Description}})
	}
	return errcode.New(errcode.InvalidRequest, "the request cannot be written as JSON: %w", err)
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
	if !legalRequestID(r.RequestID) {
		add("request_id", "must be 1 to %d printable ASCII characters", maxRequestID)
	}
	if r.RetryOf != "" && !jobID(r.RetryOf) {
		add("retry_of", "must be the id of a job")
	}
	if !r.ExpiresAt.IsZero() {
		// A wrong clock does not say; what is to be queued is refused for that.
		if now, err := a.b.Clock().Now(); err == nil && !r.ExpiresAt.After(now) {
			add("expires_at", "%s has passed", r.ExpiresAt.UTC().Format(time.RFC3339))
		}
	}
	if r.Archive != nil && r.Kind != subject.Video {
		add("archive", "is for videos only")
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
	return out
}

func jobID(id string) bool {
	_, ok := subject.KindOf(id)
	return ok
}

// legalRequestID takes printable ASCII, and none at all.
func legalRequestID(id string) bool {
	for i := range len(id) {
		if id[i] < 0x20 || id[i] > 0x7e {
			return false
		}
	}
	return len(id) <= maxRequestID
}

// JobID is the id of the job that the request names, or "" when its tenant or
// its request id is not legal, or when nothing identifies it.
func (r Request) JobID() string {
	if subject.CheckToken(r.Tenant) != nil || !legalRequestID(r.RequestID) {
		return ""
	}
	source, err := r.source()
	if err != nil || source.random {
		return ""
	}
	return subject.JobID(r.Kind, r.Tenant, source.text)
}
