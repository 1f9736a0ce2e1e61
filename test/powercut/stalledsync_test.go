package powercut_test

import (
	"context"
	"fmt"
	"path/filepath"
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

// stalling is a broker whose disk stalls while syncing a tenant's body.
type stalling struct {
	*broker.Broker
	bodies *broker.Bodies
	gaveUp <-chan struct{} // closed when the caller of the stalled write has its error
	end    func()          // ends the sync
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
	s := stalling{b, broker.NewBodies(b), gaveUp, sync.OnceFunc(func() { close(goOn) })}
	if err := s.put(t, "stalled"); err != nil {
		t.Fatal(err)
	}
	stalls.Store(true)
	go func() {
		defer close(gaveUp)
		_ = s.put(t, "stalled") // either result is fine
	}()
	<-stalled
	t.Cleanup(func() {
		s.end()
		<-gaveUp
	})
	return s
}

var stalledStream = "OBJ_" + subject.Default().Bodies("stalled")

func (s stalling) put(t *testing.T, tenant string) error {
	_, err := s.bodies.PutNew(t.Context(), tenant, "x", []byte("body"))
	return err
}

// write writes an event to the log. It fails the test if that takes too long.
func (s stalling) write(t *testing.T, job string) error {
	begin := time.Now()
	m := &nats.Msg{Subject: s.Names().Task(subject.Video, "tenant", job), Data: []byte("x")}
	_, err := s.PublishExpecting(t.Context(), broker.Jobs, m, 0)
	if took := time.Since(begin); took > 2*broker.PublishTimeout {
		t.Errorf("a write took %s: %v", took, err)
	}
	return err
}

// TestAStalledSyncHoldsUpItsOwnStream proves that the log accepts writes during the stall. The
// first batch also reads the store's capacity, which must not stall either.
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
}

// sharesSyncs reports whether an event in the log was written as part of a batch.
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

// mostOfARead bounds a read on a connection that the server has stopped reading: the read's own
// timeout plus the time until the client replaces the connection.
const mostOfARead = 3 * broker.ReadTimeout

// read reads an event of the log. It may fail, but not late.
func (s stalling) read(t *testing.T) error {
	t.Helper()
	return inTime(t, func() error {
		_, err := s.Last(t.Context(), s.Names().Tasks(), s.Names().TaskPattern())
		return err
	})
}

func inTime(t *testing.T, read func() error) error {
	t.Helper()
	begin := time.Now()
	err := read()
	if took := time.Since(begin); took > mostOfARead {
		t.Errorf("a read took %s: %v", took, err)
	}
	return err
}

// TestReadsOfAStalledStreamHoldUpNoWrites proves that reads of the stalled stream fail in time and
// delay no writes. The server answers such reads on the goroutine that reads the connection.
func TestReadsOfAStalledStreamHoldUpNoWrites(t *testing.T) {
	brokertest.Full(t, "rebuilds nats-server")
	t.Parallel()
	s := newStalling(t)
	<-s.gaveUp
	reads := map[string]func() error{
		"last": func() error { _, err := s.Last(t.Context(), stalledStream, "$O.>"); return err },
		"page": func() error { _, err := s.Page(t.Context(), stalledStream, "$O.>", 1); return err },
		"info": func() error { _, err := s.bodies.Used(t.Context(), "stalled"); return err },
	}
	var group sync.WaitGroup
	for name, read := range reads {
		group.Go(func() {
			if inTime(t, read) == nil {
				t.Errorf("%s: a stream is read whose store is locked", name)
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

// TestAReadOfAStalledStreamHoldsUpNoCaller proves that callers get by when the server stops reading
// the connection used for reads: writes go on, other reads fail in time, and the client replaces
// the connection.
func TestAReadOfAStalledStreamHoldsUpNoCaller(t *testing.T) {
	brokertest.Full(t, "rebuilds nats-server")
	t.Parallel()
	s := newStalling(t)
	if err := s.write(t, "video_before"); err != nil {
		t.Fatal(err)
	}
	err := s.Conn().PublishRequest("$JS.API.DIRECT.GET."+stalledStream, s.Conn().NewInbox(), []byte(`{"last_by_subj":"$O.>"}`))
	if err != nil {
		t.Fatal(err)
	}
	if s.read(t) == nil {
		t.Error("the server answers a read behind that of a stream whose store is locked")
	}
	for n, patience := 0, time.Now().Add(time.Minute); ; n++ {
		if err := s.write(t, fmt.Sprintf("video_%d", n)); err != nil {
			t.Fatalf("while the connection for reads is held up: %v", err)
		}
		begin := time.Now()
		_ = s.Trouble()
		if took := time.Since(begin); took > time.Second {
			t.Errorf("callers were told after %s whether JetStream can be used", took)
		}
		err := s.read(t)
		if err == nil {
			break
		}
		if time.Now().After(patience) {
			t.Fatalf("the log cannot be read: %v", err)
		}
	}
}

// TestAStalledSyncIsReportedAndPasses proves that readiness reports the stall despite many pending
// reads, and that the broker recovers after it.
func TestAStalledSyncIsReportedAndPasses(t *testing.T) {
	brokertest.Full(t, "rebuilds nats-server")
	t.Parallel()
	s := newStalling(t)
	var group sync.WaitGroup
	for range 20 { // more than the goroutines of the server's API
		group.Go(func() { _, _ = s.bodies.Used(t.Context(), "stalled") })
		group.Go(func() { _, _ = s.Page(t.Context(), stalledStream, "$O.>", 1) })
	}
	group.Wait()
	shortly(t, "readiness tells of the stall", func() bool { return s.StoreError() != nil })
	s.end()
	shortly(t, "the store is well", func() bool { return s.StoreError() == nil })
	shortly(t, "JetStream is ready", func() bool { return s.Ready(t.Context()) == nil && s.Trouble() == nil })
	for _, tenant := range []string{"stalled", "other"} {
		if err := s.put(t, tenant); err != nil {
			t.Errorf("a body of %s: %v", tenant, err)
		}
	}
	if page, err := s.Page(t.Context(), stalledStream, "$O.>", 1); err != nil || len(page) == 0 {
		t.Errorf("%d messages of the stream that stalled: %v", len(page), err)
	}
}

// shortly polls until the condition holds.
func shortly(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	for !is() {
		if broker.Wait(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("not in time: %s", what)
		}
	}
}
