package upstream

import (
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/protocol"
)

// Protocol is one video wire protocol, on both sides: how genbus calls upstreams
// that speak it, and how it reads and answers those who speak it to genbus.
type Protocol struct {
	// Info has the name, and what the configuration needs to know.
	protocol.Info
	// CreatePath is where clients create tasks of it, for people: a method and a
	// path such as "POST /v1/videos". It is below the segment where there is one.
	CreatePath string
	// New makes the client for one key of one upstream.
	New func(ep *Endpoint, opts Options) VideoClient
	// OwnIDs is true where a create names its task by an ID of ours (VideoCreate.OwnID).
	OwnIDs bool
	// Sign makes the vendor's own way to sign requests with a key pair; nil where
	// there is none but bearer keys.
	Sign func(accessKey, secretKey string) Authorizer
	// Bodies reads the create bodies.
	Bodies Bodies
	// Outcomes says what each answer to a create means.
	Outcomes Outcomes
	// Surface serves the vendor's own clients; nil where internal/api/httpapi serves the
	// paths by hand.
	Surface Surface
}

// Options is what a route may say about its protocol.
type Options struct {
	// Gateway is true when a gateway is in front of the vendor, which wants the
	// model's name under "model" and parameters within "metadata" too.
	Gateway bool
	// InputReference is how the upstream wants input_reference where it is a
	// URL: "object", "string", or empty for as the client sent it.
	InputReference string
}

// Bodies reads and writes the create bodies of one protocol. A body is the
// client's JSON object; every method works on any JSON object.
type Bodies interface {
	// ModelMember names the member that holds the model.
	ModelMember() string
	// Check says what is wrong with a body; nil when nothing is.
	Check(d body.Document) []body.Violation
	// FromTyped writes the body of a typed request. Errors are
	// *body.FieldError.
	FromTyped(v *genbusv1.VideoGeneration) (body.Document, error)
	// Asked reads what a task keeps of its request.
	Asked(d body.Document) Asked
}

// Ticketer is a Bodies of a protocol that needs a ticket with a task's id.
type Ticketer interface {
	// Ticket is the ticket of the task that a create body makes, the same as the
	// Submission has; empty where the body can make none. The body is the upstream's,
	// with the model's name already mapped.
	Ticket(d body.Document) string
}

// Asked is what a task keeps of its request, as the client wrote it; empty where
// it said nothing.
type Asked struct {
	Size    string // such as "1280x720" or "16:9"
	Seconds string // such as "5"
}
