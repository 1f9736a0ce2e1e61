package broker

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Objects lie in JetStream as every NATS client reads and writes them (ADR 20 of
// NATS), so `nats object get` works on them. The client library's own Put and
// Get are not used: Put runs up to 4,000 chunks ahead of the answers, and Get
// reads through a consumer whose window grows to 32 MiB. On the embedded server
// 1 GiB took 136 and 162 MB of heap that way, and takes 34 and 59 MB this way,
// most of it the server's own.

// maxChunk is how many bytes of an object one message holds, where the server's
// max_payload allows it.
const maxChunk = 512 << 10

// Body names a body in a tenant's object store.
type Body struct {
	Bucket string
	Name   string
	Size   uint64
	SHA256 [sha256.Size]byte
}

// objects reads and writes objects of any bucket.
type objects struct{ c *connection }

func objectStream(bucket string) string       { return "OBJ_" + bucket }
func objectChunks(bucket, nuid string) string { return "$O." + bucket + ".C." + nuid }

func objectInfos(bucket string) string { return "$O." + bucket + ".M." }

func objectInfo(bucket, name string) string {
	return objectInfos(bucket) + base64.URLEncoding.EncodeToString([]byte(name))
}

// objectNUID is what an object that we write has for its chunks: its name with a dot
// for the first dash. So all chunks of what a job has stored begin with the job's id as
// a token of its own, and are found by it, whether or not their info was written.
func objectNUID(name string) string { return strings.Replace(name, "-", ".", 1) }

func objectName(nuid string) string { return strings.Replace(nuid, ".", "-", 1) }

// put writes the chunks on a subject of their own, and then the info that
// points to them: an object is there whole or not at all. Its name is the prefix and
// what no other object has, so that no write replaces what another one has stored,
// and the writer may remove it again without asking whether it is used (docs/adr/0009).
func (o objects) put(ctx context.Context, bucket, prefix string, r io.Reader, limit int64) (Body, error) {
	info := jetstream.ObjectInfo{Bucket: bucket}
	info.Name = prefix + "-" + rand.Text()
	info.NUID = objectNUID(info.Name)
	ref, err := o.putChunks(ctx, &info, r, limit)
	if err == nil {
		if err = o.putInfo(ctx, info); err == nil {
			return ref, nil
		}
		// It may be stored all the same: it was sent, and nothing was heard.
		err = errors.Join(err, o.purge(context.WithoutCancel(ctx), bucket, objectInfo(bucket, info.Name)))
	}
	return Body{}, errors.Join(err, o.purge(context.WithoutCancel(ctx), bucket, objectChunks(bucket, info.NUID)))
}

// putChunks writes what r gives and completes info. Each chunk waits for the
// answer to the one before it: that bounds the memory here and in the server,
// and a chunk of this size is worth a round trip. The answer is awaited also where ctx has
// ended: the purge of what was stored would overtake the chunk.
func (o objects) putChunks(ctx context.Context, info *jetstream.ObjectInfo, r io.Reader, limit int64) (Body, error) {
	size := min(maxChunk, o.c.MaxPayload()/2)
	if known, ok := r.(*bytes.Reader); ok { // a small body needs no large buffer
		size = max(1, min(size, int64(known.Len())))
	}
	chunk := make([]byte, size)
	info.Opts = &jetstream.ObjectMetaOptions{ChunkSize: uint32(len(chunk))}
	sum := sha256.New()
	for end := false; !end; {
		n, err := fill(r, chunk)
		end = err == io.EOF //nolint:errorlint // a failure that wraps io.EOF is no end
		if err != nil && !end {
			return Body{}, err
		}
		if info.Size += uint64(n); limit > 0 && info.Size > uint64(limit) {
			return Body{}, fmt.Errorf("%w: more than %d bytes", ErrBodyTooLarge, limit)
		}
		if n == 0 {
			continue
		}
		if ctx.Err() != nil {
			return Body{}, context.Cause(ctx)
		}
		sum.Write(chunk[:n])
		if _, err := o.c.Publish(context.WithoutCancel(ctx), &nats.Msg{Subject: objectChunks(info.Bucket, info.NUID), Data: chunk[:n]}); err != nil {
			return Body{}, err
		}
		info.Chunks++
	}
	info.Digest = jetstream.GetObjectDigestValue(sum)
	return Body{Bucket: info.Bucket, Name: info.Name, Size: info.Size, SHA256: [sha256.Size]byte(sum.Sum(nil))}, nil
}

// fill reads until p is full or r ends. Unlike io.ReadFull it never takes a
// reader's own io.ErrUnexpectedEOF, which means a loss, for the end.
func fill(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}

// putInfo creates the info. Where there is one of that name it fails. Where the answer was
// lost, or ctx ended before it came, it is sent again: no one else writes under this name,
// so that the second answer says that one of the two is stored. A purge instead could
// overtake the first on the way to the stream, and leave it there.
func (o objects) putInfo(ctx context.Context, info jetstream.ObjectInfo) error {
	data, err := json.Marshal(info)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	create := func(ctx context.Context) error {
		_, err := o.c.PublishExpecting(ctx, Jobs, &nats.Msg{Subject: objectInfo(info.Bucket, info.Name), Data: data}, 0)
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
		info.NUID = objectNUID(ref.Name)
	case errors.Is(err, ErrBodyLost), err == nil && !named && !info.Deleted && !isObject(info, ref):
		return nil
	case err != nil:
		return err
	}
	if err := o.purge(ctx, ref.Bucket, objectInfo(ref.Bucket, ref.Name)); err != nil {
		return err
	}
	if strings.ContainsAny(info.NUID, "*>") { // chosen by another program, which may have none of ours purged
		return nil
	}
	return o.purge(ctx, ref.Bucket, objectChunks(ref.Bucket, info.NUID))
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
	reply, err := o.c.ask(ctx, objectStream(bucket), "$JS.API.STREAM.PURGE."+objectStream(bucket), body)
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
	m, err := o.c.Last(ctx, objectStream(bucket), objectInfo(bucket, name))
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
