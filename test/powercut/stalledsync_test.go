package powercut_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/powercut/disk"
)

// TestAStalledSyncHoldsUpItsOwnStream: the log takes writes while the disk does not end the sync
// of a tenant's body, and so do the bodies of other tenants.
func TestAStalledSyncHoldsUpItsOwnStream(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var stalls atomic.Bool
	stalled, goOn := make(chan struct{}, 1), make(chan struct{})
	bodies := filepath.Join("OBJ_"+subject.Default().Bodies("stalled"), "msgs")
	d := disk.Watch(dir, 0, func(name string, _ int) error {
		if stalls.Load() && strings.HasSuffix(filepath.Dir(name), bodies) {
			stalled <- struct{}{}
			<-goOn
		}
		return nil
	})
	t.Cleanup(d.Close)
	b := open(t, dir, false)
	put := func(tenant string) error {
		_, err := broker.NewBodies(b).PutNew(t.Context(), tenant, "x", []byte("body"))
		return err
	}
	if err := put("stalled"); err != nil {
		t.Fatal(err)
	}
	stalls.Store(true)
	held := make(chan error, 1)
	go func() { held <- put("stalled") }()
	<-stalled
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		writeMany(t, b)
		if err := put("other"); err != nil {
			t.Errorf("a body of another tenant: %v", err)
		}
	}()
	select {
	case <-ended:
	case <-time.After(4 * broker.PublishTimeout):
		t.Error("writes wait for the sync of another stream")
	}
	stalls.Store(false)
	close(goOn)
	<-ended
	if err := <-held; err != nil && !strings.Contains(err.Error(), "no answer") {
		t.Error(err)
	}
}

// writeMany has many write to the log at once, until the server was asked anew how much of its
// store is left.
func writeMany(t *testing.T, b *broker.Broker) {
	var group sync.WaitGroup
	end := time.Now().Add(2 * time.Second)
	for i := range 4 * writesOfABatch {
		group.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				m := &nats.Msg{Subject: b.Names().Task(subject.Video, "tenant", fmt.Sprintf("video_%d_%d", i, n)), Data: []byte("x")}
				if _, err := b.PublishExpecting(t.Context(), broker.Jobs, m, 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}
