package chatlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/chatlog"
)

// spy counts all reads of messages from JetStream.
func spy(t testing.TB, b *broker.Broker) *atomic.Int64 {
	t.Helper()
	var reads atomic.Int64
	for _, subj := range []string{"$JS.API.STREAM.MSG.GET.*", "$JS.API.DIRECT.GET.>"} {
		sub, err := b.Conn().Subscribe(subj, func(*nats.Msg) { reads.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	return &reads
}

func (x *bundle) count(reads *atomic.Int64) int64 {
	x.t.Helper()
	if err := x.b.Conn().Flush(); err != nil {
		x.t.Fatal(err)
	}
	return reads.Load()
}

// TestNothingIsReadWhileChunksArrive proves that followers of a running chat need no further reads.
func TestNothingIsReadWhileChunksArrive(t *testing.T) {
	t.Parallel()
	const silence, followers = 2 * time.Second, 5
	x := setup(t, brokertest.Single(t), chatlog.Options{RereadEvery: silence})
	reads := spy(t, x.b)
	x.queued()
	x.started()
	var readers []reader
	for range followers {
		readers = append(readers, x.read(""))
	}
	for _, r := range readers {
		r.expect(t, "event 1", "event 2")
	}
	next := 0
	more := func() {
		x.chunk(1, next, 1)
		for _, r := range readers {
			r.expect(t, fmt.Sprintf("chunk 1: %d", next))
		}
		next++
	}
	more()
	for begin, before, last := time.Now(), x.count(reads), time.Now(); time.Since(begin) < 2*silence; last = time.Now() {
		if time.Since(last) > silence/2 { // the machine stalled, which counts as silence
			begin, before = time.Now(), x.count(reads)
		}
		more()
		if n := x.count(reads) - before; n > 0 {
			t.Fatalf("%d reads within %s, at chunk %d", n, time.Since(begin), next)
		}
	}
}

// TestLateFollowersShareACatchUp proves that late followers reuse chunks from memory, and that the
// first followers of a chat share their reads.
func TestLateFollowersShareACatchUp(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		first bool
		most  int64
	}{
		{"behind another one", true, 2},
		{"all at once", false, 60},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			x := setup(t, brokertest.Single(t), chatlog.Options{RereadEvery: time.Minute})
			reads := spy(t, x.b)
			x.queued()
			x.started()
			const chunks, late = 60, 300
			var first reader
			if row.first {
				first = x.read("")
				first.expect(t, "event 1", "event 2")
			}
			for i := range chunks {
				x.chunk(1, i, 1)
				if row.first {
					first.expect(t, fmt.Sprintf("chunk 1: %d", i))
				}
			}
			before := x.count(reads)
			var all sync.WaitGroup
			for range late {
				all.Go(func() {
					seen := 0
					for item, err := range x.log.Follow(t.Context(), x.name, "") {
						if err != nil {
							t.Error(err)
							return
						}
						if item.Chunk == nil {
							continue
						}
						if got, want := text(item), fmt.Sprintf("chunk 1: %d", seen); got != want {
							t.Errorf("got %q, want %q", got, want)
							return
						}
						if seen++; seen == chunks {
							return
						}
					}
				})
			}
			all.Wait()
			if n := x.count(reads) - before; n > row.most {
				t.Errorf("%d late followers cost %d reads, want %d at most", late, n, row.most)
			}
		})
	}
}

// TestFollowersOutliveAnElection proves that followers survive several elections and the loss of
// the chunks' leader.
func TestFollowersOutliveAnElection(t *testing.T) {
	t.Parallel()
	cluster := brokertest.NewCluster(t)
	const chats, followers = 30, 10
	b := cluster.Open(t)
	first := setup(t, b, chatlog.Options{RereadEvery: 200 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var all []*bundle
	var ended, ready sync.WaitGroup
	for i := range chats {
		x := *first
		x.name.ID, x.entry.Job = fmt.Sprint("chat_", i), nil
		x.queued()
		x.started()
		all = append(all, &x)
		for range followers {
			ready.Add(1)
			ended.Go(func() {
				begun := sync.OnceFunc(ready.Done)
				defer begun()
				last := ""
				for item, err := range x.log.Follow(ctx, x.name, "") {
					if err != nil {
						t.Errorf("%s: %v", x.name.ID, err)
						return
					}
					if last = text(item); last == "event 2" {
						begun()
					}
				}
				if last != "event 3" {
					t.Errorf("%s: the last item was %q", x.name.ID, last)
				}
			})
		}
	}
	ready.Wait()
	for range 5 {
		for _, name := range []string{b.Names().Chunks(), b.Names().Tasks()} {
			again(t, func() error {
				_, err := b.Conn().Request("$JS.API.STREAM.LEADER.STEPDOWN."+name, nil, 5*time.Second)
				return err
			})
			// Followers wait 30 s for one election, not for ten in a row.
			again(t, func() error { return b.Streams().Ensure(ctx) })
		}
	}
	gone := false
	again(t, func() error {
		for _, s := range cluster.Servers {
			if !gone && s.JetStreamIsStreamLeader("$G", b.Names().Chunks()) {
				gone = true
				s.Shutdown()
				s.WaitForShutdown()
			}
		}
		if !gone {
			return errors.New("no server leads the chunks")
		}
		return nil
	})
	if err := b.Streams().Ensure(ctx); err != nil { // until they have leaders again
		t.Fatal(err)
	}
	for _, x := range all {
		again(t, func() error { return x.tryStore(1, 0) })
		again(t, func() error { return x.tryReplied(ctx, 1) })
	}
	ended.Wait()
}

// again retries, because a new leader may be slow.
func again(t *testing.T, do func() error) {
	t.Helper()
	for end := time.Now().Add(brokertest.Patience); ; {
		err := do()
		if err == nil {
			return
		}
		if time.Now().After(end) || broker.Wait(t.Context(), 50*time.Millisecond) != nil {
			t.Fatal(err)
		}
	}
}
