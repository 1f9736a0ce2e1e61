package broker_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
)

// putSoon stores a body. In a cluster, the connected server may not know a new bucket yet.
func putSoon(t testing.TB, bodies *broker.Bodies, tenant, prefix string) {
	t.Helper()
	for {
		_, err := bodies.Put(t.Context(), tenant, prefix, []byte("x"))
		if err == nil {
			return
		}
		if !errors.Is(err, broker.ErrUnavailable) || broker.Wait(t.Context(), 10*time.Millisecond) != nil {
			t.Fatal(err)
		}
	}
}

// TestCopyLivesOnItsOwn proves that a copy and its original can be deleted independently.
func TestCopyLivesOnItsOwn(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		ctx, bodies := t.Context(), broker.NewBodies(open(t))
		first, err := bodies.Put(ctx, "t", "first", noise(2<<20))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"second", "third"} {
			second, err := bodies.Copy(ctx, first, "t", name)
			if err != nil {
				t.Fatal(err)
			}
			if err := bodies.Delete(ctx, first); err != nil {
				t.Fatal(err)
			}
			if got, err := bodies.Get(ctx, second); err != nil || len(got) != 2<<20 {
				t.Fatalf("%s has %d bytes, %v", name, len(got), err)
			}
			first = second
		}
		if _, err := bodies.Copy(ctx, broker.Body{Bucket: first.Bucket, Name: "second", Size: 1}, "t", "x"); !errors.Is(err, broker.ErrBodyLost) {
			t.Errorf("a copy of what is gone gave %v", err)
		}
	})
}

// TestWhatWasStoredOfAJob proves that a job's bodies are found by its ID, including incomplete
// ones.
func TestWhatWasStoredOfAJob(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b, ctx := open(t), t.Context()
		bodies := broker.NewBodies(b)
		if got, err := bodies.Of(ctx, "unknown", "a"); err != nil || len(got) != 0 {
			t.Errorf("a tenant without a store gave %v, %v", got, err)
		}
		for _, prefix := range []string{"a-1", "a-2.x-y", "b-1", "ab"} {
			putSoon(t, bodies, "t", prefix)
		}
		putSoon(t, bodies, "other", "a-3")
		bucket := b.Names().Bodies("t")
		if _, err := b.Publish(ctx, &nats.Msg{Subject: "$O." + bucket + ".C.a.cut-off-X", Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		found, err := bodies.Of(ctx, "t", "a")
		same(t, "by id", words(found, err), "a-1", "a-2.x-y", "a-cut-off")
		for _, ref := range found {
			if err := bodies.Delete(ctx, ref); err != nil {
				t.Errorf("delete %s: %v", ref.Name, err)
			}
		}
		same(t, "after the deletion", words(bodies.Of(ctx, "t", "a")))
		same(t, "of another id", words(bodies.Of(ctx, "t", "ab")), "ab")
		if n := messagesIn(t, b, "t"); n != 4 {
			t.Errorf("%d messages are left, want those of two bodies", n)
		}
	})
}

// words returns the sorted names of bodies without their random suffixes.
func words(found []broker.Body, err error) []string {
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, ref := range found {
		name := ref.Name
		if i := strings.LastIndexByte(name, '-'); strings.ToUpper(name[i:]) == name[i:] {
			name = name[:i]
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: found %q, want %q", what, got, want)
	}
}

// TestDeleteKeepsToOneObject proves that Delete ignores wildcards in the NUID of another program's
// object.
func TestDeleteKeepsToOneObject(t *testing.T) {
	t.Parallel()
	b, ctx := brokertest.Single(t), t.Context()
	bodies := broker.NewBodies(b)
	ours, err := bodies.Put(ctx, "t", "a-1", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	info := "$O." + ours.Bucket + ".M." + base64.URLEncoding.EncodeToString([]byte("upload-a"))
	if _, err := b.Publish(ctx, &nats.Msg{Subject: info, Data: []byte(`{"name":"upload-a","bucket":"` + ours.Bucket + `","nuid":">"}`)}); err != nil {
		t.Fatal(err)
	}
	if err := bodies.Delete(ctx, broker.Body{Bucket: ours.Bucket, Name: "upload-a"}); err != nil {
		t.Fatal(err)
	}
	if got, err := bodies.Get(ctx, ours); err != nil || string(got) != "x" {
		t.Errorf("our body is %q, %v", got, err)
	}
}

// BenchmarkOf finds the bodies of one job in a full tenant store: 20 GiB in bodies of 256 KiB.
func BenchmarkOf(b *testing.B) {
	br, ctx := brokertest.Single(b), b.Context()
	bodies := broker.NewBodies(br)
	ref, err := bodies.Put(ctx, "t", "video_bench-request", []byte("x"))
	if err != nil {
		b.Fatal(err)
	}
	const stored = 80_000
	for i := range stored {
		name := fmt.Sprintf("video_%026d-request-%026d", i, i)
		for _, subject := range []string{".M." + base64.URLEncoding.EncodeToString([]byte(name)), ".C." + strings.Replace(name, "-", ".", 1)} {
			if _, err := br.JetStream().PublishAsync("$O."+ref.Bucket+subject, []byte("{}")); err != nil {
				b.Fatal(err)
			}
		}
		if i%1000 == 0 || i == stored-1 {
			<-br.JetStream().PublishAsyncComplete()
		}
	}
	for b.Loop() {
		if found, err := bodies.Of(ctx, "t", "video_bench"); err != nil || len(found) != 1 {
			b.Fatal(found, err)
		}
	}
}
