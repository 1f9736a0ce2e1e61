package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/objectwrite"
)

// fits reports whether a message is one that NATS takes. Its headers are set.
func (c *Client) fits(m *nats.Msg) bool {
	limit := c.nc.MaxPayload()                    // 0 before the first connection
	return limit == 0 || int64(m.Size()) <= limit // counts the subject too, which NATS does not
}

// store puts a request that is larger than a message into the tenant's object store, and
// has the message name it instead. It fails with errNotSent where it may be tried again; the
// object with that name may be there then too, whole or in part.
func (c *Client) store(ctx context.Context, kind Kind, m *nats.Msg) (name string, err error) {
	before := c.nc.LastError()
	ref, err := c.upload(ctx, m.Data)
	denied := c.refusedSince(before, c.names.Bodies(c.tenant), c.names.Tasks())
	switch {
	case err != nil && denied == nil && !refusedByServer(err):
		return ref.GetName(), fmt.Errorf("%w: %w", errNotSent, err)
	case err != nil && denied != nil:
		err = fmt.Errorf("%w (%w)", err, denied)
		fallthrough
	case err != nil:
		return ref.GetName(), &Error{Code: ErrBodyTooLarge, Err: err, Message: fmt.Sprintf(
			"the request has %d bytes, NATS allows %d per message, and storing it failed: %v; if this user may not write to the object store, send it by HTTP or gRPC",
			len(m.Data), c.nc.MaxPayload(), err)}
	}
	var named proto.Message = &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Stored{Stored: ref}}
	if kind == Chat {
		named = &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Stored{Stored: ref}}
	}
	m.Data, err = proto.Marshal(named)
	return ref.GetName(), err
}

// refusedByServer reports whether JetStream has answered, and would again.
func refusedByServer(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code < http.StatusInternalServerError
}

// uploadWait bounds one upload.
const uploadWait = 30 * time.Second

// upload stores data as an object whose chunks have its name for their NUID: discard finds
// them by it, and it is one token, for which NATS users have rights.
func (c *Client) upload(ctx context.Context, data []byte) (*genbusv1.BlobRef, error) {
	ctx, cancel := context.WithTimeout(ctx, uploadWait)
	defer cancel()
	ctx, stop := c.connected(ctx)
	defer stop()
	if err := c.bucket(ctx); err != nil {
		return nil, err
	}
	info := jetstream.ObjectInfo{Bucket: c.names.Bodies(c.tenant), NUID: "upload-" + rand.Text()}
	info.Name = info.NUID
	publish := func(m *nats.Msg) error { return c.publishPart(ctx, m) }
	sum, err := objectwrite.Put(ctx, &info, bytes.NewReader(data), objectwrite.ChunkSize(c.nc.MaxPayload()), publish)
	return &genbusv1.BlobRef{Name: info.Name, Size: info.Size, Sha256: sum[:]}, err
}

// publishPart publishes a part of an upload, and waits for its answer no longer than for that
// to a request: one that was lost never comes, and the next upload needs time too.
func (c *Client) publishPart(ctx context.Context, m *nats.Msg) error {
	ctx, cancel := context.WithTimeoutCause(ctx, attemptWait, fmt.Errorf("no answer within %s", attemptWait))
	defer cancel()
	_, err := c.js.PublishMsg(ctx, m)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", err, context.Cause(ctx))
	}
	return err
}

// connected gives a context that ends also when the connection is lost: the answers to what
// was sent before never come, and nats.go would wait for them all the same.
func (c *Client) connected(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	lost := c.nc.StatusChanged(nats.RECONNECTING)
	go func() {
		if _, is := <-lost; is {
			cancel(nats.ErrDisconnected)
		}
	}()
	return ctx, func() {
		c.nc.RemoveStatusListener(lost) // closes it
		cancel(nil)
	}
}

// discard removes an upload that genbus has not read, with time of its own. What cannot be
// removed stays until the bucket's time is over.
func (c *Client) discard(ctx context.Context, upload string) {
	if upload == "" || c.nc.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWait)
	defer cancel()
	bucket := c.names.Bodies(c.tenant)
	stream, err := c.js.Stream(ctx, objectwrite.Stream(bucket))
	if err == nil { // the description first: what has one is whole
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(objectwrite.InfoOf(bucket, upload)))
	}
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(objectwrite.ChunksOf(bucket, upload)))
	}
	if err != nil {
		c.log.Debug("could not delete upload, left to expire", "object", upload, "error", err)
	}
}

// bucket makes the tenant's object store where it is not there. genbus makes it for the
// tenant's first large body; where this is that, it gets copies and a lifetime like those of
// the log.
func (c *Client) bucket(ctx context.Context) error {
	name := c.names.Bodies(c.tenant)
	_, err := c.js.ObjectStore(ctx, name)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return err
	}
	log, err := c.js.Stream(ctx, c.names.Tasks())
	if err != nil {
		return err
	}
	like := log.CachedInfo().Config
	_, err = c.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: name, TTL: like.MaxAge, Storage: like.Storage, Replicas: like.Replicas})
	if errors.Is(err, jetstream.ErrBucketExists) { // another process created it first
		return nil
	}
	return err
}
