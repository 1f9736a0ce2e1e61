package broker_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
)

// TestCopyLivesOnItsOwn: a copy stays when what it was made of is deleted, and the
// other way round.
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

func TestNamed(t *testing.T) {
	t.Parallel()
	ctx, bodies := t.Context(), broker.NewBodies(brokertest.Single(t))
	if got, err := bodies.Named(ctx, "nobody", "a"); err != nil || got != nil {
		t.Errorf("a tenant without a store gave %v, %v", got, err)
	}
	for _, name := range []string{"a-1", "a-2.x y", "b-1", "a"} {
		if _, err := bodies.Put(ctx, "t", name, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := bodies.Put(ctx, "other", "a-3", []byte("x")); err != nil {
		t.Fatal(err)
	}
	found, err := bodies.Named(ctx, "t", "a-")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, ref := range found {
		names = append(names, ref.Name)
		if err := bodies.Delete(ctx, ref); err != nil {
			t.Errorf("delete %s: %v", ref.Name, err)
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"a-1", "a-2.x y"}) {
		t.Errorf("found %q", names)
	}
}
