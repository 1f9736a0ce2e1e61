package upstream

import (
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/protocol"
)

// Protocol is a video wire protocol in both directions: how genbus calls upstreams, and how it
// reads and answers the requests of clients.
type Protocol struct {
	// Info is the part that the configuration also uses.
	protocol.Info
	// CreatePath is the method and path for creating tasks, in the form shown to people, such as
	// "POST /v1/videos". The path is relative to the protocol's segment, if any.
	CreatePath string
	// New returns a client for one upstream key.
	New func(ep *Endpoint, opts Options) VideoClient
	// OwnIDs is true if a create carries genbus's own ID for its task (VideoCreate.OwnID).
	OwnIDs bool
	// Sign returns an Authorizer that signs with a key pair. It is nil if the protocol supports
	// only bearer keys.
	Sign func(accessKey, secretKey string) Authorizer
	// Bodies handles the create bodies.
	Bodies Bodies
	// Outcomes judges the answers to a create.
	Outcomes Outcomes
	// Surface serves the vendor's own clients. It is nil if internal/api/httpapi serves the paths
	// itself.
	Surface Surface
}

// Options holds a route's options for its protocol.
type Options struct {
	// Gateway is true if the upstream is a gateway in front of the vendor, which also expects the
	// model under "model" and parameters within "metadata".
	Gateway bool
	// InputReference is the form of input_reference that the upstream expects for a URL: "object",
	// "string", or empty for the form that the client sent.
	InputReference string
	// Body is the media type of creates that the upstream expects: "multipart" or "json". If it is
	// empty, a request with a file is sent as a form, and others as the client sent them, but as
	// JSON if another option is set.
	Body string
}

// Bodies reads and writes a protocol's create bodies. A body is the client's JSON object, and every
// method accepts any JSON object.
type Bodies interface {
	// ModelMember returns the name of the member that holds the model.
	ModelMember() string
	// Check returns the violations in a body, or nil.
	Check(d body.Document) []body.Violation
	// FromTyped returns the body for a typed request. Errors are *body.FieldError.
	FromTyped(v *genbusv1.VideoGeneration) (body.Document, error)
	// Asked returns the values that a task keeps from its request.
	Asked(d body.Document) Asked
}

// Ticketer is implemented by Bodies of protocols that need a ticket in addition to a task's ID.
type Ticketer interface {
	// Ticket returns the ticket of the task that a create body will make, which equals the one in
	// the task's Submission. It is empty if the body cannot make a task. The body must be in its
	// final form for the upstream, with the model name already mapped.
	Ticket(d body.Document) string
}

// Asked holds the values that a task keeps from its request, as the client wrote them. Missing
// values are empty.
type Asked struct {
	Size    string // such as "1280x720" or "16:9"
	Seconds string // such as "5"
}
