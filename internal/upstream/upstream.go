// Package upstream holds what all wire protocols have in common, on both sides.
// Towards upstreams: the verdict on a submission, the error an upstream reports,
// and the HTTP transport that never submits twice. Towards clients: what a
// Protocol says of its bodies, and the Surface that answers a vendor's own
// clients. It speaks no protocol itself; each is a folder below it.
package upstream

import (
	"context"
	"fmt"
	"time"

	"github.com/genbus/genbus/internal/body"
)

// Verdict says what is known about a submission after the call returned. It is
// the only thing that decides whether a job may be submitted again.
type Verdict int

// The verdicts. The zero value is Unknown on purpose: a path that forgets to
// decide must never lead to a second paid submission.
const (
	// Unknown: it cannot be known whether the upstream accepted the submission.
	Unknown Verdict = iota
	// Accepted: the upstream answered with an id.
	Accepted
	// RefusedForGood: the upstream definitely did not accept, and the same
	// request would be refused again.
	RefusedForGood
	// RefusedForNow: the upstream definitely did not accept, or was never
	// reached; the same request may be submitted again.
	RefusedForNow
)

// String gives the word used in logs and metrics.
func (v Verdict) String() string {
	switch v {
	case Accepted:
		return "accepted"
	case RefusedForGood:
		return "refused_for_good"
	case RefusedForNow:
		return "refused_for_now"
	default:
		return "unknown"
	}
}

// Error is a failure of one upstream call.
type Error struct {
	// Op names the call: "create", "poll", "chat", "models".
	Op string
	// Code is the upstream's own code word, or empty. Integers are written in
	// decimal.
	Code string
	// Type is the upstream's error type, or empty.
	Type string
	// Param names the request parameter that the upstream objects to, or empty.
	Param string
	// Message is the upstream's text, cut to 2 KiB, or our description of the
	// transport failure. It never holds a key or the request.
	Message string
	// HTTPStatus is 0 when no answer arrived.
	HTTPStatus int
	// RequestID is the upstream's id for the call, or empty.
	RequestID string
	// RetryAfter is what the upstream asked for; 0 when it did not say.
	RetryAfter time.Duration
	// Said is true when the upstream answered this, false when it was inferred
	// from a broken connection, a timeout or an unreadable answer.
	Said bool
	// Written is false only when the upstream certainly did not process the request:
	// it never reached the wire, or the upstream said so by HTTP/2.
	Written bool
	// Final is true when the same request would fail again.
	Final bool
	// Scope says whom the failure is about: the request, the key or the
	// upstream.
	Scope Scope
	// Repeatable is true when the request was not processed and may fare better on a
	// new connection: its own was reused, or its HTTP/2 stream was refused.
	Repeatable bool
	// Err is the cause, or nil.
	Err error
}

// Error gives the call, the status, the code and the message, in that order.
func (e *Error) Error() string {
	s := "upstream " + e.Op
	if e.HTTPStatus != 0 {
		s += fmt.Sprintf(": status %d", e.HTTPStatus)
	}
	if e.Code != "" {
		s += ": " + e.Code
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// Outline is the error without the upstream's words, which may quote a prompt.
func (e *Error) Outline() string {
	if e.HTTPStatus != 0 {
		return fmt.Sprintf("status %d, code %q", e.HTTPStatus, e.Code)
	}
	return e.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// VideoCreate is one submission of a video job.
type VideoCreate struct {
	// JobID is sent as Idempotency-Key, equal in every submission of the job.
	JobID string
	// OwnID names the task to a vendor that takes a name of its client's: equal in every
	// submission of the job, and of no other job.
	OwnID string
	// Body is the upstream's JSON, with the model name already mapped. It was checked
	// when its job was admitted, and is not checked here.
	Body body.Document
	// Resubmission is true where the upstream may have seen an earlier submission of
	// this job: one that it refused for now, one whose outcome is not known, or one of
	// another process. The outcome table is stricter then: only codes listed as "not
	// accepted" count as a refusal, and 409 is Unknown.
	Resubmission bool
}

// Submission is the outcome of one VideoCreate.
type Submission struct {
	Verdict Verdict
	// UpstreamID is set when Verdict is Accepted.
	UpstreamID string
	// Ticket is what the protocol needs with the id to read the task, such as
	// vendor B's req_key; opaque to all other code, at most 256 bytes, and empty
	// for most protocols.
	Ticket string
	// State is what the create answer said beyond the id.
	State VideoState
	// Err is set for every verdict but Accepted.
	Err *Error
}

// Progression is the canonical status of an upstream's word.
type Progression int

// The progressions. Running covers every word that genbus does not know: it is
// kept as the upstream's status and is never terminal.
const (
	Running Progression = iota
	Queued
	InProgress
	Completed
	Failed
)

// VideoFile is one result of a completed video.
type VideoFile struct {
	URL      string
	Format   string  // "mp4", or empty when unknown
	Duration float64 // seconds, 0 when unknown
	Width    int     // pixels, 0 when unknown
	Height   int     // pixels, 0 when unknown
	// ExpiresAt is zero when unknown.
	ExpiresAt time.Time
}

// VideoState is what one poll says.
type VideoState struct {
	Progression Progression
	// Unknown is true where the upstream may know no such task, or not yet. Whether the
	// task has failed with that is for the protocol to say: its Progression is Running
	// or Failed then.
	Unknown bool
	// Status is the upstream's own word, unchanged.
	Status string
	// Progress is 0 to 100, or -1 when the upstream does not say.
	Progress int
	// Size and Seconds are what the upstream says of the video that it makes, such as
	// "1280x720" and "5"; empty where it does not.
	Size, Seconds string
	Videos        []VideoFile
	// Metadata is the upstream's metadata object as JSON, or nil.
	Metadata []byte
	// Usage is the upstream's usage object as JSON, or nil.
	Usage []byte
	// Err is set when Progression is Failed.
	Err *Error
}

// TaskRef names a task at its upstream.
type TaskRef struct {
	// ID is the Submission's UpstreamID, and Ticket its Ticket.
	ID, Ticket string
}

// VideoClient speaks one video protocol with one key of one upstream.
// Implementations are safe for concurrent use.
type VideoClient interface {
	// Create submits once. It never retries and never follows a redirect.
	Create(ctx context.Context, req VideoCreate) Submission
	// Poll reads the state of a task. A nil error with Progression Failed means
	// that the task failed; an error means that the poll did, which says nothing
	// about the task.
	Poll(ctx context.Context, ref TaskRef) (VideoState, error)
}

// ContentPather is a VideoClient of a protocol in which the result is read from
// the upstream itself, with the upstream key.
type ContentPather interface {
	// ContentPath is the escaped path of the result below the base URL.
	ContentPath(ref TaskRef) string
}
