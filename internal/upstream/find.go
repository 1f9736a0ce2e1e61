package upstream

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// OpFind is the Error.Op of task look-ups.
const OpFind = "find"

// Finder is a VideoClient that can find a task by the ID that genbus sent when creating it
// (VideoCreate.OwnID).
type Finder interface {
	// Find looks up a task. own.ID is the OwnID of the create, and own.Ticket is the ticket that
	// the create would return. If the vendor shows no such task, Find returns nil without an error,
	// but the task may still appear later. An error means that the vendor gave no usable answer.
	Find(ctx context.Context, own TaskRef) (*Found, error)
}

// Found is a task found at a vendor.
type Found struct {
	// Submission is the accepted submission of the task.
	Submission Submission
	// OwnID is the ID from the task's create, as reported by the vendor.
	OwnID string
	// CreatedAt is the creation time by the vendor's clock, or zero if unknown.
	CreatedAt time.Time
}

const (
	// createdSlack is the tolerated difference between the clocks of a vendor and genbus.
	createdSlack = time.Minute
	// findTimeout bounds one look-up.
	findTimeout = 30 * time.Second
)

// LookUp asks a vendor for the task that a job created under the ID own.ID. The job was first
// submitted at submitted. The returned Submission is nil unless the task is found. A task that has
// another ID, or was created before the job was submitted, belongs to another job.
func LookUp(ctx context.Context, vendor Finder, own TaskRef, submitted time.Time) (*genbusv1.LookUp, *Submission) {
	ctx, cancel := context.WithTimeoutCause(ctx, findTimeout, fmt.Errorf("the upstream did not answer the look-up within %s", findTimeout))
	defer cancel()
	look := &genbusv1.LookUp{Time: timestamppb.Now(), Result: genbusv1.LookUpResult_LOOK_UP_RESULT_NOT_KNOWN}
	found, err := vendor.Find(ctx, own)
	switch {
	case err != nil:
		look.Detail = CutMessage(err.Error())
		return look, nil
	case found == nil:
		look.Result = genbusv1.LookUpResult_LOOK_UP_RESULT_NOT_VISIBLE
		return look, nil
	}
	look.UpstreamTaskId = found.Submission.UpstreamID
	if found.OwnID != own.ID || found.CreatedAt.Before(submitted.Add(-createdSlack)) {
		look.Detail = CutMessage(fmt.Sprintf("found another task: it names %q and was created at %s, but the job was submitted at %s",
			found.OwnID, found.CreatedAt.UTC().Format(time.RFC3339), submitted.UTC().Format(time.RFC3339)))
		return look, nil
	}
	look.Result = genbusv1.LookUpResult_LOOK_UP_RESULT_FOUND
	return look, &found.Submission
}
