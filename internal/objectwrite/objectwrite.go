// Package objectwrite builds the messages of a JetStream object (NATS ADR 20): subjects, chunks and
// description. Callers publish them.
//
// It replaces the client library's ObjectStore.Put, which publishes up to 4,000 chunks ahead of the
// acks. If the stream briefly has no leader, Put resends a chunk from its only buffer, which
// already holds a later chunk.
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

// maxChunk is the chunk size in bytes, unless max_payload is too small for it.
const maxChunk = 512 << 10

// ChunkSize returns the chunk size, in bytes, for a connection with the given max_payload, which is
// 0 before the first connection. The result is at least 1, because chunks of size 0 would never
// end.
func ChunkSize(maxPayload int64) int64 {
	if maxPayload <= 0 {
		return maxChunk
	}
	return max(1, min(maxChunk, maxPayload/2))
}

// Stream returns the name of the stream behind an object store.
func Stream(bucket string) string { return "OBJ_" + bucket }

// ChunksOf returns the subject of an object's chunks. With an empty nuid, it returns the prefix
// that the chunks of all objects share.
func ChunksOf(bucket, nuid string) string { return "$O." + bucket + ".C." + nuid }

// InfoOf returns the subject of an object's description.
func InfoOf(bucket, name string) string {
	return "$O." + bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}

// NUID returns the chunk ID of an object written by genbus: its name with the first dash replaced
// by a dot. The job ID becomes a subject token, so a job's chunks can be found even if their
// description was never written.
func NUID(name string) string { return strings.Replace(name, "-", ".", 1) }

// Name reverses NUID.
func Name(nuid string) string { return strings.Replace(nuid, ".", "-", 1) }

// Put publishes an object: its chunks, then its description.
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

// Chunks publishes r in chunks of size bytes and completes info. The Bucket, Name and NUID of info
// must be set. Chunks waits for each publish, which bounds the memory here and in the server and
// makes the buffer safe to reuse. It checks ctx between chunks. It returns the SHA-256 digest of r,
// or, unwrapped, the error of r or publish or the cause of ctx.
func Chunks(ctx context.Context, info *jetstream.ObjectInfo, r io.Reader, size int64, publish func(*nats.Msg) error) (digest [sha256.Size]byte, err error) {
	chunk := make([]byte, size)
	info.Opts = &jetstream.ObjectMetaOptions{ChunkSize: uint32(len(chunk))}
	sum := sha256.New()
	for end := false; !end; {
		n, err := fill(r, chunk)
		end = err == io.EOF //nolint:errorlint // a failure that wraps io.EOF is not the end
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

// fill reads until p is full or r ends. Unlike io.ReadFull, it does not confuse a reader's own
// io.ErrUnexpectedEOF, which means lost data, with the end.
func fill(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}

// Description returns the message that makes an object visible to readers. Publish it last.
func Description(info jetstream.ObjectInfo) (*nats.Msg, error) {
	data, err := json.Marshal(info)
	if err != nil {
		return nil, err
	}
	return &nats.Msg{Subject: InfoOf(info.Bucket, info.Name), Data: data}, nil
}
