package load

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
)

// errNotStored is a request that could not be put into the object store, so that no
// message was sent.
var errNotStored = errors.New("the request was not stored")

// store puts a request into the object store of the client's tenant, as an object of its
// own each time, and gives the message that names it.
func (c *client) store(ctx context.Context, kind subject.Kind, request []byte) ([]byte, error) {
	store, err := c.bucket(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotStored, err)
	}
	sum := sha256.Sum256(request)
	ref := &genbusv1.BlobRef{Name: subject.UploadPrefix + rand.Text(), Size: uint64(len(request)), Sha256: sum[:]}
	if _, err := store.Put(ctx, jetstream.ObjectMeta{Name: ref.GetName()}, bytes.NewReader(request)); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotStored, err)
	}
	if kind == subject.Chat {
		return proto.Marshal(&genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Stored{Stored: ref}})
	}
	return proto.Marshal(&genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Stored{Stored: ref}})
}

// bucket is the tenant's object store, which its publishers make as genbus does.
func (c *client) bucket(ctx context.Context) (jetstream.ObjectStore, error) {
	name := c.o.Names.Bodies(c.tenant.Name)
	store, err := c.js.ObjectStore(ctx, name)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return store, err
	}
	log, err := c.js.Stream(ctx, c.o.Names.Tasks())
	if err != nil {
		return nil, err
	}
	like := log.CachedInfo().Config
	store, err = c.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: name, TTL: like.MaxAge, Storage: like.Storage, Replicas: like.Replicas})
	if errors.Is(err, jetstream.ErrBucketExists) {
		return c.js.ObjectStore(ctx, name)
	}
	return store, err
}
