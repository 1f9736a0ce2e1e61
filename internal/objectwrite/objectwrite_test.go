package objectwrite_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/objectwrite"
)

// stored collects published chunks.
type stored struct{ sizes, bytes, subjects string }

func (s *stored) publish(m *nats.Msg) error {
	s.sizes += fmt.Sprint(len(m.Data), " ")
	s.bytes += string(m.Data)
	s.subjects = m.Subject
	return nil
}

func object() jetstream.ObjectInfo {
	return jetstream.ObjectInfo{Bucket: "B", NUID: objectwrite.NUID("upload-x"), ObjectMeta: jetstream.ObjectMeta{Name: "upload-x"}}
}

// TestChunksAreFull proves that chunks are full however little a reader returns at once, also if
// its last bytes come with io.EOF.
func TestChunksAreFull(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		data, sizes string
		chunks      uint32
	}{{"", "", 0}, {"abc", "3 ", 1}, {"abcd", "4 ", 1}, {"abcdefghij", "4 4 2 ", 3}} {
		for how, reader := range map[string]io.Reader{
			"at once": strings.NewReader(c.data), "by bytes": iotest.OneByteReader(strings.NewReader(c.data)), "with the end": iotest.DataErrReader(strings.NewReader(c.data)),
		} {
			var s stored
			info := object()
			sum, err := objectwrite.Chunks(t.Context(), &info, reader, 4, s.publish)
			if err != nil || s.sizes != c.sizes || s.bytes != c.data || info.Chunks != c.chunks || info.Size != uint64(len(c.data)) || sum != sha256.Sum256([]byte(c.data)) {
				t.Errorf("%q %s: chunks %s, %d bytes in %d chunks, %v", c.data, how, s.sizes, info.Size, info.Chunks, err)
			}
			if c.data != "" && s.subjects != "$O.B.C.upload.x" {
				t.Errorf("the chunks are on %s", s.subjects)
			}
			if digest, err := jetstream.DecodeObjectDigest(info.Digest); err != nil || !bytes.Equal(digest, sum[:]) {
				t.Errorf("the digest of %q is described as %s: %v", c.data, info.Digest, err)
			}
		}
	}
}

// TestChunksEndWithTheirReader proves that a read error is reported and never taken for the end,
// even if it is io.ErrUnexpectedEOF or wraps io.EOF.
func TestChunksEndWithTheirReader(t *testing.T) {
	t.Parallel()
	for _, lost := range []error{io.ErrUnexpectedEOF, fmt.Errorf("lost: %w", io.EOF)} {
		var s stored
		info := object()
		reader := io.MultiReader(strings.NewReader("abcdef"), iotest.ErrReader(lost))
		if _, err := objectwrite.Chunks(t.Context(), &info, reader, 4, s.publish); !errors.Is(err, lost) || s.sizes != "4 " {
			t.Errorf("%v after chunks %s, want %v", err, s.sizes, lost)
		}
	}
}

func TestChunksEndWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	over, full := errors.New("over"), errors.New("full")
	var s stored
	info := object()
	_, err := objectwrite.Chunks(ctx, &info, strings.NewReader("abcdef"), 4, func(m *nats.Msg) error {
		cancel(over)
		return s.publish(m)
	})
	if !errors.Is(err, over) || s.sizes != "4 " {
		t.Errorf("%v after chunks %s", err, s.sizes)
	}
	if _, err := objectwrite.Chunks(t.Context(), &info, strings.NewReader("abcdef"), 4, func(*nats.Msg) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
}

// TestNamesOfObjects proves that names match other NATS clients' names and that Name reverses NUID.
func TestNamesOfObjects(t *testing.T) {
	t.Parallel()
	m, err := objectwrite.Description(object())
	if err != nil || m.Subject != "$O.B.M.dXBsb2FkLXg=" || objectwrite.Stream("B") != "OBJ_B" {
		t.Errorf("%s of %s: %v", m.Subject, objectwrite.Stream("B"), err)
	}
	if nuid := objectwrite.NUID("video_a-reply-b"); nuid != "video_a.reply-b" || objectwrite.Name(nuid) != "video_a-reply-b" {
		t.Errorf("the NUID is %s, and of the name %s", nuid, objectwrite.Name(nuid))
	}
}

func TestChunksFitIntoMessages(t *testing.T) {
	t.Parallel()
	for maxPayload, want := range map[int64]int64{0: 512 << 10, 1: 1, 1000: 500, 8 << 20: 512 << 10} {
		if size := objectwrite.ChunkSize(maxPayload); size != want {
			t.Errorf("with a max_payload of %d chunks have %d bytes, want %d", maxPayload, size, want)
		}
	}
}
