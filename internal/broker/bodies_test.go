package broker_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// noise returns n bytes that are the same in every run.
func noise(n int) []byte {
	out := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(out)
	return out
}

func messagesIn(t *testing.T, b *broker.Broker, tenant string) uint64 {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), "OBJ_"+b.Names().Bodies(tenant))
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

func TestBodiesStream(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		ctx := t.Context()
		writer, reader := broker.NewBodies(open(t)), broker.NewBodies(open(t))
		for _, size := range []int{0, 1, 512<<10 - 1, 512 << 10, 512<<10 + 1, 3 << 20} {
			data := noise(size)
			name := fmt.Sprintf("object-%d", size)
			ref, err := writer.PutStream(ctx, "t", name, iotest.HalfReader(bytes.NewReader(data)), int64(size))
			if err != nil {
				t.Fatal(err)
			}
			if ref.Size != uint64(size) || ref.SHA256 != sha256.Sum256(data) {
				t.Errorf("%d bytes: the reference says %d, %x", size, ref.Size, ref.SHA256)
			}
			r, err := reader.Open(ctx, ref)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(iotest.OneByteReader(io.LimitReader(r, 3)))
			rest, restErr := io.ReadAll(r)
			if err = errors.Join(err, restErr, r.Close()); err != nil || !bytes.Equal(append(got, rest...), data) {
				t.Errorf("%d bytes: read %d, %v", size, len(got)+len(rest), err)
			}
			if whole, err := reader.Get(ctx, ref); err != nil || !bytes.Equal(whole, data) {
				t.Errorf("%d bytes: Get gave %d, %v", size, len(whole), err)
			}
		}
	})
}

// TestBodiesAreOrdinaryObjects proves that other NATS clients can read our objects, and we theirs.
func TestBodiesAreOrdinaryObjects(t *testing.T) {
	t.Parallel()
	b, ctx := brokertest.Single(t), t.Context()
	bodies := broker.NewBodies(b)
	data := noise(1 << 20)
	ref, err := bodies.Put(ctx, "t", "ours", data)
	if err != nil {
		t.Fatal(err)
	}
	store, err := b.JetStream().ObjectStore(ctx, ref.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := store.GetBytes(ctx, ref.Name); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the library reads %d bytes, %v", len(got), err)
	}
	if _, err := store.PutBytes(ctx, "theirs", data); err != nil {
		t.Fatal(err)
	}
	ref.Name = "theirs"
	if got, err := bodies.Get(ctx, ref); err != nil || !bytes.Equal(got, data) {
		t.Errorf("we read %d bytes, %v", len(got), err)
	}
}

// TestNoBodyReplacesAnother proves that two bodies stored with the same prefix are separate
// objects: each can be read and deleted independently.
func TestNoBodyReplacesAnother(t *testing.T) {
	t.Parallel()
	brokertest.EachCAS(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b, ctx := open(t), t.Context()
		bodies, data := broker.NewBodies(b), noise(2<<20)
		first, err := bodies.Put(ctx, "t", "a", data)
		if err != nil {
			t.Fatal(err)
		}
		reading, err := bodies.Open(ctx, first)
		if err != nil {
			t.Fatal(err)
		}
		begin := make([]byte, 100)
		if _, err := io.ReadFull(reading, begin); err != nil {
			t.Fatal(err)
		}
		second, err := bodies.Put(ctx, "t", "a", []byte("short"))
		if err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(reading)
		if err != nil || !bytes.Equal(slices.Concat(begin, rest), data) {
			t.Errorf("the first body, read meanwhile: %d bytes, %v", len(begin)+len(rest), err)
		}
		if !strings.HasPrefix(first.Name, "a-") || !strings.HasPrefix(second.Name, "a-") || first.Name == second.Name {
			t.Errorf("they are %s and %s", first.Name, second.Name)
		}
		for range 2 {
			if err := bodies.Delete(ctx, first); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := bodies.Get(ctx, second); err != nil || string(got) != "short" {
			t.Errorf("the second body is %q, %v", got, err)
		}
		if n := messagesIn(t, b, "t"); n != 2 {
			t.Errorf("%d messages are left, want a chunk and the info", n)
		}
		if _, err := bodies.Open(ctx, first); !errors.Is(err, broker.ErrBodyLost) {
			t.Errorf("the deleted body gave %v", err)
		}
	})
}

// TestABodyThatIsNotThere proves that opening a missing body fails and deleting it succeeds.
func TestABodyThatIsNotThere(t *testing.T) {
	t.Parallel()
	bodies := broker.NewBodies(brokertest.Single(t))
	gone := broker.Body{Bucket: "nobody", Name: "a"}
	if _, err := bodies.Open(t.Context(), gone); !errors.Is(err, broker.ErrBodyLost) {
		t.Errorf("a body without a bucket gave %v", err)
	}
	if err := bodies.Delete(t.Context(), gone); err != nil {
		t.Errorf("deleted: %v", err)
	}
}

// TestDeleteOfAnothersObject proves that Delete spares another program's object that took over the
// name, and removes the marker of an object that another program deleted.
func TestDeleteOfAnothersObject(t *testing.T) {
	t.Parallel()
	b, ctx := brokertest.Single(t), t.Context()
	bodies := broker.NewBodies(b)
	ref, err := bodies.Put(ctx, "t", "a", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := bodies.Delete(ctx, ref); err != nil {
		t.Fatal(err)
	}
	store, err := b.JetStream().ObjectStore(ctx, ref.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	ref.Name = "upload-a" // with the digest of our deleted body
	if _, err := store.PutString(ctx, ref.Name, "newer"); err != nil {
		t.Fatal(err)
	}
	if err := bodies.Delete(ctx, ref); err != nil {
		t.Fatal(err)
	}
	if got, err := store.GetString(ctx, ref.Name); err != nil || got != "newer" {
		t.Errorf("the other object is %q, %v", got, err)
	}
	if err := store.Delete(ctx, ref.Name); err != nil {
		t.Fatal(err)
	}
	if err := bodies.Delete(ctx, ref); err != nil {
		t.Fatal(err)
	}
	if n := messagesIn(t, b, "t"); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// TestFailedPutLeavesNothing proves that a failed Put leaves no messages and spares earlier bodies.
func TestFailedPutLeavesNothing(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	bodies := broker.NewBodies(b)
	before, err := bodies.Put(t.Context(), "t", "a", []byte("before"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, c := range map[string]struct {
		ctx   context.Context
		r     io.Reader
		limit int64
		want  error
	}{
		"too large":         {t.Context(), bytes.NewReader(noise(2 << 20)), 1 << 20, broker.ErrBodyTooLarge},
		"one byte over":     {t.Context(), bytes.NewReader(noise(11)), 10, broker.ErrBodyTooLarge},
		"reader broken":     {t.Context(), io.MultiReader(bytes.NewReader(noise(1<<20)), iotest.ErrReader(errors.ErrUnsupported)), 0, errors.ErrUnsupported},
		"reader cut short":  {t.Context(), io.MultiReader(bytes.NewReader(noise(100)), iotest.ErrReader(io.ErrUnexpectedEOF)), 0, io.ErrUnexpectedEOF},
		"context cancelled": {ctx, io.MultiReader(bytes.NewReader(noise(1<<20)), cancelReader{cancel}, bytes.NewReader(noise(1<<20))), 0, context.Canceled},
	} {
		if _, err := bodies.PutStream(c.ctx, "t", "a", c.r, c.limit); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v", name, err)
		}
		if n := messagesIn(t, b, "t"); n != 2 {
			t.Errorf("%s: %d messages are left, want 2", name, n)
		}
		if got, err := bodies.Get(t.Context(), before); err != nil || string(got) != "before" {
			t.Errorf("%s: what was there before is %q, %v", name, got, err)
		}
	}
}

// TestAPutThatGivesUpIsKnown proves that a Put whose caller gives up during the write of the info
// either returns a reference to a stored body or leaves nothing.
func TestAPutThatGivesUpIsKnown(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b, other := open(t), open(t)
		bodies := broker.NewBodies(b)
		for range 20 {
			ctx, giveUp := context.WithCancel(t.Context())
			sub, err := other.Conn().Subscribe("$O."+b.Names().Bodies("t")+".M.>", func(*nats.Msg) { giveUp() })
			if err != nil {
				t.Fatal(err)
			}
			if err := other.Conn().Flush(); err != nil {
				t.Fatal(err)
			}
			ref, err := bodies.Put(ctx, "t", "a", []byte("body"))
			giveUp()
			if err := sub.Unsubscribe(); err != nil {
				t.Fatal(err)
			}
			switch {
			case err == nil:
				if err := bodies.Delete(t.Context(), ref); err != nil {
					t.Fatal(err)
				}
			case !errors.Is(err, context.Canceled):
				t.Fatal(err)
			}
			if n := messagesIn(t, b, "t"); n != 0 {
				t.Fatalf("%d messages are left, after %v", n, err)
			}
		}
	})
}

// cancelReader is an empty reader that cancels a context when it is read.
type cancelReader struct{ cancel context.CancelFunc }

func (r cancelReader) Read([]byte) (int, error) {
	r.cancel()
	return 0, io.EOF
}

// TestDamagedBody proves that a missing or altered chunk never looks like the end of the body.
func TestDamagedBody(t *testing.T) {
	t.Parallel()
	b, ctx := brokertest.Single(t), t.Context()
	bodies := broker.NewBodies(b)
	data := noise(2 << 20)
	chunkSubject := func(ref broker.Body) (jetstream.Stream, string) {
		s, err := b.JetStream().Stream(ctx, "OBJ_"+ref.Bucket)
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.GetMsg(ctx, s.CachedInfo().State.LastSeq-1)
		if err != nil {
			t.Fatal(err)
		}
		return s, m.Subject
	}
	for name, damage := range map[string]func(ref broker.Body){
		"last chunk gone": func(ref broker.Body) {
			s, _ := chunkSubject(ref)
			if err := s.DeleteMsg(ctx, s.CachedInfo().State.LastSeq-1); err != nil {
				t.Fatal(err)
			}
		},
		"last chunk changed": func(ref broker.Body) {
			s, subj := chunkSubject(ref)
			if err := s.DeleteMsg(ctx, s.CachedInfo().State.LastSeq-1); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Publish(ctx, &nats.Msg{Subject: subj, Data: make([]byte, 512<<10)}); err != nil {
				t.Fatal(err)
			}
		},
		"all chunks gone": func(ref broker.Body) {
			s, subj := chunkSubject(ref)
			if err := s.Purge(ctx, jetstream.WithPurgeSubject(subj)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		ref, err := bodies.Put(ctx, "t", strings.ReplaceAll(name, " ", "-"), data)
		if err != nil {
			t.Fatal(err)
		}
		damage(ref)
		r, err := bodies.Open(ctx, ref)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if !errors.Is(err, broker.ErrBodyLost) || len(got) == len(data) {
			t.Errorf("%s: read %d bytes, %v", name, len(got), err)
		}
		if _, err := bodies.Get(ctx, ref); !errors.Is(err, broker.ErrBodyLost) {
			t.Errorf("%s: Get gave %v", name, err)
		}
	}
}

func TestBodyEndsWithItsContextAndItsClose(t *testing.T) {
	t.Parallel()
	bodies := broker.NewBodies(brokertest.Single(t))
	ref, err := bodies.Put(t.Context(), "t", "a", noise(2<<20))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := bodies.Open(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, r, 100); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context's end: %v", err)
	}
	closed, err := bodies.Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(closed.Close(), closed.Close()); err != nil {
		t.Error(err)
	}
	if n, err := closed.Read(make([]byte, 1)); n != 0 || err == nil || err == io.EOF {
		t.Errorf("after Close: %d, %v", n, err)
	}
}

// TestDeletedBucketComesBack proves that only the first Put after the deletion of a bucket fails.
func TestDeletedBucketComesBack(t *testing.T) {
	t.Parallel()
	b, ctx := brokertest.Single(t), t.Context()
	bodies := broker.NewBodies(b)
	ref, err := bodies.Put(ctx, "t", "a", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.JetStream().DeleteObjectStore(ctx, ref.Bucket); err != nil {
		t.Fatal(err)
	}
	if _, err := bodies.Put(ctx, "t", "a", []byte("x")); !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("a Put without a bucket gave %v", err)
	}
	if _, err := bodies.Put(ctx, "t", "a", []byte("x")); err != nil {
		t.Errorf("the Put after it gave %v", err)
	}
}

func TestBodiesOfManyTenantsAtOnce(t *testing.T) {
	t.Parallel()
	bodies := broker.NewBodies(brokertest.Single(t))
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			tenant, data := fmt.Sprintf("t%d", i%3), noise(600<<10)
			ref, err := bodies.Put(t.Context(), tenant, fmt.Sprintf("b%d", i), data)
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := bodies.Get(t.Context(), ref); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: %d bytes, %v", ref.Name, len(got), err)
			}
		})
	}
	wg.Wait()
}

// TestAFullObjectStoreRefuses proves that the byte limit of an object store applies to each tenant
// separately.
func TestAFullObjectStoreRefuses(t *testing.T) {
	t.Parallel()
	b, err := broker.Open(t.Context(), broker.Options{
		Names: subject.Default(), Logger: brokertest.Logger(t), Limits: broker.Limits{BodiesMaxBytes: 1 << 20},
		Embedded: broker.Embedded{DataDir: t.TempDir(), NoSync: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	bodies := broker.NewBodies(b)
	if _, err := bodies.Put(t.Context(), "acme", "one", make([]byte, 2<<20)); err != nil {
		t.Fatal(err)
	}
	if _, err := bodies.PutNew(t.Context(), "acme", "two", []byte("x")); !errors.Is(err, broker.ErrFull) {
		t.Errorf("beyond the limit: %v", err)
	}
	if _, err := bodies.Put(t.Context(), "acme", "reply", []byte("x")); err != nil {
		t.Errorf("what is paid for: %v", err)
	}
	if _, err := bodies.PutStream(t.Context(), "acme", "result", strings.NewReader("x"), 0); err != nil {
		t.Errorf("what is paid for: %v", err)
	}
	if err := bodies.CheckCapacity(t.Context(), "acme"); !errors.Is(err, broker.ErrFull) {
		t.Errorf("the capacity for new jobs: %v", err)
	}
	if err := bodies.CheckCapacity(t.Context(), "globex"); err != nil {
		t.Errorf("the capacity of a tenant that has stored nothing: %v", err)
	}
	if _, err := bodies.PutNew(t.Context(), "globex", "one", make([]byte, 2<<20)); !errors.Is(err, broker.ErrBodyTooLarge) {
		t.Errorf("one body larger than the store: %v", err)
	}
	if _, err := bodies.PutNew(t.Context(), "globex", "two", []byte("x")); err != nil {
		t.Errorf("another tenant: %v", err)
	}
}

// TestAnObjectStoreOfManyRefuses proves that the number of messages is limited too, and that
// deleting bodies frees capacity.
func TestAnObjectStoreOfManyRefuses(t *testing.T) {
	t.Parallel()
	bodies := broker.NewBodies(brokertest.Open(t, broker.Options{
		Names: subject.Default(), Logger: brokertest.Logger(t), Limits: broker.Limits{BodiesMaxMsgs: 4},
		Embedded: broker.Embedded{DataDir: t.TempDir(), NoSync: true},
	}))
	first, err := bodies.PutNew(t.Context(), "acme", "one", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bodies.PutNew(t.Context(), "acme", "two", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := bodies.PutNew(t.Context(), "acme", "three", []byte("x")); !errors.Is(err, broker.ErrFull) || !strings.Contains(err.Error(), "4 messages") {
		t.Errorf("beyond the limit: %v", err)
	}
	if _, err := bodies.PutNew(t.Context(), "globex", "one", []byte("x")); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	if err := bodies.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if _, err := bodies.PutNew(t.Context(), "acme", "three", []byte("x")); err != nil {
		t.Errorf("after one is erased: %v", err)
	}
}

// TestAHalfFullLogLeavesTheRestOfTheDisk proves that only the unused bytes of the job log are
// reserved.
func TestAHalfFullLogLeavesTheRestOfTheDisk(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	b := brokertest.Open(t, broker.Options{
		Names: subject.Default(), Logger: brokertest.Logger(t),
		Embedded: broker.Embedded{DataDir: t.TempDir(), NoSync: true, MaxStore: 24 * mib},
		Limits:   broker.Limits{RequestsMaxBytes: mib, TasksMaxBytes: 16 * mib, DeadMaxBytes: mib, RejectedMaxBytes: mib, UsageMaxBytes: mib, OpsMaxBytes: mib},
	})
	for i := range 9 {
		m := nats.NewMsg(b.Names().Task(subject.Video, "acme", "video_"+strconv.Itoa(i)))
		m.Data = make([]byte, mib)
		if _, err := b.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	bodies := broker.NewBodies(b)
	if _, err := bodies.PutNew(t.Context(), "acme", "one", make([]byte, 6*mib)); err != nil {
		t.Errorf("6 MiB with 15 left, of which the log has used 9 of 16: %v", err)
	}
	if _, err := bodies.PutNew(t.Context(), "acme", "two", make([]byte, 3*mib)); !errors.Is(err, broker.ErrBodyTooLarge) {
		t.Errorf("3 MiB with 2 beyond the log's: %v", err)
	}
}

// TestABucketThatAClientMade proves that genbus reconfigures a bucket created by an uploading
// publisher and keeps its objects.
func TestABucketThatAClientMade(t *testing.T) {
	t.Parallel()
	b, ctx := brokertest.Single(t), t.Context()
	bodies, data := broker.NewBodies(b), noise(600<<10)
	tasks, err := b.Stream(ctx, b.Names().Tasks())
	if err != nil {
		t.Fatal(err)
	}
	log := tasks.CachedInfo().Config
	for tenant, made := range map[string]jetstream.ObjectStoreConfig{
		"as-told":   {TTL: log.MaxAge, Replicas: log.Replicas},
		"otherwise": {TTL: time.Hour, Description: "mine", MaxBytes: 64 << 20, Compression: true, Metadata: map[string]string{"a": "b"}},
	} {
		made.Bucket = b.Names().Bodies(tenant)
		store, err := b.JetStream().CreateObjectStore(ctx, made)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.PutBytes(ctx, "upload-a", data); err != nil {
			t.Fatal(err)
		}
		if _, err := bodies.PutNew(ctx, tenant, "b", data); err != nil {
			t.Fatalf("%s: %v", tenant, err)
		}
		uploaded := broker.Body{Bucket: made.Bucket, Name: "upload-a", Size: uint64(len(data)), SHA256: sha256.Sum256(data)}
		if got, err := bodies.Get(ctx, uploaded); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: the upload has %d bytes, %v", tenant, len(got), err)
		}
		s, err := b.Stream(ctx, "OBJ_"+made.Bucket)
		if err != nil {
			t.Fatal(err)
		}
		if c := s.CachedInfo().Config; c.MaxAge != log.MaxAge || c.Replicas != log.Replicas || c.MaxBytes > 0 ||
			c.Metadata[subject.MetadataRevision] != log.Metadata[subject.MetadataRevision] {
			t.Errorf("%s: %+v", tenant, c)
		}
	}
}
