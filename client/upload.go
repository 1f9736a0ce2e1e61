package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// fits reports whether a message is one that NATS takes. Its headers are set.
func (c *Client) fits(m *nats.Msg) bool {
	limit := c.nc.MaxPayload()                    // 0 before the first connection
	return limit == 0 || int64(m.Size()) <= limit // counts the subject too, which NATS does not
}

// store puts a request that is larger than a message into the tenant's object store, and
// has the message name it instead. It fails with errNotSent where it may be tried again; the
// object with that name may be there then too, if only its answer was lost. What a lost
// connection left of an upload that was not whole has no name, and stays until the bucket's
// time is over.
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
			"the request has %d bytes, NATS takes messages of %d, and it could not be stored: %v; where this user has no right to the object store, send it by HTTP or gRPC",
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

func (c *Client) upload(ctx context.Context, data []byte) (*genbusv1.BlobRef, error) {
	ctx, cancel := context.WithTimeout(ctx, uploadWait)
	defer cancel()
	store, err := c.bucket(ctx)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	ref := &genbusv1.BlobRef{Name: "upload-" + rand.Text(), Size: uint64(len(data)), Sha256: sum[:]}
	_, err = store.Put(ctx, jetstream.ObjectMeta{Name: ref.GetName()}, bytes.NewReader(data))
	return ref, err
}

// discard removes an upload that genbus has not read, with time of its own. What cannot be
// removed stays until the bucket's time is over.
func (s *sending) discard(ctx context.Context) {
	if s.upload == "" || s.c.nc.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWait)
	defer cancel()
	store, err := s.c.js.ObjectStore(ctx, s.c.names.Bodies(s.c.tenant))
	if err == nil {
		err = store.Delete(ctx, s.upload)
	}
	if err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		s.c.log.Debug("an upload stays until its time is over", "object", s.upload, "error", err)
	}
}

// bucket is the tenant's object store. genbus makes it for the tenant's first large body;
// where this is that, it is made here, with copies and a lifetime like those of the log.
func (c *Client) bucket(ctx context.Context) (jetstream.ObjectStore, error) {
	name := c.names.Bodies(c.tenant)
	store, err := c.js.ObjectStore(ctx, name)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return store, err
	}
	log, err := c.js.Stream(ctx, c.names.Tasks())
	if err != nil {
		return nil, err
	}
	like := log.CachedInfo().Config
	store, err = c.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: name, TTL: like.MaxAge, Storage: like.Storage, Replicas: like.Replicas})
	if errors.Is(err, jetstream.ErrBucketExists) { // another process created it first
		return c.js.ObjectStore(ctx, name)
	}
	return store, err
}
