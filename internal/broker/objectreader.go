package broker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/objectwrite"
	"github.com/genbus/genbus/internal/streamread"
)

// objectReader reads an object chunk by chunk. It uses no consumer, so a slow reader holds only one
// chunk and an abandoned reader leaks nothing.
type objectReader struct {
	ctx       context.Context
	o         objects
	ref       Body
	chunks    string // subject of the chunks
	next      uint64 // lowest sequence that the next chunk can have
	remaining uint64 // bytes not fetched yet
	sum       hash.Hash
	chunk     []byte // fetched but not yet read
	err       error  // first failure; sticky
}

// open returns a reader for a body, or ErrBodyLost if the object of that name does not match ref.
func (o objects) open(ctx context.Context, ref Body) (*objectReader, error) {
	info, err := o.info(ctx, ref.Bucket, ref.Name)
	if err != nil {
		return nil, err
	}
	if !isObject(info, ref) {
		return nil, ErrBodyLost
	}
	return &objectReader{
		ctx: ctx, o: o, ref: ref, chunks: objectwrite.ChunksOf(ref.Bucket, info.NUID), next: 1, remaining: ref.Size, sum: sha256.New(),
	}, nil
}

// Read returns io.EOF only if the size and digest match.
func (r *objectReader) Read(p []byte) (int, error) {
	for len(r.chunk) == 0 && r.err == nil {
		r.err = r.fetch()
	}
	if len(r.chunk) == 0 {
		return 0, r.err
	}
	n := copy(p, r.chunk)
	r.chunk = r.chunk[n:]
	return n, nil
}

// fetch reads the next chunk. If the digest is wrong, it withholds the last chunk, so that a caller
// that only counts bytes also notices the damage.
func (r *objectReader) fetch() error {
	if r.remaining == 0 {
		return io.EOF
	}
	m, err := r.o.chunk(r.ctx, objectwrite.Stream(r.ref.Bucket), r.chunks, r.next)
	if errors.Is(err, ErrNoMessage) || hasCode(err, jetstream.JSErrCodeStreamNotFound) {
		err = ErrBodyLost
	}
	if err != nil {
		return fmt.Errorf("read body %s: %w", r.ref.Name, err)
	}
	size := uint64(len(m.Data))
	r.sum.Write(m.Data)
	if size == 0 || size > r.remaining || size == r.remaining && [sha256.Size]byte(r.sum.Sum(nil)) != r.ref.SHA256 {
		return fmt.Errorf("read body %s: %w", r.ref.Name, ErrBodyLost)
	}
	r.chunk, r.next, r.remaining = m.Data, m.Seq+1, r.remaining-size
	return nil
}

// Close makes later reads fail.
func (r *objectReader) Close() error {
	r.chunk = nil
	if r.err == nil {
		r.err = errors.New("the body is closed")
	}
	return nil
}

// chunk returns the first message on a subject whose sequence is at least seq. It accepts an answer
// from any replica. Chunks never change, so a lagging replica can only fail to find one. In that
// case, chunk asks the leader.
func (o objects) chunk(ctx context.Context, stream, subject string, seq uint64) (Stored, error) {
	m, err := o.b.direct(ctx, stream, streamread.Next(subject, seq))
	if err != nil && ctx.Err() == nil {
		return o.b.Next(ctx, stream, subject, seq)
	}
	return m, err
}
