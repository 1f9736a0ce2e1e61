package admission

import (
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// Request is a request from any ingress in canonical form.
type Request struct {
	Kind   subject.Kind
	Tenant string
	// RequestID is the idempotency key, or empty.
	RequestID string
	// Body is the upstream's JSON as the client sent it.
	Body body.Document
	// Typed is a typed video request, or nil. Body is then its JSON in the default protocol; the
	// upstream gets it in its route's protocol.
	Typed     *genbusv1.VideoGeneration
	Labels    map[string]string
	ExpiresAt time.Time // zero: none
	RetryOf   string
	// Protocol is the protocol that the caller expects of the route, or empty.
	Protocol string
	Archive  *bool
	// Source identifies a request without a request ID: its message in the inbox, or the dead
	// letter that it was made from. Nil without either.
	Source *Source
	// First is true for the first delivery of an inbox message whose ID comes from the message:
	// presumably no log has the ID. If one does, the write of the first event finds the job.
	First bool
	// Attached makes the job poll a task that an upstream already has; nil for a job to submit.
	Attached *Attachment
	// Resolves is true for a request that resolves a dead letter: it is accepted even if its tenant
	// has reached its limit of dead letters.
	Resolves bool
	// Ingress is how the request arrived, for metrics.
	Ingress telemetry.Ingress
}

// Checked is a validated request with everything found on the way. Inline chats continue from here
// without being enqueued.
type Checked struct {
	ID    string
	Route config.Route
	Model string
	// Stream is the body's stream member, and StreamSet whether the body has one.
	Stream, StreamSet bool
	// Body is the body for the upstream, apart from the model's name.
	Body []byte
	// Asked has the properties of the video that the body asks for, kept in the task.
	Asked upstream.Asked
	// Fingerprint is the hash of the client's body, to compare requests with the same ID. A fresh
	// request has none.
	Fingerprint []byte
	// Fresh is true if nothing identifies the request, so that its ID is new.
	Fresh bool
}
