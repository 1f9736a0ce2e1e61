package powercut_test

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/service/servicetest"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/powercut/disk"
)

// itemBytes is less than the size on disk of a work item with a short prompt.
const itemBytes = 200

// TestNoJobBeginsByAnItemThatIsNotOnDisk proves that no job starts from a work item whose sync
// failed, although the server delivers such items. The consumer keeps these deliveries and extends
// them: repeated NAKs would make the job look like one that kills its holders.
func TestNoJobBeginsByAnItemThatIsNotOnDisk(t *testing.T) {
	brokertest.Full(t, "rebuilds nats-server")
	t.Parallel()
	dir := t.TempDir()
	var failed atomic.Bool
	work := filepath.Join(subject.Default().Work(), "msgs")
	w := &recorder{reported: jobs{}, of: map[string]int{}}
	w.disk = disk.Watch(dir, syncTakes, func(name string, grows int) error {
		if !strings.HasSuffix(filepath.Dir(name), work) {
			return nil
		}
		if grows >= writesOfABatch*itemBytes {
			failed.Store(true)
		}
		if failed.Load() {
			return errors.New("the disk is broken")
		}
		return nil
	})
	t.Cleanup(w.disk.Close)
	s := servicetest.New(t, servicetest.Options{DataDir: dir, Upstream: w.upstream(t), Change: func(c *config.Config) {
		c.NATS.SyncAlways = true
		for i := range c.Routes { // make all jobs ready at once
			c.Routes[i].MaxInFlight, c.Routes[i].ReadyJobs = 500, 500
		}
	}})
	acks := watchAcks(t, s)
	createMany(t, s.GRPCAddr().String())
	if !failed.Load() {
		t.Fatal("there was no batch of work items")
	}
	acks.kept(t, writesOfABatch)

	w.mu.Lock()
	begun := slices.Collect(maps.Keys(w.reported))
	w.mu.Unlock()
	b := restart(t, w.disk.Cut(0))
	stored, err := b.Stream(t.Context(), b.Names().Work())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d items are on disk, %d jobs were begun", stored.CachedInfo().State.Msgs, len(begun))
	log := joblog.New(joblog.Options{Broker: b})
	for _, id := range begun {
		e, err := log.Find(t.Context(), subject.Video, id)
		if err == nil && e.Terminal() {
			continue
		}
		_, none := b.Last(t.Context(), b.Names().Work(), b.Names().WorkAnyRoute(subject.Video, "default", id))
		if none != nil {
			t.Errorf("the upstream was sent job %s, whose item is not on disk: %v (its log: %v)", id, none, err)
		}
	}
}

// createMany creates 400 videos at once and waits until each call returns or times out.
func createMany(t *testing.T, addr string) {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 2*broker.PublishTimeout)
	defer cancel()
	var group sync.WaitGroup
	for range 400 {
		group.Go(func() {
			// Once the disk is broken, calls may fail. This test ignores their results.
			_, _ = genbusv1grpc.NewVideoServiceClient(conn).CreateVideoTask(ctx, &genbusv1.CreateVideoTaskRequest{Request: &genbusv1.VideoRequest{
				Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{Model: "sandbox-video", Prompt: "a paper boat"}},
			}})
		})
	}
	group.Wait()
}

// acks receives the acknowledgements that consumers send for work items.
type acks chan *nats.Msg

func watchAcks(t *testing.T, s *servicetest.Running) acks {
	t.Helper()
	nc, err := nats.Connect(s.NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	said := make(acks, 1<<16)
	if _, err := nc.ChanSubscribe("$JS.ACK."+s.Names().Work()+".>", said); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return said
}

// kept waits until this many deliveries are extended from now on. It fails on any NAK, including
// earlier ones.
func (a acks) kept(t *testing.T, many int) {
	t.Helper()
	before, extended := len(a), map[string]bool{}
	patience := time.After(time.Minute)
	for len(extended) < many {
		select {
		case m := <-a:
			before--
			switch {
			case strings.HasPrefix(string(m.Data), "-NAK"):
				t.Fatalf("a work item was given back: %s %s", m.Subject, m.Data)
			case before < 0 && string(m.Data) == "+WPI":
				extended[m.Subject] = true
			}
		case <-patience:
			t.Fatalf("%d deliveries were extended, want %d", len(extended), many)
		}
	}
}
