package upstream

import (
	"net/http"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
)

// Surface serves one vendor's own clients: it knows the vendor's paths, bodies,
// envelopes and signatures, and nothing of how tasks are kept.
type Surface interface {
	// Patterns are patterns of net/http's mux, below the protocol's segment.
	Patterns() []string
	// Signature reads the vendor's own proof of who calls. It is false when the
	// request has none, and so must carry an API key.
	Signature(r *http.Request, raw []byte) (Signature, bool)
	// Read says what a request asks for. The error is a *errcode.Error.
	Read(r *http.Request, raw []byte) (Call, error)
	// Task answers CreateTask and GetTask; some vendors report a failed task as an
	// HTTP error.
	Task(c Call, t *genbusv1.VideoTask, requestID string) (status int, answer []byte)
	// Refuse answers an error in the vendor's envelope.
	Refuse(f *errcode.Error, requestID string) (status int, answer []byte)
}

// Lister is a Surface whose vendor lists tasks. Only its Read may give ListTasks.
type Lister interface {
	// Tasks answers ListTasks.
	Tasks(c Call, list []*genbusv1.VideoTask, requestID string) []byte
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
	// Body is the create body.
	Body body.Document
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
	// CoversBody says that Verify needs the body.
	CoversBody bool
	// Verify reports whether the request was signed with the secret half, now.
	Verify func(secret string, now time.Time) error
}
