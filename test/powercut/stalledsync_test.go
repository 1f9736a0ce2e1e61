package powercut_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/powercut/disk"
)

// stalling is a broker whose disk does not end the sync of a tenant's body.
type stalling struct {
	*broker.Broker
	bodies *broker.Bodies
	gaveUp <-chan struct{} // is closed when the caller of the write that stalls has its error
}

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
	b := open(t, dir, false)
	gaveUp := make(chan struct{})
	s := stalling{b, broker.NewBodies(b), gaveUp}
	if err := s.put(t, "stalled"); err != nil {
		t.Fatal(err)
	}
	stalls.Store(true)
	go func() {
		defer close(gaveUp)
		_ = s.put(t, "stalled") // whatever becomes of it
	}()
	<-stalled
	t.Cleanup(func() {
		close(goOn)
		<-gaveUp
	})
	return s
}

var stalledStream = "OBJ_" + subject.Default().Bodies("stalled")

func (s stalling) put(t *testing.T, tenant string) error {
	_, err := s.bodies.PutNew(t.Context(), tenant, "x", []byte("body"))
	return err
}

// write writes an event of a job to the log, and fails where that takes longer than it may.
func (s stalling) write(t *testing.T, job string) error {
	begin := time.Now()
	m := &nats.Msg{Subject: s.Names().Task(subject.Video, "tenant", job), Data: []byte("x")}
	_, err := s.PublishExpecting(t.Context(), broker.Jobs, m, 0)
	if took := time.Since(begin); took > 2*broker.PublishTimeout {
		t.Errorf("a write took %s: %v", took, err)
	}
	return err
}

// TestAStalledSyncHoldsUpItsOwnStream: the log takes writes meanwhile, and so do the bodies of
// other tenants. The room of the store is read for the first batch.
func TestAStalledSyncHoldsUpItsOwnStream(t *testing.T) {
	brokertest.Full(t, "rebuilds nats-server")
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

// TestReadsOfAStalledStreamHoldUpNoWrites: the server would answer them on the goroutine that
// reads the connection. They end in their time.
func TestReadsOfAStalledStreamHoldUpNoWrites(t *testing.T) {
	brokertest.Full(t, "rebuilds nats-server")
	t.Parallel()
	s := newStalling(t)
	<-s.gaveUp
	reads := map[string]func() error{
		"last": func() error { _, err := s.Last(t.Context(), stalledStream, "$O.>"); return err },
		"page": func() error { _, err := s.Page(t.Context(), stalledStream, "$O.>", 1); return err },
	}
	var group sync.WaitGroup
	for name, read := range reads {
		group.Go(func() {
			begin := time.Now()
			err := read()
			if err == nil {
				t.Errorf("%s: a stream is read whose store is locked", name)
			}
			if took := time.Since(begin); took > 2*broker.ReadTimeout {
				t.Errorf("%s: a read took %s: %v", name, took, err)
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		group.Wait()
		close(ended)
	}()
	for n := 0; ; n++ {
		if err := s.write(t, fmt.Sprintf("video_%d", n)); err != nil {
			t.Fatalf("while another stream is read: %v", err)
		}
		select {
		case <-ended:
			return
		default:
		}
	}
}

// TestAReadOfAStalledStreamHoldsUpNoCaller: one that is sent before the stall is noticed holds up
// the goroutine that reads the connection. Callers end in their time, and the connection is left
// for another one.
func TestAReadOfAStalledStreamHoldsUpNoCaller(t *testing.T) {
	brokertest.Full(t, "rebuilds nats-server")
	t.Parallel()
	s := newStalling(t)
	err := s.Conn().PublishRequest("$JS.API.DIRECT.GET."+stalledStream, s.Conn().NewInbox(), []byte(`{"last_by_subj":"$O.>"}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.write(t, "video_behind"); err == nil {
		t.Error("the server answers a write behind the read of a stream whose store is locked")
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

// TestRequestsAboutAStalledStreamLeaveTheAPIToOthers: each of them keeps a goroutine of the
// server's API until the sync ends.
func TestRequestsAboutAStalledStreamLeaveTheAPIToOthers(t *testing.T) {
	brokertest.Full(t, "rebuilds nats-server")
	t.Parallel()
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("the API has one goroutine")
	}
	s := newStalling(t)
	<-s.gaveUp
	var group sync.WaitGroup
	for range 16 { // the API has no more goroutines
		group.Go(func() {
			if _, err := s.bodies.Used(t.Context(), "stalled"); err == nil {
				t.Error("a stream says what it has whose store is locked")
			}
		})
	}
	group.Wait()
	if _, err := s.Stream(t.Context(), s.Names().Tasks()); err != nil {
		t.Errorf("while requests about another stream have no answer: %v", err)
	}
}
