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

// maxWhole is the maximum size, in bytes, of a body that Get reads.
const maxWhole = 1 << 30

// Bodies stores payloads that are too large for a message (claim check) and requests that must be
// kept. Each tenant has an object store, whose objects expire at the same age as the job log.
type Bodies struct {
	b              *Broker
	objects        objects
	mu             sync.Mutex
	buckets        map[string]*bucket
	capacityChecks map[string]capacityCheck // by bucket
}

// bucket caches whether a tenant's object store exists. turn is a semaphore that guards ready and
// loggedAt. Each bucket has its own, so that no tenant waits for another.
type bucket struct {
	turn     chan struct{}
	ready    bool
	loggedAt time.Time // last log entry about a failed creation
}

// logEvery is the minimum interval between log entries about an object store that cannot be
// created.
const logEvery = time.Minute

// NewBodies returns a Bodies that uses b.
func NewBodies(b *Broker) *Bodies {
	return &Bodies{b: b, objects: objects{b}, buckets: map[string]*bucket{}, capacityChecks: map[string]capacityCheck{}}
}

// Put stores data as a new object with a unique name that begins with prefix. The object can be
// found only by the returned reference. The tenant's limit does not apply, because replies and dead
// letters are already paid for.
func (s *Bodies) Put(ctx context.Context, tenant, prefix string, data []byte) (Body, error) {
	bucket := s.b.names.Bodies(tenant)
	if err := s.ensure(ctx, bucket); err != nil {
		return Body{}, err
	}
	return s.put(ctx, bucket, prefix, bytes.NewReader(data), 0)
}

// PutNew is like Put but for bodies that may be refused. It returns ErrFull if the tenant's store
// has reached its limit.
func (s *Bodies) PutNew(ctx context.Context, tenant, prefix string, data []byte) (Body, error) {
	bucket := s.b.names.Bodies(tenant)
	if err := s.ensure(ctx, bucket); err != nil {
		return Body{}, err
	}
	stream, err := s.b.Stream(ctx, objectwrite.Stream(bucket))
	if err != nil {
		s.invalidate(bucket)
		return Body{}, fmt.Errorf("object store %s: %w", bucket, errors.Join(ErrUnavailable, err))
	}
	remaining, err := s.remaining(stream.CachedInfo().State)
	if err == nil {
		remaining, err = s.spare(ctx, remaining)
	}
	if err != nil {
		return Body{}, fmt.Errorf("store body %s: %w", prefix, err)
	}
	return s.put(ctx, bucket, prefix, bytes.NewReader(data), remaining)
}

// PutStream is like Put but stores the contents of r. It returns ErrBodyTooLarge after limit bytes
// (0 means no limit), and ErrFull if the only bytes left on the embedded server's disk are reserved
// for the job log. After an error, it removes the object if it can reach JetStream. It buffers one
// chunk of at most 512 KiB. ctx bounds each write, but does not interrupt a blocked read from r.
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
	// capacityCheckEvery is how long CheckCapacity caches its result.
	capacityCheckEvery = 5 * time.Second
	// capacityCheckTimeout bounds the delay that CheckCapacity adds to a request.
	capacityCheckTimeout = 500 * time.Millisecond
	// maxCapacityChecks limits the number of cached results.
	maxCapacityChecks = 10_000
)

// capacityCheck is a cached result of CheckCapacity.
type capacityCheck struct {
	at   time.Time
	full error
}

// CheckCapacity returns ErrFull if the tenant's store has reached its limit. Replies and copies of
// results count toward the limit but are always stored. CheckCapacity caches its result for
// capacityCheckEvery, or for longer if the store does not answer.
func (s *Bodies) CheckCapacity(ctx context.Context, tenant string) error {
	bucket := s.b.names.Bodies(tenant)
	s.mu.Lock()
	seen, now := s.capacityChecks[bucket], time.Now()
	if now.Sub(seen.at) < capacityCheckEvery {
		s.mu.Unlock()
		return seen.full
	}
	if len(s.capacityChecks) >= maxCapacityChecks { // publishers can invent tenants
		clear(s.capacityChecks)
	}
	s.capacityChecks[bucket] = capacityCheck{now, seen.full} // concurrent calls use the previous result
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, capacityCheckTimeout)
	defer cancel()
	stream, err := s.b.Stream(ctx, objectwrite.Stream(bucket))
	switch {
	case err == nil:
		_, err = s.remaining(stream.CachedInfo().State)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		err = nil
	default:
		return seen.full // keep the previous result
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capacityChecks[bucket] = capacityCheck{now, err}
	return err
}

// remaining returns how many more bytes a tenant's store may hold. It also limits the number of
// messages, because NATS keeps each subject in memory and each body has two subjects. JetStream's
// own limit would reserve the bytes for each bucket and refuse bodies that are already paid for.
// Concurrent puts do not see each other's bytes.
func (s *Bodies) remaining(state jetstream.StreamState) (int64, error) {
	limits := s.b.streams.limits
	if state.Msgs >= uint64(limits.BodiesMaxMsgs) {
		return 0, fmt.Errorf("%w: the tenant's object store has reached its %d messages", ErrFull, limits.BodiesMaxMsgs)
	}
	if remaining := limits.BodiesMaxBytes - int64(state.Bytes); remaining > 0 {
		return remaining, nil
	}
	return 0, fmt.Errorf("%w: the tenant's object store has reached its %d bytes", ErrFull, limits.BodiesMaxBytes)
}

// spare lowers limit to the number of free bytes on the embedded server's disk, excluding those
// reserved for the job log. A limit of 0 means no limit.
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
		s.invalidate(bucket)
	}
	if err != nil {
		return Body{}, fmt.Errorf("store body %s: %w", prefix, err)
	}
	return ref, nil
}

// Open returns a reader for a body. ctx bounds the reads. Open returns ErrBodyLost if the body is
// missing or the object of that name is a different one. If the body is damaged, Read returns
// ErrBodyLost before or instead of the last chunk.
func (s *Bodies) Open(ctx context.Context, ref Body) (io.ReadCloser, error) {
	r, err := s.objects.open(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("body %s: %w", ref.Name, err)
	}
	return r, nil
}

// Get returns a whole body of up to 1 GiB and checks its size and digest.
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

// Delete removes a body. A missing body is not an error.
func (s *Bodies) Delete(ctx context.Context, ref Body) error {
	return wrapf(s.objects.delete(ctx, ref), "delete body %s", ref.Name)
}

// ensure creates a tenant's bucket if it does not exist.
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
	if (Permanent(err) || errors.Is(err, ErrStorage)) && time.Since(known.loggedAt) >= logEvery {
		known.loggedAt = time.Now()
		s.b.log.Error("could not create object store", "bucket", name, "error", err)
	}
	if err != nil {
		return fmt.Errorf("object store %s: %w", name, err)
	}
	known.ready = true
	return nil
}

// createTimeout bounds one attempt to create a bucket. If two replicas of a cluster create it at
// the same moment, one of them may get no answer. Its next attempt finds the bucket.
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

// invalidate makes the next put check the bucket again, because it may have been deleted.
func (s *Bodies) invalidate(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.buckets, name)
}
