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

// Request is a request in canonical form, from whichever ingress.
type Request struct {
	Kind   subject.Kind
	Tenant string
	// RequestID is the idempotency key, or empty.
	RequestID string
	// Body is the upstream's JSON as the client sent it.
	Body body.Document
	// Typed is a video request field by field; Body is then its JSON in the
	// default protocol, and the upstream gets it in that of its route. Nil
	// otherwise.
	Typed     *genbusv1.VideoGeneration
	Labels    map[string]string
	ExpiresAt time.Time // zero: none
	RetryOf   string
	// Protocol is what the caller expects of the route, or empty.
	Protocol string
	Archive  *bool
	// Source is what makes a request without a request id the same job again: its
	// message in the inbox, or the dead letter that it was made of; nil for neither.
	Source *Source
	// First is true for a message that the inbox delivers for the first time, where its id
	// is made of the message: no log has the id, as far as is known. Where that is wrong,
	// the write of the first event finds the job.
	First bool
	// Attached makes the job one of a task that an upstream already has; nil for a
	// job that is to be submitted.
	Attached *Attachment
	// Resolves is true for a request that a dead letter makes, which goes: it is accepted
	// also where its tenant has as many letters as it may have.
	Resolves bool
	// Ingress is how the request came in, for metrics.
	Ingress telemetry.Ingress
}

// Checked is a request that passed validation, with everything that was found
// on the way. Inline chats go on from here without being enqueued.
type Checked struct {
	ID    string
	Route config.Route
	Model string
	// Stream is what the body says of it, and StreamSet that it says something.
	Stream, StreamSet bool
	// Body is what the upstream gets, but for the model's name.
	Body []byte
	// Asked is what a video task keeps of its body.
	Asked upstream.Asked
	// Fingerprint is that of the client's body, with which other requests of the same id
	// are compared. A fresh request has none: no other one has its id.
	Fingerprint []byte
	// Fresh is true when nothing identifies the request, so that the id is new.
	Fresh bool
}
