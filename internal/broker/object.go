package broker

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/objectwrite"
)

// Objects lie in JetStream as every NATS client reads and writes them, so `nats object get`
// works on them. The client library's own Put and Get are not used: Put runs up to 4,000
// chunks ahead of the answers (package objectwrite), and Get reads through a consumer whose
// window grows to 32 MiB. On the embedded server 1 GiB took 136 and 162 MB of heap that way,
// and takes 34 and 59 MB this way, most of it the server's own.

// Body names a body in a tenant's object store.
type Body struct {
	Bucket string
	Name   string
	Size   uint64
	SHA256 [sha256.Size]byte
}

// objects reads and writes objects of any bucket.
type objects struct{ b *Broker }

// put writes the chunks on a subject of their own, and then the info that
// points to them: an object is there whole or not at all. Its name is the prefix and
// what no other object has, so that no write replaces what another one has stored,
// and the writer may remove it again without asking whether it is used (docs/adr/0009).
func (o objects) put(ctx context.Context, bucket, prefix string, r io.Reader, limit int64) (Body, error) {
	info := jetstream.ObjectInfo{Bucket: bucket}
	info.Name = prefix + "-" + rand.Text()
	info.NUID = objectwrite.NUID(info.Name)
	ref, err := o.putChunks(ctx, &info, r, limit)
	if err == nil {
		if err = o.putInfo(ctx, info); err == nil {
			return ref, nil
		}
		// It may be stored all the same: it was sent, and nothing was heard.
		err = errors.Join(err, o.purge(context.WithoutCancel(ctx), bucket, objectwrite.InfoOf(bucket, info.Name)))
	}
	return Body{}, errors.Join(err, o.purge(context.WithoutCancel(ctx), bucket, objectwrite.ChunksOf(bucket, info.NUID)))
}

// putChunks writes what r gives and completes info. The answer to a chunk is awaited also
// where ctx has ended: the purge of what was stored would overtake the chunk.
func (o objects) putChunks(ctx context.Context, info *jetstream.ObjectInfo, r io.Reader, limit int64) (Body, error) {
	size := objectwrite.ChunkSize(o.b.MaxPayload())
	if known, ok := r.(*bytes.Reader); ok { // a small body needs no large buffer
		size = max(1, min(size, int64(known.Len())))
	}
	if limit > 0 {
		r = &bounded{r: r, limit: limit, left: limit}
	}
	sum, err := objectwrite.Chunks(ctx, info, r, size, func(m *nats.Msg) error {
		_, err := o.b.Publish(context.WithoutCancel(ctx), m)
		return err
	})
	if err != nil {
		return Body{}, err
	}
	return Body{Bucket: info.Bucket, Name: info.Name, Size: info.Size, SHA256: sum}, nil
}

// bounded fails with ErrBodyTooLarge at the first byte beyond its limit.
type bounded struct {
	r           io.Reader
	limit, left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrBodyTooLarge, b.limit)
	}
	return n, err
}

// putInfo creates the info. Where there is one of that name it fails. Where the answer was
// lost, or ctx ended before it came, it is sent again: no one else writes under this name,
// so that the second answer says that one of the two is stored. A purge instead could
// overtake the first on the way to the stream, and leave it there.
func (o objects) putInfo(ctx context.Context, info jetstream.ObjectInfo) error {
	m, err := objectwrite.Description(info)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	create := func(ctx context.Context) error {
		_, err := o.b.PublishExpecting(ctx, Jobs, &nats.Msg{Subject: m.Subject, Data: m.Data}, 0)
		return err
	}
	if err = create(ctx); !errors.Is(err, ErrNoAnswer) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), PublishTimeout)
	defer cancel()
	for {
		switch err = create(ctx); {
		case errors.Is(err, ErrWrongSequence):
			return nil
		case !errors.Is(err, ErrInFlight):
			return err
		case Wait(ctx, 10*time.Millisecond) != nil:
			return err
		}
	}
}

// delete removes the object that ref names, unless another one has its name. A
// ref without a digest means whichever has it, and chunks whose info was never written.
// The chunks go last: Bodies.Of finds an object by them, so that a deletion that was cut
// off can be repeated. The client library's Delete is not used: it takes a replica's
// word that there is no such object, and its marker stays.
func (o objects) delete(ctx context.Context, ref Body) error {
	named := ref.SHA256 == [sha256.Size]byte{}
	info, err := o.info(ctx, ref.Bucket, ref.Name)
	switch {
	case errors.Is(err, ErrBodyLost) && named:
		info.NUID = objectwrite.NUID(ref.Name)
	case errors.Is(err, ErrBodyLost), err == nil && !named && !info.Deleted && !isObject(info, ref):
		return nil
	case err != nil:
		return err
	}
	if err := o.purge(ctx, ref.Bucket, objectwrite.InfoOf(ref.Bucket, ref.Name)); err != nil {
		return err
	}
	if strings.ContainsAny(info.NUID, "*>") { // chosen by another program, which may have none of ours purged
		return nil
	}
	return o.purge(ctx, ref.Bucket, objectwrite.ChunksOf(ref.Bucket, info.NUID))
}

type purgeRequest struct {
	Filter string `json:"filter"`
}

// purge removes what is on one of an object's subjects. A message whose answer did not come in
// time may come after it; that one stays until the bucket's TTL.
func (o objects) purge(ctx context.Context, bucket, subject string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, PublishTimeout, fmt.Errorf("purge %s: no answer within %s", subject, PublishTimeout))
	defer cancel()
	body, err := json.Marshal(purgeRequest{Filter: subject})
	if err != nil {
		return err
	}
	reply, err := o.b.ask(ctx, "$JS.API.STREAM.PURGE."+objectwrite.Stream(bucket), body)
	if err != nil {
		return fmt.Errorf("purge %s: %w", subject, errors.Join(ErrUnavailable, err))
	}
	var a apiAnswer
	if err := json.Unmarshal(reply.Data, &a); err != nil {
		return fmt.Errorf("purge %s: unreadable answer: %w", subject, err)
	}
	if a.Error == nil || a.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound {
		return nil
	}
	return fmt.Errorf("purge %s: %w", subject, a.Error)
}

// info reads what the bucket's leader says about an object, which may be that it
// was deleted; ErrBodyLost when it says nothing.
func (o objects) info(ctx context.Context, bucket, name string) (jetstream.ObjectInfo, error) {
	var info jetstream.ObjectInfo
	m, err := o.b.Last(ctx, objectwrite.Stream(bucket), objectwrite.InfoOf(bucket, name))
	if errors.Is(err, ErrNoMessage) || hasCode(err, jetstream.JSErrCodeStreamNotFound) {
		return info, ErrBodyLost
	}
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal(m.Data, &info); err != nil {
		return jetstream.ObjectInfo{}, ErrBodyLost
	}
	return info, nil
}

// isObject reports whether an info is that of the object that is meant.
func isObject(info jetstream.ObjectInfo, ref Body) bool {
	sum, err := jetstream.DecodeObjectDigest(info.Digest)
	return err == nil && !info.Deleted && info.Size == ref.Size && bytes.Equal(sum, ref.SHA256[:])
}
