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
	// Typed is a typed video request, or nil. Body is then its JSON in the default protocol. The
	// upstream receives it in its route's protocol.
	Typed     *genbusv1.VideoGeneration
	Labels    map[string]string
	ExpiresAt time.Time // zero means no expiry
	RetryOf   string
	// Protocol is the protocol that the caller expects of the route, or empty.
	Protocol string
	Archive  *bool
	// Form is true if the client sent the body as a multipart form. Upstreams that accept forms get
	// one, too.
	Form bool
	// Source identifies a request without a request ID by its message in the inbox or by the dead
	// letter that it was created from. It is nil if there is neither.
	Source *Source
	// First is true for the first delivery of an inbox message whose ID comes from the message. The
	// log presumably does not have this ID. If it does, the write of the first event finds the job.
	First bool
	// Attached makes the job poll a task that an upstream already has. It is nil for a job to
	// submit.
	Attached *Attachment
	// Resolves is true for a request that resolves a dead letter. Such a request is accepted even
	// if its tenant has reached its limit for dead letters or stored bodies. It is kept if possible,
	// because the dead letter is removed and the new job may fail.
	Resolves bool
	// Ingress is how the request arrived, for metrics.
	Ingress telemetry.Ingress
}

// Checked is a validated request with the results of its validation. Inline chats use it without
// being enqueued.
type Checked struct {
	ID    string
	Route config.Route
	Model string
	// Stream is the body's stream member. StreamSet reports whether the body has one.
	Stream, StreamSet bool
	// Body is the body for the upstream, apart from the model's name.
	Body []byte
	// Asked holds the properties of the video that the body requests. They are stored in the task.
	Asked upstream.Asked
	// Fingerprint is the hash of the client's body, for comparing requests with the same ID. A
	// fresh request has none.
	Fingerprint []byte
	// Fresh is true if nothing identifies the request, so that its ID is new.
	Fresh bool
}
