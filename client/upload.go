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

// fits reports whether m fits into a NATS message. The headers of m must be set.
func (c *Client) fits(m *nats.Msg) bool {
	limit := c.nc.MaxPayload()                    // 0 before the first connection
	return limit == 0 || int64(m.Size()) <= limit // Size counts the subject, too, which the limit does not
}

// store uploads a request to the tenant's object store and replaces the data of m with a reference.
// An error that wraps errNotSent may be retried. After any error, the object may exist in whole or
// in part.
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

// refusedByServer reports whether JetStream answered with an error that a retry would get again.
func refusedByServer(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code < http.StatusInternalServerError
}

// uploadWait bounds one upload.
const uploadWait = 30 * time.Second

// upload stores data as an object whose chunks use its name as their NUID. discard finds them by
// that name, and it is a single token, as NATS permissions expect.
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

// publishPart publishes a part of an upload and waits at most attemptWait: a lost answer never
// comes, and the next upload needs time, too.
func (c *Client) publishPart(ctx context.Context, m *nats.Msg) error {
	ctx, cancel := context.WithTimeoutCause(ctx, attemptWait, fmt.Errorf("no answer within %s", attemptWait))
	defer cancel()
	_, err := c.js.PublishMsg(ctx, m)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", err, context.Cause(ctx))
	}
	return err
}

// connected returns a context that also ends when the connection is lost: nats.go would keep
// waiting for answers that can no longer arrive.
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

// discard removes an upload that genbus has not read, even after ctx has ended. If removing fails,
// the upload expires with its bucket.
func (c *Client) discard(ctx context.Context, upload string) {
	if upload == "" || c.nc.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWait)
	defer cancel()
	bucket := c.names.Bodies(c.tenant)
	stream, err := c.js.Stream(ctx, objectwrite.Stream(bucket))
	if err == nil { // description first: an object that has one counts as complete
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(objectwrite.InfoOf(bucket, upload)))
	}
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(objectwrite.ChunksOf(bucket, upload)))
	}
	if err != nil {
		c.log.Debug("could not delete upload, left to expire", "object", upload, "error", err)
	}
}

// bucket creates the tenant's object store if it is missing. Usually genbus creates it for the
// tenant's first large body. Its storage, replicas and lifetime are copied from the log's stream.
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
