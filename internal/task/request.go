package task

import (
	"bytes"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// One id may have several work items, and a job that is not theirs. Two requests with two bodies
// may both have been stored. Two sends of one request may each have stored an item, and the
// log has one job of both. And after its job was erased, a repeat of the request makes
// a later job. SameRequest, SameAcceptance and ItemOf tell these apart; each is asked of what
// has one id.

// Fingerprinted is what carries the fingerprint of its request: a work item, or the
// execution of a job.
type Fingerprinted interface {
	GetFingerprint() []byte
}

// SameRequest reports whether two are of one request: two items, or an item and a job's
// execution. It is right where any send of the request is as good as another, such as for the
// question whether the item may be run as the job. An item that outlived its erased job is
// of the same request as the later job too.
func SameRequest(a, b Fingerprinted) bool {
	return bytes.Equal(a.GetFingerprint(), b.GetFingerprint())
}

// SameAcceptance reports whether a work item was stored by the send that was accepted then: at
// the AcceptedAt of another item, or the CreatedAt of a job. It is right where the item is
// deleted because it is a copy of the other, or was the job's: neither a second send's item nor
// that of a later job is the same.
func SameAcceptance(item *genbusv1.WorkItem, accepted *timestamppb.Timestamp) bool {
	return item.GetAcceptedAt().AsTime().Equal(accepted.AsTime())
}

// Carries reports whether item is the one that an unfinished job runs from: it is of the job's
// request, and on the route that the log names. Another send's item, stored while the
// configuration changed, may be on another route.
func Carries(item *genbusv1.WorkItem, job Job) bool {
	x := job.GetExecution()
	return SameRequest(item, x) && item.GetRoute() == x.GetRoute()
}

// ItemOf reports whether a work item is of a job, by whichever send of its request. It is right
// where an ended job leaves nothing behind: an item of its request that was accepted after
// its end is a later job's. By another clock one that was accepted before may be that too,
// unless the log has the end still. Of a job that has not ended it is SameAcceptance.
func ItemOf(item *genbusv1.WorkItem, job Job) bool {
	end := job.GetCompletedAt()
	return SameAcceptance(item, job.GetCreatedAt()) ||
		end != nil && SameRequest(item, job.GetExecution()) && !item.GetAcceptedAt().AsTime().After(end.AsTime())
}
