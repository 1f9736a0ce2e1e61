// Package upstream holds the parts that all wire protocols share: verdicts on submissions, upstream
// errors, the HTTP transport that never submits twice, and the interfaces for a protocol's bodies
// and for the surface that serves a vendor's own clients. Each protocol is in a subdirectory.
package upstream

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/genbus/genbus/internal/body"
)

// Verdict describes what is known about a submission after the call. Only the verdict decides
// whether a job may be submitted again.
type Verdict int

// The verdicts. The zero value is Unknown, so that code that does not set a verdict never causes a
// second paid submission.
const (
	// Unknown means that the upstream may or may not have accepted the submission.
	Unknown Verdict = iota
	// Accepted means that the upstream answered with an ID.
	Accepted
	// RefusedForGood means that the upstream certainly did not accept the submission and would
	// refuse the same request again.
	RefusedForGood
	// RefusedForNow means that the upstream certainly did not accept the submission or was never
	// reached. The same request may be submitted again.
	RefusedForNow
)

// String returns the word used in logs and metrics.
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

// Error is a failed upstream call.
type Error struct {
	// Op names the call: "create", "poll", "chat", "models".
	Op string
	// Code is the upstream's error code, or empty. Integers are in decimal.
	Code string
	// Type is the upstream's error type, or empty.
	Type string
	// Wrapped is the code of a gateway's own error if it passed on another server's error, which
	// this error then describes. Otherwise it is empty.
	Wrapped string
	// Param names the request parameter at fault, or is empty.
	Param string
	// Message is the upstream's error message, truncated to 2 KiB, or a description of the
	// transport error. It never contains a key or the request.
	Message string
	// HTTPStatus is 0 if no answer arrived.
	HTTPStatus int
	// RequestID is the upstream's ID for the call, or empty.
	RequestID string
	// RetryAfter is the wait that the upstream asked for, or 0.
	RetryAfter time.Duration
	// Reported is true if the upstream reported the error, and false if it was inferred from a
	// broken connection, a timeout or an unreadable answer.
	Reported bool
	// Written is false only if the upstream certainly did not process the request: it was never
	// sent, or the upstream reported this over HTTP/2.
	Written bool
	// Final is true if the same request would fail again.
	Final bool
	// Scope is what the failure applies to: the request, the key or the upstream.
	Scope Scope
	// Denial is set if the upstream refuses the account behind the key.
	Denial Denial
	// Missing is true if a poll's answer says that the upstream does not know the task. The task may
	// be too new, or its record may be on another server.
	Missing bool
	// Repeatable is true if the request was not processed and a new connection may help, because
	// the connection was reused or the HTTP/2 stream was refused.
	Repeatable bool
	// Err is the cause, or nil.
	Err error
}

// Error returns the call, the status, the code and the message, in that order.
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

// Unrouted reports whether the answer is a 404 or 405 without a readable error. It comes from a
// server that has nothing at this path, such as a proxy without a backend, so the upstream did not
// process the request. It says nothing about the upstream's health.
func (e *Error) Unrouted() bool {
	return !e.Reported && (e.HTTPStatus == http.StatusNotFound || e.HTTPStatus == http.StatusMethodNotAllowed)
}

// Outline returns the error without the upstream's text, which may quote a prompt.
func (e *Error) Outline() string {
	if e.HTTPStatus != 0 {
		return fmt.Sprintf("status %d, code %q", e.HTTPStatus, e.Code)
	}
	return e.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// VideoCreate is one submission of a video job.
type VideoCreate struct {
	// JobID is sent as the Idempotency-Key. It is the same in every submission of the job.
	JobID string
	// OwnID is the task's client-chosen ID at vendors that support one. It is the same in every
	// submission of the job and unique to the job.
	OwnID string
	// Body is the upstream's JSON, with the model name already mapped. It was checked at admission.
	Body body.Document
	// Form is true if the client sent the body as a multipart form.
	Form bool
	// Resubmission is true if the upstream may have seen an earlier submission of the job: one that
	// it refused for now, one with an unknown outcome, or one by another process. The outcome table
	// is stricter then: rows marked FirstOnly, such as the one that covers status 409, give
	// Unknown.
	Resubmission bool
}

// Submission is the outcome of one VideoCreate.
type Submission struct {
	Verdict Verdict
	// UpstreamID is set if Verdict is Accepted.
	UpstreamID string
	// Ticket is a value that the protocol needs in addition to the ID to read the task, such as
	// vendor B's req_key. It is opaque to other code, at most 256 bytes, and empty for most
	// protocols.
	Ticket string
	// State is the task's state as reported in the answer to the create.
	State VideoState
	// Err is set for every verdict except Accepted.
	Err *Error
}

// Progression is the meaning of an upstream's status word.
type Progression int

// The progressions. Running covers every word that genbus does not know. Such a word is kept as
// Status and is never terminal.
const (
	Running Progression = iota
	Queued
	InProgress
	Completed
	Failed
)

// VideoFile is a result of a completed video.
type VideoFile struct {
	URL      string
	Format   string  // "mp4", or empty if unknown
	Duration float64 // seconds, 0 if unknown
	Width    int     // pixels, 0 if unknown
	Height   int     // pixels, 0 if unknown
	// ExpiresAt is zero if unknown.
	ExpiresAt time.Time
}

// VideoState is the state of a task as reported by one poll.
type VideoState struct {
	Progression Progression
	// Unknown is true if the upstream may not know the task, or may not know it yet. The protocol
	// decides whether this fails the task, and sets Progression to Running or Failed.
	Unknown bool
	// Named is true if the answer certainly describes the polled task: it has the task's ID, or an
	// envelope around the state.
	Named bool
	// Status is the upstream's status word, unchanged.
	Status string
	// Progress is 0 to 100, or -1 if unknown.
	Progress int
	// Size and Seconds describe the video being made, such as "1280x720" and "5". They are empty if
	// unknown.
	Size, Seconds string
	Videos        []VideoFile
	// Metadata is the upstream's metadata object as JSON, or nil.
	Metadata []byte
	// Usage is the upstream's usage object as JSON, or nil.
	Usage []byte
	// Err is set if Progression is Failed, and if it is Completed but the answer has no result and
	// the protocol has no other way to read one. The result may follow in a later answer.
	Err *Error
}

// Missing reports whether the upstream does not know the task. The task may be too new, or its record
// may be on another server.
func (s *VideoState) Missing() bool { return s.Unknown && NormaliseStatus(s.Status) == "not_found" }

// TaskRef names a task at its upstream.
type TaskRef struct {
	// ID is the Submission's UpstreamID, and Ticket its Ticket.
	ID, Ticket string
}

// VideoClient speaks one video protocol with one upstream key. Implementations must be safe for
// concurrent use.
type VideoClient interface {
	// Create submits once. It never retries and never follows a redirect.
	Create(ctx context.Context, req VideoCreate) Submission
	// Poll reads the state of a task. A nil error with Progression Failed means that the task
	// failed. An error means that the poll itself failed.
	Poll(ctx context.Context, ref TaskRef) (VideoState, error)
}

// ContentPather is implemented by VideoClients of protocols whose results are read from the
// upstream itself, with the upstream key.
type ContentPather interface {
	// ContentPath returns the escaped path of the result below the base URL.
	ContentPath(ref TaskRef) string
}
