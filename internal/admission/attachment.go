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

// Attachment describes a video task that an upstream already has, with the known part of the
// request that created it. Its job is accepted like any other but not submitted.
type Attachment struct {
	// Task names the task. Its deadline is set at acceptance.
	Task *genbusv1.AttachedTask
	// Route is the route whose consumer polls the task. It uses the task's protocol. Refusal
	// explains why there is no such route, or what else prevents a new job.
	Route   config.Route
	Refusal error
	// Model is the name that the client used.
	Model string
	Asked upstream.Asked
}

// fingerprint identifies the attached task. A request with the same ID for another task, or for no
// attached task, is a different job.
func (t *Attachment) fingerprint() []byte {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		"attached", t.Task.GetUpstream(), t.Task.GetUpstreamKey(), t.Task.GetUpstreamTaskId(),
	}, "\x00")))
	return sum[:]
}

// until returns the task with the given deadline.
func (t *Attachment) until(deadline time.Time) *genbusv1.AttachedTask {
	out := proto.CloneOf(t.Task)
	out.Deadline = timestamppb.New(deadline)
	return out
}
