package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/objectwrite"
)

// maxWhole is the largest body that Get reads, in bytes.
const maxWhole = 1 << 30

// Bodies holds what is too large for a message, and requests that are kept: one object store for each
// tenant, whose objects live as long as the task log (claim check).
type Bodies struct {
	b       *Broker
	objects objects
	mu      sync.Mutex
	buckets map[string]*bucket
	rooms   map[string]roomLook // by bucket
}

// bucket remembers whether a tenant's object store is there. Who holds turn
// creates it or reads ready; a tenant waits for no other tenant.
type bucket struct {
	turn  chan struct{}
	ready bool
	told  time.Time // last log entry about a failed creation
}

// tellEvery limits log entries about an object store that cannot be created.
const tellEvery = time.Minute

// NewBodies returns the bodies of a broker.
func NewBodies(b *Broker) *Bodies {
	return &Bodies{b: b, objects: objects{b}, buckets: map[string]*bucket{}, rooms: map[string]roomLook{}}
}

// Put stores data as an object of its own, whose name begins with prefix and is equal
// to no other's: only the reference that Put returns leads to it.
// The store's limit does not count: replies and dead letters are paid for.
func (s *Bodies) Put(ctx context.Context, tenant, prefix string, data []byte) (Body, error) {
	bucket := s.b.names.Bodies(tenant)
	if err := s.ensure(ctx, bucket); err != nil {
		return Body{}, err
	}
	return s.put(ctx, bucket, prefix, bytes.NewReader(data), 0)
}

// PutNew is Put for what may be refused: it fails with ErrFull when the tenant's store has
// reached its limit.
func (s *Bodies) PutNew(ctx context.Context, tenant, prefix string, data []byte) (Body, error) {
	bucket := s.b.names.Bodies(tenant)
	if err := s.ensure(ctx, bucket); err != nil {
		return Body{}, err
	}
	stream, err := s.b.Stream(ctx, objectwrite.Stream(bucket))
	if err != nil {
		s.forget(bucket)
		return Body{}, fmt.Errorf("object store %s: %w", bucket, errors.Join(ErrUnavailable, err))
	}
	left, err := s.left(stream.CachedInfo().State)
	if err == nil {
		left, err = s.spare(ctx, left)
	}
	if err != nil {
		return Body{}, fmt.Errorf("store body %s: %w", prefix, err)
	}
	return s.put(ctx, bucket, prefix, bytes.NewReader(data), left)
}

// PutStream is Put for what r gives until its end. Beyond limit bytes (0 for no limit) it fails
// with ErrBodyTooLarge, and with ErrFull where the embedded server's disk has no room but what is
// kept for the task log. After an error nothing stays behind, as far as JetStream can be reached.
// It holds one chunk of at most 512 KiB in memory. ctx bounds every write; a read that blocks is
// for r to end.
func (s *Bodies) PutStream(ctx context.Context, tenant, prefix string, r io.Reader, limit int64) (Body, error) {
	bucket := s.b.names.Bodies(tenant)
	if err := s.ensure(ctx, bucket); err != nil {
		return Body{}, err
	}
	limit, err := s.spare(ctx, limit)
	if err != nil {
		return Body{}, fmt.Errorf("store body %s: %w", prefix, err)
	}
	return s.put(ctx, bucket, prefix, r, limit)
}

const (
	// roomLookEvery is how long CheckRoom caches its result.
	roomLookEvery = 5 * time.Second
	// roomLookTimeout bounds how long CheckRoom delays a request.
	roomLookTimeout = 500 * time.Millisecond
	// manyRooms bounds the cache.
	manyRooms = 10_000
)

// roomLook is a cached result of CheckRoom.
type roomLook struct {
	at   time.Time
	full error
}

// CheckRoom returns ErrFull if the tenant's store has reached its limit. Replies and result copies
// count toward the limit, but are always stored. A result is cached for roomLookEvery, and longer
// while the store does not answer.
func (s *Bodies) CheckRoom(ctx context.Context, tenant string) error {
	bucket := s.b.names.Bodies(tenant)
	s.mu.Lock()
	seen, now := s.rooms[bucket], time.Now()
	if now.Sub(seen.at) < roomLookEvery {
		s.mu.Unlock()
		return seen.full
	}
	if len(s.rooms) >= manyRooms { // publishers can make up tenants
		clear(s.rooms)
	}
	s.rooms[bucket] = roomLook{now, seen.full} // others do not ask too
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, roomLookTimeout)
	defer cancel()
	stream, err := s.b.Stream(ctx, objectwrite.Stream(bucket))
	switch {
	case err == nil:
		_, err = s.left(stream.CachedInfo().State)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		err = nil
	default:
		return seen.full // as it was
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rooms[bucket] = roomLook{now, err}
	return err
}

// left is what a tenant's store may still take, in bytes. The messages are counted as well: NATS
// has the subject of each in memory, and every body has two of its own. JetStream's own limit is
// not used: the server sets it aside whole when it creates the bucket, so that a few tenants would
// use up a disk that is empty, and it would refuse what is paid for. Bodies that are stored at the
// same time do not see each other.
func (s *Bodies) left(state jetstream.StreamState) (int64, error) {
	most := s.b.streams.limits
	if state.Msgs >= uint64(most.BodiesMaxMsgs) {
		return 0, fmt.Errorf("%w: the tenant's object store has reached its %d messages", ErrFull, most.BodiesMaxMsgs)
	}
	if left := most.BodiesMaxBytes - int64(state.Bytes); left > 0 {
		return left, nil
	}
	return 0, fmt.Errorf("%w: the tenant's object store has reached its %d bytes", ErrFull, most.BodiesMaxBytes)
}

// spare lowers limit, 0 for none, to what the embedded server's disk has beyond the bytes that are
// kept for the task log.
func (s *Bodies) spare(ctx context.Context, limit int64) (int64, error) {
	if s.b.embedded == nil {
		return limit, nil
	}
	log, err := s.b.Stream(ctx, s.b.names.Tasks())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return limit, nil
	}
	if err != nil {
		return 0, err
	}
	switch spare, known := s.b.StoreSpare(log.CachedInfo()); {
	case !known:
		return limit, nil
	case spare <= 0:
		return 0, fmt.Errorf("%w: the server's storage (nats.max_store_bytes) is used up except for the part reserved for the task log (nats.streams.tasks.max_bytes)", ErrFull)
	case limit == 0 || limit > spare:
		return spare, nil
	default:
		return limit, nil
	}
}

func (s *Bodies) put(ctx context.Context, bucket, prefix string, r io.Reader, limit int64) (Body, error) {
	ref, err := s.objects.put(ctx, bucket, prefix, r, limit)
	if errors.Is(err, ErrUnavailable) {
		s.forget(bucket)
	}
	if err != nil {
		return Body{}, fmt.Errorf("store body %s: %w", prefix, err)
	}
	return ref, nil
}

// Open reads a body as a stream, within ctx. It fails with ErrBodyLost when the
// body is gone or another one has its name. A body that turns out to be damaged
// fails a later Read with ErrBodyLost, at the latest before its last chunk.
func (s *Bodies) Open(ctx context.Context, ref Body) (io.ReadCloser, error) {
	r, err := s.objects.open(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("body %s: %w", ref.Name, err)
	}
	return r, nil
}

// Get reads a body whole, up to 1 GiB, and checks its size and digest.
func (s *Bodies) Get(ctx context.Context, ref Body) ([]byte, error) {
	if ref.Size > maxWhole {
		return nil, fmt.Errorf("body %s of %d bytes: %w", ref.Name, ref.Size, ErrBodyTooLarge)
	}
	r, err := s.Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data := make([]byte, ref.Size)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, err
	}
	return data, nil
}

// Delete removes a body; one that is gone already is no error.
func (s *Bodies) Delete(ctx context.Context, ref Body) error {
	return wrapf(s.objects.delete(ctx, ref), "delete body %s", ref.Name)
}

// ensure creates the bucket at the tenant's first large body.
func (s *Bodies) ensure(ctx context.Context, name string) error {
	known := s.bucket(name)
	select {
	case known.turn <- struct{}{}:
		defer func() { <-known.turn }()
	case <-ctx.Done():
		return fmt.Errorf("object store %s: %w", name, context.Cause(ctx))
	}
	if known.ready {
		return nil
	}
	ctx, cancel := lookup(ctx, "object store "+name)
	defer cancel()
	err := s.create(ctx, name)
	for errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = s.create(ctx, name)
	}
	if api, refused := errors.AsType[*jetstream.APIError](err); refused {
		err = classifyAPI(api)
	}
	if reserved := s.b.streams.limits.BodiesReserved; reserved > 0 && errors.Is(err, ErrStorage) {
		err = fmt.Errorf("%w (nats.streams.bodies.max_bytes reserves %d bytes for each tenant)", err, reserved)
	}
	if (Permanent(err) || errors.Is(err, ErrStorage)) && time.Since(known.told) >= tellEvery {
		known.told = time.Now()
		s.b.log.Error("could not create object store", "bucket", name, "error", err)
	}
	if err != nil {
		return fmt.Errorf("object store %s: %w", name, err)
	}
	known.ready = true
	return nil
}

// createTimeout bounds one creation of a bucket. Of two replicas that create it at one moment
// on a cluster one may get no answer, and finds it there when it asks again.
const createTimeout = time.Second

func (s *Bodies) create(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	_, err := s.b.js.CreateOrUpdateObjectStore(ctx, s.b.streams.ObjectStore(name))
	return err
}

func (s *Bodies) bucket(name string) *bucket {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.buckets[name]
	if known == nil {
		known = &bucket{turn: make(chan struct{}, 1)}
		s.buckets[name] = known
	}
	return known
}

// forget makes the next body create the bucket again, if it was deleted.
func (s *Bodies) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.buckets, name)
}
