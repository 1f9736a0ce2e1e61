package upstream

import (
	"net/http"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
)

// Surface serves a vendor's own clients. It knows the vendor's paths, bodies, envelopes and
// signatures, but not how tasks are stored.
type Surface interface {
	// Patterns returns patterns for http.ServeMux, relative to the protocol's segment.
	Patterns() []string
	// Signature reads the vendor's signature. The bool is false if the request has none and
	// therefore needs an API key.
	Signature(r *http.Request, raw []byte) (Signature, bool)
	// Read returns the operation that a request asks for. The error is an *errcode.Error.
	Read(r *http.Request, raw []byte) (Call, error)
	// Task returns the answer to CreateTask or GetTask. Some vendors report a failed task as an
	// HTTP error.
	Task(c Call, t *genbusv1.VideoTask, requestID string) (status int, answer []byte)
	// Refuse returns the answer for an error, in the vendor's envelope.
	Refuse(f *errcode.Error, requestID string) (status int, answer []byte)
}

// Lister is implemented by the Surfaces of vendors that can list tasks. Only their Read method may
// return ListTasks.
type Lister interface {
	// Tasks returns the answer to ListTasks.
	Tasks(c Call, list []*genbusv1.VideoTask, requestID string) []byte
}

// Op is the operation of a call on a vendor's path.
type Op int

// The operations.
const (
	CreateTask Op = iota + 1
	GetTask
	ListTasks
)

// Call is a request on a vendor's path, as read by its Surface.
type Call struct {
	Op Op
	// Body is the create body.
	Body body.Document
	// RequestID is the idempotency key if the protocol has one. For GetTask it is set if the client
	// names the task by this key instead of by ID. It is empty otherwise.
	RequestID string
	// ID is the ID of the task to get.
	ID string
	// Page, which starts at 1, and Size select the tasks to list.
	Page, Size int
}

// Signature is a request signature made with a key pair.
type Signature struct {
	// AccessKey is the public half of the pair.
	AccessKey string
	// CoversBody is true if Verify needs the body.
	CoversBody bool
	// Verify returns nil if the request was signed with secret and is valid at now.
	Verify func(secret string, now time.Time) error
}
