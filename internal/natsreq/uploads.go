package natsreq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/telemetry"
)

const (
	// maxUploads limits how many uploads one process reads at the same time, from all ingresses.
	// Each upload may take twice MaxUpload of memory until it is admitted.
	maxUploads = 8
	// readWithin bounds the reading of one upload.
	readWithin = 10 * time.Second
)

// Uploads reads requests that are larger than a message and removes them after use. All ingresses
// of a process must share one Uploads, which limits them together. It is safe for concurrent use.
type Uploads struct {
	bodies *broker.Bodies
	log    *slog.Logger
	places chan struct{}
}

// NewUploads returns Uploads for the tenants' object stores.
func NewUploads(bodies *broker.Bodies, log *slog.Logger) *Uploads {
	return &Uploads{bodies: bodies, log: log, places: make(chan struct{}, maxUploads)}
}

// Complete reads the upload that a request names and completes in with it. It does nothing for a
// request without an upload. It waits for one of the process's slots, and returns queue_full if
// wait passes first. The caller must call release after the admission to free the slot. release is
// never nil.
//
// If the object is missing or differs from the reference, the error is input_lost. If JetStream
// does not answer, the error is broker_unavailable and nothing was accepted. Every error is an
// *errcode.Error.
func (u *Uploads) Complete(ctx context.Context, in *Incoming, wait time.Duration) (release func(), err error) {
	if in.Upload == nil {
		return func() {}, nil
	}
	if err := u.place(ctx, wait); err != nil {
		return func() {}, err
	}
	release = sync.OnceFunc(func() { <-u.places })
	data, err := u.read(ctx, in.Upload)
	if err == nil {
		err = in.complete(data)
	}
	if err != nil {
		release()
	}
	return release, err
}

func (u *Uploads) place(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case u.places <- struct{}{}:
		return nil
	case <-timer.C:
		return errcode.New(errcode.QueueFull, "this replica is reading %d stored requests; nothing was accepted", maxUploads).WithRetryAfter(time.Second)
	case <-ctx.Done():
		return notRead("the call ended before it got a slot", context.Cause(ctx))
	}
}

func (u *Uploads) read(ctx context.Context, up *Upload) ([]byte, error) {
	reading, cancel := context.WithTimeoutCause(ctx, readWithin, fmt.Errorf("upload %s was not read within %s", up.Object.Name, readWithin))
	defer cancel()
	data, err := u.bodies.Get(reading, up.Object)
	switch {
	case err == nil:
		up.read = true
		return data, nil
	case errors.Is(err, broker.ErrBodyLost):
		return nil, errcode.New(errcode.InputLost,
			"%s in %s is missing, or differs from the size and sha256 in the message; upload the request again, and send a new message", up.Object.Name, up.Object.Bucket)
	case ctx.Err() != nil:
		return nil, notRead("the call ended before it was", err)
	default:
		return nil, notRead(broker.Reason(err), err)
	}
}

// notRead explains the failure without internal names. The cause is for the log.
func notRead(why string, cause error) error {
	return errcode.New(errcode.BrokerUnavailable, "the stored request was not read, and nothing was accepted: %s", why).Because(cause).WithRetryAfter(time.Second)
}

// complete replaces in's request with the stored one and adds the message's headers, as for a
// request in a message.
func (in *Incoming) complete(data []byte) error {
	m, err := unmarshal(in.Kind, data)
	if err != nil {
		return errcode.New(errcode.InvalidRequest, "%s is not a %s in Protobuf", in.Upload.Object.Name, m.ProtoReflect().Descriptor().FullName())
	}
	if m.GetStored() != nil {
		return errcode.Invalid([]errcode.Violation{{Field: "stored", Description: "refers to a stored request that refers to another one; store the request itself"}})
	}
	requestID, labels := in.RequestID, in.Labels
	if err := in.fill(m); err != nil {
		return err
	}
	if err := addRequestID(&in.Request, requestID); err != nil {
		return err
	}
	return addLabels(&in.Request, labels)
}

// Remove deletes the upload of a finished request, even after ctx has ended. If that fails, the
// object expires with its bucket's TTL. Remove deletes only an object that was read, so a wrong
// name deletes nothing.
func (u *Uploads) Remove(ctx context.Context, up *Upload) {
	if up == nil || !up.read {
		return
	}
	if err := u.bodies.Delete(context.WithoutCancel(ctx), up.Object); err != nil {
		u.log.Warn("could not delete upload, left to expire", "object", up.Object.Name, "bucket", up.Object.Bucket, telemetry.KeyError, err)
	}
}
