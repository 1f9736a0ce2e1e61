package task

import (
	"bytes"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// One ID may have several work items, and a job that differs from them: two requests with different
// bodies, or two attempts at one request, may each have stored an item, and repeating the request
// of an erased job makes a later job. SameRequest, SameAcceptance and ItemOf tell these apart.
// Their arguments share one ID.

// Fingerprinted has the fingerprint of its request: a work item, or the execution of a job.
type Fingerprinted interface {
	GetFingerprint() []byte
}

// SameRequest reports whether two belong to the same request: two items, or an item and a job's
// execution. Use it if any attempt at the request will do, for example to decide whether an item
// may run as the job. It is also true for an item that outlived its erased job, and the later job.
func SameRequest(a, b Fingerprinted) bool {
	return bytes.Equal(a.GetFingerprint(), b.GetFingerprint())
}

// SameAcceptance reports whether a work item was stored by the attempt accepted at that time: the
// AcceptedAt of another item, or the CreatedAt of a job. Use it before deleting an item as a copy
// of the other or as the job's own: it is false for the items of another attempt and of a later
// job.
func SameAcceptance(item *genbusv1.WorkItem, accepted *timestamppb.Timestamp) bool {
	return item.GetAcceptedAt().AsTime().Equal(accepted.AsTime())
}

// Carries reports whether an unfinished job runs from item: item belongs to the job's request and
// to the route in the log. After a change of configuration, another attempt's item may belong to
// another route.
func Carries(item *genbusv1.WorkItem, job Job) bool {
	x := job.GetExecution()
	return SameRequest(item, x) && item.GetRoute() == x.GetRoute()
}

// ItemOf reports whether a work item belongs to a job, by any attempt at its request. Use it to
// remove the items of an ended job: an item of the same request that was accepted after the job's
// end belongs to a later job. Clocks differ, so a later job's item may seem earlier than the end,
// but only if the log no longer has the end. For an unfinished job, ItemOf equals SameAcceptance.
func ItemOf(item *genbusv1.WorkItem, job Job) bool {
	end := job.GetCompletedAt()
	return SameAcceptance(item, job.GetCreatedAt()) ||
		end != nil && SameRequest(item, job.GetExecution()) && !item.GetAcceptedAt().AsTime().After(end.AsTime())
}
