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

// objectReader reads an object one chunk at a time, so it needs no consumer and a
// slow reader holds one chunk. It has nothing to give back.
type objectReader struct {
	ctx    context.Context
	o      objects
	ref    Body
	chunks string // their subject
	next   uint64 // sequence from which the next chunk is searched
	left   uint64 // bytes that are not fetched yet
	sum    hash.Hash
	chunk  []byte // fetched, but not read
	err    error  // the first failure, which stays
}

// open checks that the object of that name is the one that is meant.
func (o objects) open(ctx context.Context, ref Body) (*objectReader, error) {
	info, err := o.info(ctx, ref.Bucket, ref.Name)
	if err != nil {
		return nil, err
	}
	if !isObject(info, ref) {
		return nil, ErrBodyLost
	}
	return &objectReader{
		ctx: ctx, o: o, ref: ref, chunks: objectwrite.ChunksOf(ref.Bucket, info.NUID), next: 1, left: ref.Size, sum: sha256.New(),
	}, nil
}

// Read gives io.EOF only when the size and the digest are right.
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

// fetch reads the next chunk. The last one is handed out only when the digest is
// right, so that a reader who counts bytes notices the damage as well.
func (r *objectReader) fetch() error {
	if r.left == 0 {
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
	if size == 0 || size > r.left || size == r.left && [sha256.Size]byte(r.sum.Sum(nil)) != r.ref.SHA256 {
		return fmt.Errorf("read body %s: %w", r.ref.Name, ErrBodyLost)
	}
	r.chunk, r.next, r.left = m.Data, m.Seq+1, r.left-size
	return nil
}

// Close ends the reading.
func (r *objectReader) Close() error {
	r.chunk = nil
	if r.err == nil {
		r.err = errors.New("the body is closed")
	}
	return nil
}

// chunk reads the first message on a subject from sequence seq on, from any
// replica. A chunk never changes, so the only harm of a replica that lags is that
// it does not have it yet; then the leader is asked.
func (o objects) chunk(ctx context.Context, stream, subject string, seq uint64) (Stored, error) {
	m, err := o.b.direct(ctx, stream, streamread.Next(subject, seq))
	if err != nil && ctx.Err() == nil {
		return o.b.Next(ctx, stream, subject, seq)
	}
	return m, err
}
