package powercut_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/powercut/disk"
)

const (
	// syncTakes is about the time of a sync on a real disk.
	syncTakes = time.Millisecond
	// eventBytes makes the events of manyJobs exceed the 8 MiB of one block of GENBUS_TASKS.
	eventBytes     = 12 << 10
	manyJobs       = 500
	fewJobs        = 20
	eventsOfAJob   = 3
	writesOfABatch = 32
)

// writing writes messages of jobs to the streams of a broker.
type writing struct {
	b      *broker.Broker
	ledger *ledger
	random []byte // source of message data
}

func newWriting(t *testing.T, b *broker.Broker, l *ledger) *writing {
	t.Helper()
	w := &writing{b: b, ledger: l, random: make([]byte, 1<<20)}
	source := rand.NewChaCha8([32]byte{})
	_, _ = source.Read(w.random) // never fails
	return w
}

// follow adds each event delivered to a live subscriber to the ledger. stop ends this and returns
// the number of events.
func (w *writing) follow(t *testing.T) (stop func() int) {
	t.Helper()
	names := w.b.Names()
	live := make(chan *nats.Msg, manyJobs*eventsOfAJob*2)
	sub, err := w.b.Conn().ChanSubscribe(names.LiveTaskPattern(), live)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	told := make(chan int)
	go func() {
		n := 0
		for m := range live {
			if !w.b.Synced(names.Tasks(), m.Header) {
				continue
			}
			n++
			seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
			if err != nil {
				t.Error(err)
			}
			w.ledger.add(names.Tasks(), seq, m.Header.Get("Nats-Subject"), m.Data)
		}
		told <- n
	}()
	return func() int {
		if err := sub.Unsubscribe(); err != nil {
			t.Error(err)
		}
		close(live)
		return <-told
	}
}

func (w *writing) run(t *testing.T, name string, jobs, atOnce int) {
	t.Helper()
	next := make(chan int)
	var group sync.WaitGroup
	for range atOnce {
		group.Go(func() {
			for i := range next {
				if err := w.job(t.Context(), fmt.Sprint(name, i), i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range jobs {
		next <- i
	}
	close(next)
	group.Wait()
}

// job writes the messages of one job: its backlog item, its events, its work item and its usage.
func (w *writing) job(ctx context.Context, id string, i int) error {
	n := w.b.Names()
	wait, err := w.put(ctx, n.WaitItem(subject.Video, "route", "tenant", id), 300)
	if err != nil {
		return err
	}
	var last uint64
	for range eventsOfAJob {
		if last, err = w.event(ctx, n.Task(subject.Video, "tenant", id), i, last); err != nil {
			return err
		}
	}
	if _, err = w.put(ctx, n.WorkItem(subject.Video, "route", "tenant", id), 300); err != nil {
		return err
	}
	w.ledger.release(n.Wait(), wait)
	if _, err = w.b.Delete(ctx, n.Wait(), wait); err != nil {
		return err
	}
	_, err = w.put(ctx, n.Usage(subject.Video, "tenant", id), 500)
	return err
}

func (w *writing) put(ctx context.Context, subject string, bytes int) (uint64, error) {
	m := &nats.Msg{Subject: subject, Data: w.data(bytes)}
	ack, err := w.b.Publish(ctx, m)
	if err == nil {
		w.ledger.add(w.b.Names().StreamOf(subject), ack.Seq, subject, m.Data)
	}
	return ack.Seq, err
}

// event writes one event. Every other job writes like an inline chat.
func (w *writing) event(ctx context.Context, subject string, i int, last uint64) (uint64, error) {
	m := &nats.Msg{Subject: subject, Data: w.data(eventBytes)}
	lane := broker.Jobs
	if i%2 == 1 {
		lane = broker.Inline
	}
	ack, err := w.b.PublishExpecting(ctx, lane, m, last)
	if err == nil {
		w.ledger.add(w.b.Names().Tasks(), ack.Seq, subject, m.Data)
	}
	return ack.Seq, err
}

func (w *writing) data(bytes int) []byte {
	from := rand.IntN(len(w.random) - bytes)
	return w.random[from : from+bytes]
}

func open(t *testing.T, dir string, noSync bool) *broker.Broker {
	t.Helper()
	return brokertest.Open(t, broker.Options{
		Names: subject.Default(), Logger: brokertest.Logger(t), Embedded: broker.Embedded{DataDir: dir, NoSync: noSync},
	})
}

// cutter cuts the power at the moments below.
type cutter struct {
	ledger *ledger
	disk   *disk.Disk

	mu     sync.Mutex
	writes *writing        // nil: do not cut
	any    string          // label of cuts at other moments
	every  int             // confirmed writes between cuts at other moments
	after  int             // number of confirmed writes at which the next such cut is due
	rolled map[string]bool // blocks whose first sync was seen
	cuts   []cut
	of     map[string]int // number of cuts, by label
}

// Labels of the moments at which the power is cut: the first sync of a block, a staged batch, a
// batch that is stored but not synced, and other moments.
const (
	atRoll   = "a block roll"
	atStaged = "a staged batch"
	atBatch  = "a batch"
	atMany   = "many writes at once"
	atFew    = "few writes at once"
)

var maxCuts = map[string]int{atRoll: 2, atStaged: 4, atBatch: 8, atMany: 16, atFew: 6}

// begin enables cuts. Cuts at other moments happen after each `every` confirmed writes and are
// labelled moments.
func (c *cutter) begin(w *writing, moments string, every int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes, c.any, c.every, c.after = w, moments, every, c.ledger.size()+every
}

// onSync implements the callback of the Disk.
func (c *cutter) onSync(name string, grows int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writes == nil {
		return nil
	}
	if why := c.moment(name, grows); why != "" && c.of[why] < maxCuts[why] {
		c.cut(why)
	}
	return nil
}

// noCut is the callback of a Disk whose power is cut elsewhere.
func noCut(string, int) error { return nil }

// moment returns the label of the current moment, or "". The caller holds c.mu.
func (c *cutter) moment(name string, grows int) string {
	confirmed := c.ledger.size()
	switch log := filepath.Join(c.writes.b.Names().Tasks(), "msgs"); {
	case strings.HasSuffix(filepath.Dir(name), log) && filepath.Base(name) != "1.blk" && !c.rolled[name]:
		c.rolled[name] = true
		return atRoll
	case strings.Contains(name, "batches") && confirmed > manyJobs:
		return atStaged
	case strings.HasSuffix(filepath.Dir(name), log) && grows >= writesOfABatch*eventBytes:
		return atBatch
	case confirmed >= c.after:
		c.after = confirmed + c.every
		return c.any
	}
	return ""
}

// cut cuts the power. Every second cut at a label keeps a random share of the unsynced data. The
// caller holds c.mu.
func (c *cutter) cut(why string) {
	unsynced := 0.0
	if c.of[why]++; c.of[why]%2 == 0 {
		unsynced = rand.Float64()
	}
	why = fmt.Sprintf("%s, %.2f of what is not synced, %d confirmed", why, unsynced, c.ledger.size())
	c.cuts = append(c.cuts, c.ledger.cut(c.disk, why, unsynced))
}

// TestEveryConfirmedWriteIsThere proves that confirmed writes and events delivered to a follower
// survive a power cut.
func TestEveryConfirmedWriteIsThere(t *testing.T) {
	brokertest.Full(t, "rebuilds nats-server")
	t.Parallel()
	dir, l := t.TempDir(), newLedger()
	c := &cutter{ledger: l, rolled: map[string]bool{}, of: map[string]int{}}
	c.disk = disk.Watch(dir, syncTakes, c.onSync)
	t.Cleanup(c.disk.Close)
	b := open(t, dir, false)
	w := newWriting(t, b, l)
	stop := w.follow(t)
	c.begin(w, atMany, 150)
	w.run(t, "many", manyJobs, manyJobs)
	c.begin(w, atFew, 10)
	w.run(t, "few", fewJobs, 2)
	if stop() == 0 {
		t.Error("the follower was told of nothing")
	}

	c.mu.Lock()
	c.writes = nil
	cuts := append(c.cuts, l.cut(c.disk, "the end", 0))
	c.mu.Unlock()
	for why := range maxCuts {
		if c.of[why] == 0 {
			t.Errorf("there was no cut at %s", why)
		}
	}
	if n := blocks(cuts[len(cuts)-1].image, b.Names().Tasks()); n < 2 {
		t.Errorf("the events filled %d block", n)
	}
	for _, one := range cuts {
		t.Run(one.why, func(t *testing.T) { goesOn(t, one.check(t)) })
	}
}

// goesOn fails unless the streams accept more jobs.
func goesOn(t *testing.T, b *broker.Broker) {
	t.Helper()
	if err := b.Streams().Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := newLedger()
	newWriting(t, b, l).run(t, "further", 2, 2)
	if lost := messages(l.stored).lost(t.Context(), b); len(lost) > 0 {
		t.Errorf("of what was written after the cut is lost: %v", lost)
	}
}

// TestWithoutSyncsConfirmedWritesAreLost proves that the Disk drops unsynced data: without syncs, a
// cut loses every confirmed write.
func TestWithoutSyncsConfirmedWritesAreLost(t *testing.T) {
	brokertest.Full(t, "rebuilds nats-server")
	t.Parallel()
	dir := t.TempDir()
	d := disk.Watch(dir, 0, noCut)
	t.Cleanup(d.Close)
	t.Run("the streams are synced", func(t *testing.T) { open(t, dir, false) })

	b, l := open(t, dir, true), newLedger()
	newWriting(t, b, l).run(t, "job", fewJobs, fewJobs)
	one := l.cut(d, "all is confirmed", 0)
	after := restart(t, one.image)
	if lost := one.want.lost(t.Context(), after); len(lost) != len(l.stored) || len(lost) == 0 {
		t.Errorf("%d of %d writes are lost, want all", len(lost), len(l.stored))
	}
	for _, stream := range []string{b.Names().Tasks(), b.Names().Work()} {
		if _, err := after.Stream(t.Context(), stream); err != nil {
			t.Errorf("the stream was synced: %v", err)
		}
	}
}
