package load

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/objectwrite"
	"github.com/genbus/genbus/internal/subject"
)

// errNotStored means that the request could not be put into the object store, so no message was
// sent.
var errNotStored = errors.New("the request was not stored")

// store puts a request into the tenant's object store under a new name, and returns the message
// that names it.
func (c *client) store(ctx context.Context, kind subject.Kind, request []byte) ([]byte, error) {
	if err := c.bucket(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotStored, err)
	}
	info := jetstream.ObjectInfo{Bucket: c.o.Names.Bodies(c.tenant.Name), NUID: rand.Text()}
	info.Name = subject.UploadPrefix + rand.Text()
	publish := func(m *nats.Msg) error {
		_, err := c.js.PublishMsg(ctx, m)
		return err
	}
	sum, err := objectwrite.Put(ctx, &info, bytes.NewReader(request), objectwrite.ChunkSize(c.nc.MaxPayload()), publish)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotStored, err)
	}
	ref := &genbusv1.BlobRef{Name: info.Name, Size: info.Size, Sha256: sum[:]}
	if kind == subject.Chat {
		return proto.Marshal(&genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Stored{Stored: ref}})
	}
	return proto.Marshal(&genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Stored{Stored: ref}})
}

// bucket creates the tenant's object store if necessary, as genbus does.
func (c *client) bucket(ctx context.Context) error {
	name := c.o.Names.Bodies(c.tenant.Name)
	_, err := c.js.ObjectStore(ctx, name)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return err
	}
	log, err := c.js.Stream(ctx, c.o.Names.Tasks())
	if err != nil {
		return err
	}
	like := log.CachedInfo().Config
	_, err = c.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: name, TTL: like.MaxAge, Storage: like.Storage, Replicas: like.Replicas})
	if errors.Is(err, jetstream.ErrBucketExists) {
		return nil
	}
	return err
}
