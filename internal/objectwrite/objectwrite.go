// Package objectwrite writes objects of JetStream's object stores as every NATS client reads
// and writes them (ADR 20 of NATS): their subjects, their chunks and the message that
// describes them. It sends nothing itself. The client library's own Put is not used: it runs
// up to 4,000 chunks ahead of the answers, and where the broker has no leader for a moment it
// sends again what its one buffer holds by then, which is another chunk.
package objectwrite

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// maxChunk is how many bytes of an object one message holds, where the server's
// max_payload allows it.
const maxChunk = 512 << 10

// ChunkSize is how many bytes of an object one message holds on a connection with that
// max_payload, which is 0 before the first connection. It is never 0: such chunks have no end.
func ChunkSize(maxPayload int64) int64 {
	if maxPayload <= 0 {
		return maxChunk
	}
	return max(1, min(maxChunk, maxPayload/2))
}

// Stream is the stream of an object store.
func Stream(bucket string) string { return "OBJ_" + bucket }

// ChunksOf is the subject of an object's chunks. With an empty nuid it is what those of all
// objects begin with.
func ChunksOf(bucket, nuid string) string { return "$O." + bucket + ".C." + nuid }

// InfoOf is the subject of an object's description.
func InfoOf(bucket, name string) string {
	return "$O." + bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}

// NUID is what an object that we write has for its chunks: its name with a dot
// for the first dash. So all chunks of what a job has stored begin with the job's id as
// a token of its own, and are found by it, whether or not their description was written.
func NUID(name string) string { return strings.Replace(name, "-", ".", 1) }

// Name is the inverse of NUID.
func Name(nuid string) string { return strings.Replace(nuid, ".", "-", 1) }

// Put writes an object whole: its chunks, as Chunks does, and then its description.
func Put(ctx context.Context, info *jetstream.ObjectInfo, r io.Reader, size int64, publish func(*nats.Msg) error) (digest [sha256.Size]byte, err error) {
	if digest, err = Chunks(ctx, info, r, size, publish); err != nil {
		return digest, err
	}
	m, err := Description(*info)
	if err != nil {
		return digest, err
	}
	return digest, publish(m)
}

// Chunks writes what r gives as chunks of size bytes, and completes info, which has a bucket,
// a name and a NUID. Each chunk waits for the answer to the one before it: that bounds the
// memory here and in the server, a chunk of this size is worth a round trip, and the buffer
// is not used again before publish has returned. It ends between two chunks when ctx does. It
// returns the digest of what was written, or the error of r, publish or ctx as it is.
func Chunks(ctx context.Context, info *jetstream.ObjectInfo, r io.Reader, size int64, publish func(*nats.Msg) error) (digest [sha256.Size]byte, err error) {
	chunk := make([]byte, size)
	info.Opts = &jetstream.ObjectMetaOptions{ChunkSize: uint32(len(chunk))}
	sum := sha256.New()
	for end := false; !end; {
		n, err := fill(r, chunk)
		end = err == io.EOF //nolint:errorlint // a failure that wraps io.EOF is no end
		if err != nil && !end {
			return digest, err
		}
		if n == 0 {
			continue
		}
		if ctx.Err() != nil {
			return digest, context.Cause(ctx)
		}
		sum.Write(chunk[:n])
		if err := publish(&nats.Msg{Subject: ChunksOf(info.Bucket, info.NUID), Data: chunk[:n]}); err != nil {
			return digest, err
		}
		info.Size += uint64(n)
		info.Chunks++
	}
	info.Digest = jetstream.GetObjectDigestValue(sum)
	return [sha256.Size]byte(sum.Sum(nil)), nil
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

// Description is the message by which an object is there: whole, or not at all.
func Description(info jetstream.ObjectInfo) (*nats.Msg, error) {
	data, err := json.Marshal(info)
	if err != nil {
		return nil, err
	}
	return &nats.Msg{Subject: InfoOf(info.Bucket, info.Name), Data: data}, nil
}
