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

// stalling is a broker whose disk does not end the sync of a tenant's body.
type stalling struct{ *broker.Broker }

func newStalling(t *testing.T) stalling {
	t.Helper()
	dir := t.TempDir()
	var stalls atomic.Bool
	stalled, goOn := make(chan struct{}, 1), make(chan struct{})
	d := disk.Watch(dir, 0, func(name string, _ int) error {
		if stalls.Load() && strings.HasSuffix(filepath.Dir(name), filepath.Join(stalledStream, "msgs")) {
			select {
			case stalled <- struct{}{}:
			default:
			}
			<-goOn
		}
		return nil
	})
	t.Cleanup(d.Close)
	s := stalling{open(t, dir, false)}
	if err := s.put(t, "stalled"); err != nil {
		t.Fatal(err)
	}
	stalls.Store(true)
	var group sync.WaitGroup
	group.Go(func() { _ = s.put(t, "stalled") }) // whatever becomes of it
	<-stalled
	t.Cleanup(func() {
		close(goOn)
		group.Wait()
	})
	return s
}

var stalledStream = "OBJ_" + subject.Default().Bodies("stalled")

func (s stalling) put(t *testing.T, tenant string) error {
	_, err := broker.NewBodies(s.Broker).PutNew(t.Context(), tenant, "x", []byte("body"))
	return err
}

// write writes an event of a job to the log, and fails where that takes longer than it may.
func (s stalling) write(t *testing.T, job string) error {
	begin := time.Now()
	m := &nats.Msg{Subject: s.Names().Task(subject.Video, "tenant", job), Data: []byte("x")}
	_, err := s.PublishExpecting(t.Context(), broker.Jobs, m, 0)
	if took := time.Since(begin); took > broker.PublishTimeout+2*time.Second {
		t.Errorf("a write took %s: %v", took, err)
	}
	return err
}

// TestAStalledSyncHoldsUpItsOwnStream: the log takes writes meanwhile, and so do the bodies of
// other tenants. The room of the store is read for the first batch.
func TestAStalledSyncHoldsUpItsOwnStream(t *testing.T) {
	t.Parallel()
	s := newStalling(t)
	const rounds = 20
	for round := 0; !s.sharesSyncs(t); round++ {
		if round == rounds {
			t.Fatalf("%d times %d writes at once, and no batch", rounds, 4*writesOfABatch)
		}
		var group sync.WaitGroup
		for i := range 4 * writesOfABatch {
			group.Go(func() {
				if err := s.write(t, fmt.Sprintf("video_%d_%d", round, i)); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	}
	if err := s.put(t, "other"); err != nil {
		t.Errorf("a body of another tenant: %v", err)
	}
}

// sharesSyncs reports whether an event of the log was written as part of a batch.
func (s stalling) sharesSyncs(t *testing.T) bool {
	t.Helper()
	events := s.Names().TaskPattern()
	for from := uint64(1); ; {
		page, err := s.Page(t.Context(), s.Names().Tasks(), events, from)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return false
		}
		for _, m := range page {
			if m.Header.Get("Nats-Batch-Id") != "" {
				return true
			}
		}
		from = page[len(page)-1].Seq + 1
	}
}

// TestAReadOfAStalledStreamHoldsUpNoCaller: the server answers reads on the goroutine that reads
// the connection. Callers end in their time, and the connection is left for another one.
func TestAReadOfAStalledStreamHoldsUpNoCaller(t *testing.T) {
	t.Parallel()
	s := newStalling(t)
	begin := time.Now()
	if _, err := s.Last(t.Context(), stalledStream, "$O.>"); err == nil {
		t.Error("a stream is read whose store is locked")
	}
	if took := time.Since(begin); took > broker.ReadTimeout+2*time.Second {
		t.Errorf("a read took %s", took)
	}
	patience := time.Now().Add(time.Minute)
	for n := 0; ; n++ {
		err := s.write(t, fmt.Sprintf("video_%d", n))
		if err == nil {
			break
		}
		if time.Now().After(patience) {
			t.Fatalf("the log takes no writes: %v", err)
		}
	}
}
