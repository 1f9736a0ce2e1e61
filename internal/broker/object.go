package broker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

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

func objectStream(bucket string) string       { return "OBJ_" + bucket }
func objectChunks(bucket, nuid string) string { return "$O." + bucket + ".C." + nuid }

func objectInfos(bucket string) string { return "$O." + bucket + ".M." }

func objectInfo(bucket, name string) string {
	return objectInfos(bucket) + base64.URLEncoding.EncodeToString([]byte(name))
}

// putObject writes the chunks on a subject of their own, and then the info that
// points to them: an object is there whole or not at all.
func (b *Broker) putObject(ctx context.Context, bucket, name string, r io.Reader, limit int64) (Body, error) {
	replaced, err := b.objectInfo(ctx, bucket, name)
	if err != nil && !errors.Is(err, ErrBodyLost) {
		return Body{}, err
	}
	info := jetstream.ObjectInfo{Bucket: bucket, NUID: rand.Text()}
	info.Name = name
	ref, err := b.putChunks(ctx, &info, r, limit)
	if err == nil {
		err = b.putInfo(ctx, info)
	}
	if err != nil {
		return Body{}, errors.Join(err, b.purgeChunks(ctx, bucket, info.NUID))
	}
	if replaced.NUID != "" {
		if err := b.purgeChunks(ctx, bucket, replaced.NUID); err != nil {
			b.log.Warn("a replaced body stays until its time is over", "bucket", bucket, "body", name, "error", err)
		}
	}
	return ref, nil
}

// putChunks writes what r gives and completes info. Each chunk waits for the
// answer to the one before it: that bounds the memory here and in the server,
// and a chunk of this size is worth a round trip.
func (b *Broker) putChunks(ctx context.Context, info *jetstream.ObjectInfo, r io.Reader, limit int64) (Body, error) {
	chunk := make([]byte, min(maxChunk, b.MaxPayload()/2))
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
		sum.Write(chunk[:n])
		if _, err := b.Publish(ctx, &nats.Msg{Subject: objectChunks(info.Bucket, info.NUID), Data: chunk[:n]}); err != nil {
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

func (b *Broker) putInfo(ctx context.Context, info jetstream.ObjectInfo) error {
	data, err := json.Marshal(info)
	if err != nil {
		return err
	}
	m := &nats.Msg{Subject: objectInfo(info.Bucket, info.Name), Data: data, Header: nats.Header{}}
	m.Header[jetstream.MsgRollup] = []string{jetstream.MsgRollupSubject}
	_, err = b.Publish(ctx, m)
	return err
}

// purgeChunks removes an object's chunks, also when ctx has ended. A chunk whose
// answer was lost may come after it; that one stays until the bucket's TTL.
func (b *Broker) purgeChunks(ctx context.Context, bucket, nuid string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), PublishTimeout)
	defer cancel()
	s, err := b.Stream(ctx, objectStream(bucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(objectChunks(bucket, nuid)))
	}
	return wrapf(err, "remove the chunks of object %s", nuid)
}

// objectInfo reads what the bucket's leader says about an object; ErrBodyLost
// when it has none.
func (b *Broker) objectInfo(ctx context.Context, bucket, name string) (jetstream.ObjectInfo, error) {
	var info jetstream.ObjectInfo
	m, err := b.Last(ctx, objectStream(bucket), objectInfo(bucket, name))
	if errors.Is(err, ErrNoMessage) || hasCode(err, jetstream.JSErrCodeStreamNotFound) {
		return info, ErrBodyLost
	}
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal(m.Data, &info); err != nil || info.Deleted {
		return jetstream.ObjectInfo{}, ErrBodyLost
	}
	return info, nil
}

func hasCode(err error, code jetstream.ErrorCode) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == code
}
