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

// Attachment is a video task that an upstream already has, and the known part of the request that
// made it. Its job is accepted like any other, but not submitted.
type Attachment struct {
	// Task names the task. Its deadline is set at acceptance.
	Task *genbusv1.AttachedTask
	// Route is the route whose consumer polls the task; it speaks the task's protocol. Refusal says
	// why no such route exists, or what else a new job lacks.
	Route   config.Route
	Refusal error
	// Model is the name that the client used.
	Model string
	Asked upstream.Asked
}

// fingerprint identifies the attached task: another task, or the request itself, under the same ID
// is another job.
func (t *Attachment) fingerprint() []byte {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		"attached", t.Task.GetUpstream(), t.Task.GetUpstreamKey(), t.Task.GetUpstreamTaskId(),
	}, "\x00")))
	return sum[:]
}

// until returns the task with its deadline.
func (t *Attachment) until(deadline time.Time) *genbusv1.AttachedTask {
	out := proto.CloneOf(t.Task)
	out.Deadline = timestamppb.New(deadline)
	return out
}
