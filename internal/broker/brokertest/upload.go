package brokertest

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

// Upload stores a request in a tenant's object store in the same way as publishers. It uses the
// client library and creates the bucket if necessary. word makes the object's name unique. Upload
// returns a reference to the object.
func Upload(t testing.TB, js jetstream.JetStream, tenant, word string, request proto.Message) *genbusv1.BlobRef {
	t.Helper()
	data, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	bucket := subject.Default().Bodies(tenant)
	store, err := js.ObjectStore(t.Context(), bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		store, err = js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: bucket, TTL: time.Hour})
	}
	if err != nil {
		t.Fatal(err)
	}
	name := subject.UploadPrefix + word
	_, err = store.PutBytes(t.Context(), name, data)
	// In a cluster, a bucket may exist before a server serves it.
	for errors.Is(err, nats.ErrNoResponders) && broker.Wait(t.Context(), 50*time.Millisecond) == nil {
		_, err = store.PutBytes(t.Context(), name, data)
	}
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return &genbusv1.BlobRef{Name: name, Size: uint64(len(data)), Sha256: sum[:]}
}

// Uploads lists the uploads in a tenant's object store.
func Uploads(t testing.TB, js jetstream.JetStream, tenant string) (names []string) {
	t.Helper()
	store, err := js.ObjectStore(t.Context(), subject.Default().Bodies(tenant))
	if err != nil {
		t.Fatal(err)
	}
	// The list is read through a consumer, which may be lost before the list is complete.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	objects, err := store.List(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return Uploads(t, js, tenant)
	}
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		t.Fatal(err)
	}
	for _, o := range objects {
		if strings.HasPrefix(o.Name, subject.UploadPrefix) {
			names = append(names, o.Name)
		}
	}
	return names
}
