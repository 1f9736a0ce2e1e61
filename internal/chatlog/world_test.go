package chatlog_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/chatlog"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

// bundle is one chat with its writer and its reader.
type bundle struct {
	t      testing.TB
	b      *broker.Broker
	enc    publisher.Encoder
	tasks  *joblog.Log
	bodies *broker.Bodies
	log    *chatlog.Log
	name   subject.JobName
	entry  joblog.Entry
}

func setup(t testing.TB, b *broker.Broker, o chatlog.Options) *bundle {
	t.Helper()
	x := &bundle{
		t: t, b: b, enc: publisher.Encoder{Names: b.Names()}, bodies: broker.NewBodies(b),
		name: subject.JobName{Kind: subject.Chat, Tenant: "acme", ID: "chat_1"},
	}
	x.tasks = joblog.New(joblog.Options{Broker: b, Metrics: telemetry.NewMetrics("test"), Encoder: x.enc, Logger: brokertest.Logger(t), ReaderBuffer: o.ReaderBuffer})
	ctx, cancel := context.WithCancel(t.Context())
	wait, err := x.tasks.Start(ctx)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		wait()
	})
	x.log = chatlog.New(b, x.tasks, x.bodies, o)
	return x
}

func (x *bundle) chat() *genbusv1.Chat {
	c, _ := x.entry.Job.(*genbusv1.Chat)
	return c
}

func (x *bundle) commit(e task.Event, err error) {
	x.t.Helper()
	if err == nil {
		x.entry, err = x.tasks.Commit(x.t.Context(), e, x.entry.Seq)
	}
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *bundle) queued() {
	x.t.Helper()
	x.commit(task.FromWork(&genbusv1.WorkItem{
		Id: x.name.ID, Kind: "chat", Tenant: x.name.Tenant, Route: "r", Model: "m", Fingerprint: []byte("fp"), Stream: true, AcceptedAt: timestamppb.Now(),
	}), nil)
}

func (x *bundle) started() {
	x.t.Helper()
	x.commit(task.Started(x.chat(), time.Now(), task.Attempt{Upstream: "u", Deadline: time.Now().Add(time.Hour)}))
}

func (x *bundle) replied(chunks uint64) {
	x.t.Helper()
	x.repliedWith(task.Reply{JSON: []byte(`{"whole":true}`), Chunks: chunks})
}

func (x *bundle) repliedWith(reply task.Reply) {
	x.t.Helper()
	x.commit(task.Replied(x.chat(), time.Now(), reply))
}

// tryReplied is replied if the broker may not answer.
func (x *bundle) tryReplied(ctx context.Context, chunks uint64) error {
	e, err := task.Replied(x.chat(), time.Now(), task.Reply{JSON: []byte(`{"whole":true}`), Chunks: chunks})
	if err == nil {
		_, err = x.tasks.Commit(ctx, e, x.entry.Seq)
	}
	return err
}

func block(attempt uint32, i int) []byte { return fmt.Appendf(nil, `{"a":%d,"i":%d}`, attempt, i) }

// chunk stores one message with this many blocks, from index on.
func (x *bundle) chunk(attempt uint32, index, blocks int) {
	x.t.Helper()
	c := &genbusv1.ChatChunk{Id: x.name.ID, Attempt: attempt, Index: uint64(index), Time: timestamppb.Now()}
	for i := range blocks {
		c.Blocks = append(c.Blocks, block(attempt, index+i))
	}
	x.store(c)
}

func (x *bundle) store(c *genbusv1.ChatChunk) {
	x.t.Helper()
	m, err := x.enc.Chunk(x.t.Context(), x.name.Tenant, c)
	if err == nil {
		_, err = x.b.Publish(x.t.Context(), m)
	}
	if err != nil {
		x.t.Fatal(err)
	}
}

// tryStore stores a chunk of one block if the broker may not answer.
func (x *bundle) tryStore(attempt uint32, index int) error {
	m, err := x.enc.Chunk(x.t.Context(), x.name.Tenant, &genbusv1.ChatChunk{
		Id: x.name.ID, Attempt: attempt, Index: uint64(index), Time: timestamppb.Now(), Blocks: [][]byte{block(attempt, index)},
	})
	if err == nil {
		_, err = x.b.Publish(x.t.Context(), m)
	}
	return err
}

// text abbreviates an item: "event 2", "chunk 1: 0 1 2", "gap at 1/3".
func text(item chatlog.Item) string {
	switch {
	case item.Event != nil:
		return fmt.Sprintf("event %d", item.Event.Version())
	case item.Gap != nil:
		return fmt.Sprintf("%s at %d/%d", item.Gap.GetReason(), item.Gap.GetAttempt(), item.Gap.GetIndex())
	default:
		s := fmt.Sprintf("chunk %d:", item.Chunk.GetAttempt())
		for i, b := range item.Chunk.GetBlocks() {
			index := int(item.Chunk.GetIndex()) + i
			if !bytes.Equal(b, block(item.Chunk.GetAttempt(), index)) {
				s += " WRONG"
			}
			s += fmt.Sprintf(" %d", index)
		}
		return s
	}
}

// all follows from a token to the end.
func (x *bundle) all(token string) (items []chatlog.Item, texts []string) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), brokertest.Patience)
	defer cancel()
	for item, err := range x.log.Follow(ctx, x.name, token) {
		if err != nil {
			x.t.Fatal(err)
		}
		items, texts = append(items, item), append(texts, text(item))
	}
	return items, texts
}

type reader struct {
	items chan chatlog.Item
	err   chan error
}

func (x *bundle) read(token string) reader {
	r := reader{make(chan chatlog.Item), make(chan error, 1)}
	ctx := x.t.Context()
	done := make(chan struct{})
	x.t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		var last error
		for item, err := range x.log.Follow(ctx, x.name, token) {
			if err != nil {
				last = err
				break
			}
			select {
			case r.items <- item:
			case <-ctx.Done():
				return
			}
		}
		r.err <- last
		close(r.items)
	}()
	return r
}

func (r reader) expect(t testing.TB, want ...string) (last chatlog.Item) {
	t.Helper()
	for _, w := range want {
		item, ok := <-r.items
		if !ok {
			t.Fatalf("the reader has ended (%v), want %q", <-r.err, w)
		}
		if got := text(item); got != w {
			t.Fatalf("got %q, want %q", got, w)
		}
		last = item
	}
	return last
}

// endsBefore reports whether the reader ends before this item.
func (r reader) endsBefore(last string) bool {
	for item := range r.items {
		if text(item) == last {
			return false
		}
	}
	return true
}

func (r reader) end(t testing.TB) {
	t.Helper()
	if item, ok := <-r.items; ok {
		t.Fatalf("got %q after the end", text(item))
	}
	if err := <-r.err; err != nil {
		t.Fatal(err)
	}
}

func same(t testing.TB, got []string, want ...string) {
	t.Helper()
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got:\n%s\nwant:\n%s", g, w)
	}
}
