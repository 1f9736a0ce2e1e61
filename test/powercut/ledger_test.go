package powercut_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/powercut/disk"
)

// place identifies a stored message. content is its expected subject and data.
type (
	place struct {
		stream string
		seq    uint64
	}
	content struct {
		subject string
		data    [sha256.Size]byte
	}
)

// ledger holds the messages that were confirmed or delivered to a follower, without deleted ones.
type ledger struct {
	mu     sync.Mutex
	stored map[place]content
}

func newLedger() *ledger { return &ledger{stored: map[place]content{}} }

func (l *ledger) add(stream string, seq uint64, subject string, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stored[place{stream, seq}] = content{subject, sha256.Sum256(data)}
}

// release drops a message. Call it before deleting the message.
func (l *ledger) release(stream string, seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.stored, place{stream, seq})
}

func (l *ledger) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.stored)
}

// cut is a power cut: the data left on the disk and the data that must be there.
type cut struct {
	why   string
	image disk.Image
	want  interface {
		// lost describes each expected item that b lacks.
		lost(ctx context.Context, b *broker.Broker) []string
	}
}

func (l *ledger) cut(d *disk.Disk, why string, unsynced float64) cut {
	l.mu.Lock()
	defer l.mu.Unlock() // so that no message is deleted between the two copies
	return cut{why: why, want: messages(maps.Clone(l.stored)), image: d.Cut(unsynced)}
}

// check starts a broker on the data left by a cut and fails if anything is lost.
func (c cut) check(t *testing.T) *broker.Broker {
	t.Helper()
	b := restart(t, c.image)
	for i, lost := range c.want.lost(t.Context(), b) {
		if i == 10 {
			t.Error("and more")
			break
		}
		t.Error(lost)
	}
	return b
}

// restart starts a broker on the data left by a cut.
func restart(t *testing.T, image disk.Image) *broker.Broker {
	t.Helper()
	dir := t.TempDir()
	if err := image.Write(dir); err != nil {
		t.Fatal(err)
	}
	b, err := broker.Open(t.Context(), broker.Options{
		Names: subject.Default(), Logger: brokertest.Logger(t), Embedded: broker.Embedded{DataDir: dir, NoSync: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

type messages map[place]content

func (want messages) lost(ctx context.Context, b *broker.Broker) (out []string) {
	for p, c := range want {
		m, err := b.At(ctx, p.stream, p.seq)
		switch {
		case err != nil:
			out = append(out, fmt.Sprintf("%s %d (%s): %v", p.stream, p.seq, c.subject, err))
		case m.Subject != c.subject || sha256.Sum256(m.Data) != c.data:
			out = append(out, fmt.Sprintf("%s %d is %s now, and was %s", p.stream, p.seq, m.Subject, c.subject))
		}
	}
	slices.Sort(out)
	return out
}

// blocks returns the number of files that hold a stream's messages.
func blocks(image disk.Image, stream string) (n int) {
	for name := range image {
		if strings.HasSuffix(filepath.Dir(name), filepath.Join(stream, "msgs")) && strings.HasSuffix(name, ".blk") {
			n++
		}
	}
	return n
}
