package broker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// onFullDisk opens a broker on the small file system and stores one message.
func onFullDisk(t *testing.T, dir string) *broker.Broker {
	t.Helper()
	b, err := broker.Open(t.Context(), broker.Options{
		Names: subject.Default(), Logger: brokertest.Logger(t), Embedded: broker.Embedded{DataDir: filepath.Join(dir, "data"), Listen: "127.0.0.1:0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := b.Streams().Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := store(t.Context(), b, "kept", 1<<10); err != nil {
		t.Fatal(err)
	}
	return b
}

// fill fills the file system, and another client of the server writes until the server fails. free
// removes the filler file.
func fill(t *testing.T, b *broker.Broker, dir string) (free func()) {
	t.Helper()
	filler := filepath.Join(dir, "filler")
	brokertest.FillDisk(t, filler, 0)
	nc, err := nats.Connect(b.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err := b.StoreError(); err == nil || !strings.Contains(err.Error(), "cannot write"); err = b.StoreError() {
		if err := errors.Join(nc.Publish(b.Names().Task(subject.Video, "acme", "more"), make([]byte, 64<<10)), broker.Wait(ctx, time.Millisecond)); err != nil {
			t.Fatalf("%v; the store's error is %v", err, b.StoreError())
		}
	}
	checkRefused(t, b)
	return func() {
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
}

// checkRefused checks that nothing is written to a full disk, and that callers are told why.
func checkRefused(t *testing.T, b *broker.Broker) {
	t.Helper()
	if err := store(t.Context(), b, "more", 1); !errors.Is(err, broker.ErrUnavailable) || errors.Is(err, broker.ErrFull) || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("a write: %v", err)
	}
	if err := b.Trouble(); !errors.Is(err, broker.ErrUnavailable) || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("callers are told: %v", err)
	}
}

// untilStore waits until StoreError is set, or cleared.
func untilStore(t *testing.T, b *broker.Broker, fails bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for (b.StoreError() != nil) != fails {
		if broker.Wait(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("the store's error stays %v", b.StoreError())
		}
	}
}

// TestWritesStopBeforeTheDiskIsFull proves that new jobs are refused first and then all writes,
// while the disk still has space, and that writing continues without a restart of the server.
func TestWritesStopBeforeTheDiskIsFull(t *testing.T) {
	t.Parallel()
	dir, inside := brokertest.SmallDisk(t)
	if !inside {
		return
	}
	b := onFullDisk(t, dir)
	nc, err := nats.Connect(b.ClientURL(), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	filler := filepath.Join(dir, "filler")
	brokertest.FillDisk(t, filler, 96<<20)
	untilStore(t, b, true)
	if err := b.RoomForJobs(); !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("room for jobs: %v", err)
	}
	if err := errors.Join(b.Trouble(), store(t.Context(), b, "event", 1)); err != nil {
		t.Errorf("an event: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	untilStore(t, b, false)
	brokertest.FillDisk(t, filler, 48<<20)
	for store(t.Context(), b, "more", 1) == nil { // until the next check of the space
		if err := broker.Wait(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if err := store(t.Context(), b, "more", 1); !errors.Is(err, broker.ErrUnavailable) || !strings.Contains(err.Error(), "less than 128 MiB") {
		t.Errorf("a write: %v", err)
	}
	if _, err := b.Last(t.Context(), b.Names().Tasks(), b.Names().Task(subject.Video, "acme", "kept")); err != nil || b.Trouble() != nil {
		t.Errorf("a read: %v; the trouble: %v", err, b.Trouble())
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	untilStore(t, b, false)
	if err := store(t.Context(), b, "new", 1); err != nil {
		t.Error(err)
	}
	if err := nc.FlushTimeout(brokertest.Patience); err != nil {
		t.Errorf("the server was restarted: %v", err)
	}
}

// TestAFullDiskIsSurvived proves that the embedded server restarts in place once there is space, at
// the same address and with every acknowledged message.
func TestAFullDiskIsSurvived(t *testing.T) {
	t.Parallel()
	dir, inside := brokertest.SmallDisk(t)
	if !inside {
		return
	}
	b := onFullDisk(t, dir)
	url := b.ClientURL()
	fill(t, b, dir)()
	untilStore(t, b, false)
	if b.ClientURL() != url {
		t.Errorf("clients have to reach it at %s, and not at %s", b.ClientURL(), url)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	untilConnected(t, b)
	if err := store(ctx, b, "new", 1<<20); err != nil {
		t.Error(err)
	}
	kept, err := b.Last(ctx, b.Names().Tasks(), b.Names().Task(subject.Video, "acme", "kept"))
	if err != nil || len(kept.Data) != 1<<10 {
		t.Errorf("what was acknowledged has %d bytes: %v", len(kept.Data), err)
	}
}

// TestADiskThatIsFullTwiceIsSurvived proves that a restart that helped does not count toward the
// limit.
func TestADiskThatIsFullTwiceIsSurvived(t *testing.T) {
	t.Parallel()
	dir, inside := brokertest.SmallDisk(t)
	if !inside {
		return
	}
	b := onFullDisk(t, dir)
	for range 2 {
		fill(t, b, dir)()
		untilStore(t, b, false)
		untilConnected(t, b)
	}
	select {
	case err := <-b.Failed():
		t.Error(err)
	default:
	}
}

// TestADataDirectoryThatIsNotWritableEndsTheProcess proves that Failed reports a data directory in
// which no restart can help.
func TestADataDirectoryThatIsNotWritableEndsTheProcess(t *testing.T) {
	t.Parallel()
	dir, inside := brokertest.SmallDisk(t)
	if !inside {
		return
	}
	b := onFullDisk(t, dir)
	if err := os.Mkdir(filepath.Join(dir, "data", "genbus.space"), 0o700); err != nil { // in place of the file
		t.Fatal(err)
	}
	fill(t, b, dir)()
	select {
	case err := <-b.Failed():
		if !strings.Contains(err.Error(), "nats.data_dir is not writable") || !errors.Is(err, broker.ErrUnavailable) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Failed got nothing")
	}
}

// TestAFullDiskOfAnExternalServer proves that an unanswered write to the job log reveals a full
// disk.
func TestAFullDiskOfAnExternalServer(t *testing.T) {
	t.Parallel()
	dir, inside := brokertest.SmallDisk(t)
	if !inside {
		return
	}
	s := brokertest.Serve(t, &server.Options{JetStream: true, StoreDir: filepath.Join(dir, "data"), JetStreamMaxMemory: 512 << 20, JetStreamMaxStore: 100 << 30, SyncAlways: true})
	b := brokertest.Open(t, broker.Options{Names: subject.Default(), URL: s.ClientURL(), Logger: brokertest.Logger(t)})
	brokertest.FillDisk(t, filepath.Join(dir, "filler"), 0)
	var err error
	for err == nil {
		err = store(t.Context(), b, "more", 64<<10)
	}
	if b.StoreError() == nil || b.Ready(t.Context()) != nil {
		t.Errorf("the write: %v; the store: %v; JetStream: %v", err, b.StoreError(), b.Ready(t.Context()))
	}
}

// untilConnected waits until a write succeeds and Trouble returns nil.
func untilConnected(t *testing.T, b *broker.Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := errors.Join(b.Trouble(), store(ctx, b, "new", 1))
		if err == nil {
			return
		}
		if broker.Wait(ctx, 10*time.Millisecond) != nil {
			t.Fatal(err)
		}
	}
}
