package upstream

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// OpFind names the look-up of a task in errors.
const OpFind = "find"

// Finder is a VideoClient of a vendor that finds a task by the ID of ours that its create
// named (VideoCreate.OwnID).
type Finder interface {
	// Find asks for a task: own.ID is that ID, and own.Ticket what its create would give. It
	// returns nil without an error where the vendor sees no such task, which does not prove
	// that there will be none. An error says that the vendor did not answer the question.
	Find(ctx context.Context, own TaskRef) (*Found, error)
}

// Found is a task that a vendor has found.
type Found struct {
	// Submission is the task, accepted.
	Submission Submission
	// OwnID is the ID that its create named, as the vendor has it.
	OwnID string
	// CreatedAt is by the vendor's clock; zero when unknown.
	CreatedAt time.Time
}

const (
	// createdSlack is by how much the clocks of a vendor and of genbus may differ.
	createdSlack = time.Minute
	// findTimeout bounds one look.
	findTimeout = 30 * time.Second
)

// LookUp asks a vendor for the task of a job that named it own.ID and was submitted at a moment
// for the first time. The task is nil unless it was found: an older one, or one with another ID,
// is another job's.
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
