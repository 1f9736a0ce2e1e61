package task

import (
	"bytes"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// One ID may have several work items and a job that differs from them. Two requests with different
// bodies, or two attempts at one request, may each have stored an item. Repeating the request of an
// erased job creates a later job with the same ID. SameRequest, SameAcceptance and ItemOf
// distinguish these cases. Their arguments must have the same ID.

// Fingerprinted is a work item or the execution of a job. Both have the fingerprint of their
// request.
type Fingerprinted interface {
	GetFingerprint() []byte
}

// SameRequest reports whether a and b belong to the same request. They are two items, or an item
// and a job's execution. Use it if any attempt at the request will do, for example to decide
// whether an item may run as the job. It is also true for an item that outlived its erased job and
// a later job of the same request.
func SameRequest(a, b Fingerprinted) bool {
	return bytes.Equal(a.GetFingerprint(), b.GetFingerprint())
}

// SameAcceptance reports whether the attempt accepted at the given time stored a work item. The
// time is the AcceptedAt of another item or the CreatedAt of a job. Use it before deleting an item
// as a copy of that item or as the job's own item. It is false for items of another attempt and of
// a later job.
func SameAcceptance(item *genbusv1.WorkItem, accepted *timestamppb.Timestamp) bool {
	return item.GetAcceptedAt().AsTime().Equal(accepted.AsTime())
}

// Carries reports whether an unfinished job runs from item. The item must have the job's request
// and the route in the log. After a configuration change, another attempt's item may have another
// route.
func Carries(item *genbusv1.WorkItem, job Job) bool {
	x := job.GetExecution()
	return SameRequest(item, x) && item.GetRoute() == x.GetRoute()
}

// ItemOf reports whether a work item belongs to a job, by any attempt at its request. Use it to
// remove the items of an ended job. An item of the same request that was accepted after the job's
// end belongs to a later job. Because clocks differ, a later job's item may seem to be accepted
// before the end. This can happen only if the log no longer has the end. For an unfinished job,
// ItemOf is the same as SameAcceptance.
func ItemOf(item *genbusv1.WorkItem, job Job) bool {
	end := job.GetCompletedAt()
	return SameAcceptance(item, job.GetCreatedAt()) ||
		end != nil && SameRequest(item, job.GetExecution()) && !item.GetAcceptedAt().AsTime().After(end.AsTime())
}
