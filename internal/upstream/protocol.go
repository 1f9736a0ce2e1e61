package upstream

import (
	"net/http"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/fault"
)

// Protocol is one video wire protocol, on both sides: how genbus calls upstreams
// that speak it, and how it reads and answers those who speak it to genbus.
type Protocol struct {
	// Name is the word in the configuration, in requests and in tasks, such as
	// "primary".
	Name string
	// CreatePath is where clients create tasks of it, for people: a method and a
	// path such as "POST /v1/videos". It stands below the surface's segment where
	// there is one.
	CreatePath string
	// New makes the client for one account of one upstream.
	New func(ep *Endpoint, opts Options) VideoClient
	// Sign makes the vendor's own way to sign requests with a key pair; nil where
	// there is none but bearer keys.
	Sign func(accessKey, secretKey string) Authorizer
	// Bodies reads the create bodies.
	Bodies Bodies
	// Surface serves the vendor's own clients; nil where internal/api serves the
	// paths by hand.
	Surface Surface
}

// Options is what a route may say about its protocol.
type Options struct {
	// Gateway is true when a gateway stands before the vendor, which wants the
	// model's name under "model" and parameters within "metadata" too.
	Gateway bool
	// InputReference is how the upstream wants input_reference where it is a
	// URL: "object", "string", or empty for as the client sent it.
	InputReference string
}

// Bodies reads and edits the create bodies of one protocol. A body is the
// client's JSON object; every method works on any JSON object.
type Bodies interface {
	// ModelMember names the member that holds the model.
	ModelMember() string
	// Check says what is wrong with a body; nil when nothing is.
	Check(raw []byte) []body.Violation
	// SetModel gives a copy that names another model, and every other byte as it
	// was.
	SetModel(raw []byte, model string) ([]byte, error)
	// FromTyped writes the body that a typed request stands for. Errors are
	// *body.FieldError.
	FromTyped(v *genbusv1.VideoGeneration) ([]byte, error)
	// Asked reads what a task keeps of its request.
	Asked(raw []byte) Asked
}

// Asked is what a task keeps of its request, as the client wrote it; empty where
// it said nothing.
type Asked struct {
	Size    string // such as "1280x720" or "16:9"
	Seconds string // such as "5"
}

// Op is what a call on a vendor's path asks for.
type Op int

// The operations.
const (
	CreateTask Op = iota + 1
	GetTask
	ListTasks
)

// Call is a request on a vendor's path, as its Surface read it.
type Call struct {
	Op Op
	// Body is the create body, byte for byte.
	Body []byte
	// RequestID is the idempotency key where the protocol has one of its own; for
	// GetTask the key of the task where the client does not name it by id. Empty
	// for none.
	RequestID string
	// ID names the task of a GetTask.
	ID string
	// Page, from 1, and Size choose the tasks of a ListTasks.
	Page, Size int
}

// Signature is a request that was signed with a key pair.
type Signature struct {
	// AccessKey is the public half of the pair.
	AccessKey string
	// Verify reports whether the request was signed with the secret half, now.
	Verify func(secret string, now time.Time) error
}

// Surface serves one vendor's own clients: it knows the vendor's paths, bodies,
// envelopes and signatures, and nothing of how tasks are kept.
type Surface interface {
	// Segment is the default first segment of its paths, such as "kling".
	Segment() string
	// Patterns are patterns of net/http's mux, below the segment.
	Patterns() []string
	// Signature reads the vendor's own proof of who calls. It is false when the
	// request has none, and so must carry an API key.
	Signature(r *http.Request, raw []byte) (Signature, bool)
	// Read says what a request asks for. The error is a *fault.Error.
	Read(r *http.Request, raw []byte) (Call, error)
	// Task answers CreateTask and GetTask; some vendors report a failed task as an
	// HTTP error.
	Task(c Call, t *genbusv1.VideoTask, requestID string) (status int, answer []byte)
	// Tasks answers ListTasks.
	Tasks(c Call, list []*genbusv1.VideoTask, requestID string) []byte
	// Refuse answers an error in the vendor's envelope.
	Refuse(f *fault.Error, requestID string) (status int, answer []byte)
}
