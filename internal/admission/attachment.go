package admission

import (
	"crypto/sha256"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/upstream"
)

// Attachment is a video task that an upstream already has, and what is known of the
// request that made it. The job of it is accepted as any other is, but nothing is
// submitted for it.
type Attachment struct {
	// Task names the task; its deadline is set at acceptance.
	Task *genbusv1.AttachedTask
	// Route is whose consumer polls it: one that speaks the task's protocol. Refusal says why
	// there is none, or what else a new job lacks.
	Route   config.Route
	Refusal error
	// Model is the name that the client used.
	Model string
	Asked upstream.Asked
}

// fingerprint is of what the job is attached to: another task, or the request
// itself, under the same id is another job.
func (t *Attachment) fingerprint() []byte {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		"attached", t.Task.GetUpstream(), t.Task.GetUpstreamKey(), t.Task.GetUpstreamTaskId(),
	}, "\x00")))
	return sum[:]
}

// until is the task with its deadline.
func (t *Attachment) until(deadline time.Time) *genbusv1.AttachedTask {
	out := proto.CloneOf(t.Task)
	out.Deadline = timestamppb.New(deadline)
	return out
}
