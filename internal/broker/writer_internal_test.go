package broker

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/objectwrite"
	"github.com/genbus/genbus/internal/subject"
)

// TestReadsMakeNoWriters proves that reading bodies of many tenants allocates no writers.
func TestReadsMakeNoWriters(t *testing.T) {
	t.Parallel()
	for _, noSync := range []bool{true, false} {
		w := newWriter(newLink("", nil), subject.Default(), &embedded{options: Embedded{NoSync: noSync}})
		for i := range 1000 {
			if !w.Synced(objectwrite.Stream(w.names.Bodies(fmt.Sprint("tenant", i))), nats.Header{"Nats-Batch-Id": {"b"}}) {
				t.Fatal("a message of a stream without batches is not synced")
			}
		}
		if n := len(w.by); n > 0 {
			t.Errorf("%d writers of streams that nothing is written to by their names", n)
		}
	}
}
