package chatlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/chatlog"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestFollowLiveAndReplay proves that a chat of two attempts reads the same live and after its end.
func TestFollowLiveAndReplay(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		x := setup(t, open(t), chatlog.Options{})
		x.queued()
		r := x.read("")
		r.expect(t, "event 1")
		x.started()
		r.expect(t, "event 2")
		x.chunk(1, 0, 1)
		r.expect(t, "chunk 1: 0")
		x.chunk(1, 1, 3)
		r.expect(t, "chunk 1: 1 2 3")
		x.started()
		r.expect(t, "event 3")
		x.chunk(1, 4, 1) // the previous holder does not know yet
		x.chunk(2, 0, 2)
		r.expect(t, "chunk 2: 0 1")
		x.chunk(2, 0, 2) // resent
		x.chunk(2, 1, 2) // resent with other boundaries
		r.expect(t, "chunk 2: 2")
		x.replied(3)
		if last := r.expect(t, "event 4"); string(last.Event.Job.(*genbusv1.Chat).GetReplyJson()) != `{"whole":true}` {
			t.Errorf("the last event is %v", last.Event.Job)
		}
		r.end(t)

		_, texts := x.all("")
		same(t, texts, "event 1", "event 2", "event 3", "chunk 2: 0 1", "chunk 2: 2", "event 4")
	})
}

// TestResumeGivesTheRest proves that resuming after any item yields the remaining items, during the
// chat and after its end.
func TestResumeGivesTheRest(t *testing.T) {
	t.Parallel()
	x := setup(t, brokertest.Single(t), chatlog.Options{EndWait: 10 * time.Millisecond})
	x.queued()
	x.started()
	const chunks = 12
	index := 0
	for i := range chunks {
		if i == 5 {
			index++ // a lost block
		}
		x.chunk(1, index, 1+i%3)
		index += 1 + i%3
	}
	head := x.read("")
	head.expect(t, "event 1", "event 2")
	var tokens []string
	for range chunks + 1 {
		tokens = append(tokens, (<-head.items).Token)
	}
	running := make([]reader, 0, len(tokens))
	for _, token := range tokens {
		running = append(running, x.read(token))
	}
	x.replied(uint64(index + 2)) // two blocks more than were stored
	head.expect(t, fmt.Sprintf("gap at 1/%d", index), "event 3")
	head.end(t)

	items, texts := x.all("")
	if len(texts) != 2+chunks+1+2 {
		t.Fatalf("%d items: %q", len(texts), texts)
	}
	for i, item := range items {
		_, rest := x.all(item.Token)
		same(t, rest, texts[i+1:]...)
	}
	for i, r := range running {
		r.expect(t, texts[2+i+1:]...)
		r.end(t)
	}
}

func TestLateChunksAreWaitedFor(t *testing.T) {
	t.Parallel()
	x := setup(t, brokertest.Single(t), chatlog.Options{EndWait: time.Minute})
	x.queued()
	x.started()
	x.chunk(1, 0, 1)
	r := x.read("")
	r.expect(t, "event 1", "event 2", "chunk 1: 0")
	x.replied(3)
	x.chunk(1, 1, 1)
	r.expect(t, "chunk 1: 1")
	x.chunk(1, 2, 1)
	r.expect(t, "chunk 1: 2", "event 3")
	r.end(t)
}

func TestMissingChunksAreAGap(t *testing.T) {
	t.Parallel()
	x := setup(t, brokertest.Single(t), chatlog.Options{EndWait: 10 * time.Millisecond})
	x.queued()
	x.started()
	r := x.read("")
	r.expect(t, "event 1", "event 2")
	x.chunk(1, 1, 1)
	r.expect(t, "gap at 1/0", "chunk 1: 1")
	x.chunk(1, 4, 2)
	r.expect(t, "gap at 1/2", "chunk 1: 4 5")
	x.replied(9)
	r.expect(t, "gap at 1/6", "event 3")
	r.end(t)
}

func TestLargeBlocksAreFetched(t *testing.T) {
	t.Parallel()
	x := setup(t, brokertest.Single(t), chatlog.Options{})
	x.queued()
	x.started()
	put := func(index uint64) broker.Body {
		ref, err := x.bodies.Put(t.Context(), "acme", fmt.Sprint("c", index), block(1, int(index)))
		if err != nil {
			t.Fatal(err)
		}
		x.store(&genbusv1.ChatChunk{Id: x.name.ID, Attempt: 1, Index: index, BlocksRef: publisher.BlobRef(ref)})
		return ref
	}
	put(0)
	lost := put(1)
	if err := x.bodies.Delete(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	x.chunk(1, 2, 1)
	x.replied(3)
	items, texts := x.all("")
	same(t, texts, "event 1", "event 2", "chunk 1: 0", "gap at 1/1", "chunk 1: 2", "event 3")
	if items[2].Chunk.GetBlocksRef() != nil {
		t.Error("the reference is still there")
	}
}

func TestSlowReaderIsCut(t *testing.T) {
	t.Parallel()
	x := setup(t, brokertest.Single(t), chatlog.Options{ReaderBuffer: 20_000})
	x.queued()
	x.started()
	slow, quick := x.read(""), x.read("")
	slow.expect(t, "event 1", "event 2")
	quick.expect(t, "event 1", "event 2")
	x.chunk(1, 0, 1)
	quick.expect(t, "chunk 1: 0")
	slow.expect(t, "chunk 1: 0")
	next := 1
	for cut := false; !cut; {
		for range 200 { // the slow reader does not read these
			x.chunk(1, next, 1)
			quick.expect(t, fmt.Sprintf("chunk 1: %d", next))
			next++
		}
		// A reader that stalls during a read of the stream is not cut off, because the missed
		// chunks are stored. Once it has caught up, the next chunks reach it live.
		cut = slow.endsBefore(fmt.Sprintf("chunk 1: %d", next-1))
	}
	if err := <-slow.err; !errors.Is(err, joblog.ErrSlowReader) {
		t.Errorf("the slow reader ended with %v", err)
	}
	x.replied(uint64(next))
	quick.expect(t, "event 3")
	quick.end(t)
}

// TestAReplyLongerThanTheBuffer proves that a reply above ReaderBuffer cuts off neither a waiting
// nor a late reader.
func TestAReplyLongerThanTheBuffer(t *testing.T) {
	t.Parallel()
	x := setup(t, brokertest.Single(t), chatlog.Options{ReaderBuffer: 4 << 10})
	x.queued()
	x.started()
	var texts []string
	for item, err := range x.log.Follow(t.Context(), x.name, "") {
		if err != nil {
			t.Fatal(err)
		}
		if texts = append(texts, text(item)); texts[len(texts)-1] == "event 2" { // it has caught up
			x.repliedWith(task.Reply{JSON: fmt.Appendf(nil, `{"whole":"%8192d"}`, 1)})
		}
	}
	same(t, texts, "event 1", "event 2", "event 3")
	_, texts = x.all("")
	same(t, texts, "event 1", "event 2", "event 3")
}

func TestErrorsOfFollow(t *testing.T) {
	t.Parallel()
	x := setup(t, brokertest.Single(t), chatlog.Options{})
	first := func(ctx context.Context, token string) error {
		for item, err := range x.log.Follow(ctx, x.name, token) {
			if err == nil {
				t.Errorf("got %q", text(item))
			}
			return err
		}
		return nil
	}
	if err := first(t.Context(), ""); !errors.Is(err, joblog.ErrNotFound) {
		t.Errorf("an unknown chat gave %v", err)
	}
	if err := first(t.Context(), "rubbish"); !errors.Is(err, chatlog.ErrToken) {
		t.Errorf("a bad token gave %v", err)
	}
	x.queued()
	gone := errors.New("the client went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var last error
	for item, err := range x.log.Follow(ctx, x.name, "") {
		if err == nil && text(item) == "event 1" {
			cancel(gone)
		}
		last = err
	}
	if !errors.Is(last, gone) {
		t.Errorf("a cancelled follower ended with %v", last)
	}
	for item, err := range x.log.Follow(t.Context(), x.name, "") {
		if err != nil || text(item) != "event 1" {
			t.Errorf("%q, %v", text(item), err)
		}
		break // stop without an error
	}
}

// TestFollowersOfAFastChat proves that each follower sees every block once and in order, whenever
// it joins.
func TestFollowersOfAFastChat(t *testing.T) {
	t.Parallel()
	x := setup(t, brokertest.Single(t), chatlog.Options{ReaderBuffer: 8 << 20, Reads: 1})
	x.queued()
	x.started()
	const blocks, followers = 5000, 8
	ends := make(chan string, followers)
	for i := range followers {
		go func() {
			// Followers join at different times.
			_ = broker.Wait(t.Context(), time.Duration(i)*5*time.Millisecond)
			next, last := 0, ""
			for item, err := range x.log.Follow(t.Context(), x.name, "") {
				switch {
				case err != nil:
					last = err.Error()
				case item.Chunk != nil:
					if int(item.Chunk.GetIndex()) != next || strings.Contains(text(item), "WRONG") {
						ends <- fmt.Sprintf("block %d came as %s", next, text(item))
						return
					}
					next += len(item.Chunk.GetBlocks())
				default:
					last = text(item)
				}
			}
			ends <- fmt.Sprintf("%d blocks, %s", next, last)
		}()
	}
	w := publisher.NewChunks(t.Context(), x.b, x.enc, x.bodies, telemetry.NewMetrics("test"), x.name.Tenant, x.name.ID, 1)
	defer w.Close()
	for i := range blocks {
		w.Add(block(1, i))
		if i%50 == 0 {
			_ = broker.Wait(t.Context(), time.Millisecond)
		}
	}
	count, err := w.Flush(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x.replied(count)
	for range followers {
		if got := <-ends; got != fmt.Sprintf("%d blocks, event 3", blocks) {
			t.Error(got)
		}
	}
}
