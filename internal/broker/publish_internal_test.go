package broker

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/objectwrite"
	"github.com/genbus/genbus/internal/subject"
)

// TestReadsMakeNoWriters: a body of each of many tenants is read.
func TestReadsMakeNoWriters(t *testing.T) {
	t.Parallel()
	for _, syncs := range []bool{true, false} {
		c := &connection{names: subject.Default(), writers: newWriters(subject.Default(), syncs)}
		for i := range 1000 {
			if !c.Settled(objectwrite.Stream(c.names.Bodies(fmt.Sprint("tenant", i))), nats.Header{"Nats-Batch-Id": {"b"}}) {
				t.Fatal("a message of a stream without batches is not settled")
			}
		}
		if n := len(c.writers.by); n > 0 {
			t.Errorf("%d writers of streams that nothing is written to by their names", n)
		}
	}
}
