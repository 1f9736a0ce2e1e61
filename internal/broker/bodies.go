package broker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrBodyLost says that a stored body is gone or damaged.
var ErrBodyLost = errors.New("the stored body is gone or damaged")

// Body names a body in a tenant's object store.
type Body struct {
	Bucket string
	Name   string
	Size   uint64
	SHA256 [sha256.Size]byte
}

// Bodies holds what is too large for a message: one object store for each
// tenant, whose objects live as long as the task log (claim check).
type Bodies struct {
	b     *Broker
	mu    sync.Mutex
	known map[string]jetstream.ObjectStore
}

// NewBodies returns the bodies of a broker.
func NewBodies(b *Broker) *Bodies {
	return &Bodies{b: b, known: map[string]jetstream.ObjectStore{}}
}

// Put stores data under name, replacing what was there.
func (s *Bodies) Put(ctx context.Context, tenant, name string, data []byte) (Body, error) {
	store, err := s.store(ctx, s.b.names.Bodies(tenant))
	if err != nil {
		return Body{}, err
	}
	if _, err := store.PutBytes(ctx, name, data); err != nil {
		return Body{}, fmt.Errorf("store body %s: %w", name, err)
	}
	return Body{Bucket: s.b.names.Bodies(tenant), Name: name, Size: uint64(len(data)), SHA256: sha256.Sum256(data)}, nil
}

// Get reads a body whole and checks its size and digest.
func (s *Bodies) Get(ctx context.Context, ref Body) ([]byte, error) {
	store, err := s.b.js.ObjectStore(ctx, ref.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("body %s: %w", ref.Name, ErrBodyLost)
	}
	if err != nil {
		return nil, fmt.Errorf("body %s: %w", ref.Name, err)
	}
	data, err := readObject(ctx, store, ref)
	if errors.Is(err, jetstream.ErrObjectNotFound) || errors.Is(err, jetstream.ErrDigestMismatch) {
		return nil, fmt.Errorf("body %s: %w", ref.Name, ErrBodyLost)
	}
	return data, err
}

func readObject(ctx context.Context, store jetstream.ObjectStore, ref Body) ([]byte, error) {
	r, err := store.Get(ctx, ref.Name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var buf bytes.Buffer
	if _, err := io.Copy(&buf, io.LimitReader(r, int64(min(ref.Size, 1<<30))+1)); err != nil {
		return nil, fmt.Errorf("read body %s: %w", ref.Name, err)
	}
	if uint64(buf.Len()) != ref.Size || sha256.Sum256(buf.Bytes()) != ref.SHA256 {
		return nil, fmt.Errorf("body %s: %w", ref.Name, ErrBodyLost)
	}
	return buf.Bytes(), nil
}

// Delete removes a body; one that is gone already is no error.
func (s *Bodies) Delete(ctx context.Context, ref Body) error {
	store, err := s.b.js.ObjectStore(ctx, ref.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("body %s: %w", ref.Name, err)
	}
	if err := store.Delete(ctx, ref.Name); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		return fmt.Errorf("delete body %s: %w", ref.Name, err)
	}
	return nil
}

// store opens the bucket, creating it at the tenant's first large body.
func (s *Bodies) store(ctx context.Context, bucket string) (jetstream.ObjectStore, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if store, ok := s.known[bucket]; ok {
		return store, nil
	}
	store, err := s.b.js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket:      bucket,
		Description: "genbus: bodies that are too large for a message",
		TTL:         s.b.limits.TasksMaxAge,
		Storage:     jetstream.FileStorage,
		Replicas:    s.b.replicas,
		Metadata:    revisionMetadata(),
	})
	if err != nil {
		return nil, fmt.Errorf("object store %s: %w", bucket, err)
	}
	s.known[bucket] = store
	return store, nil
}
