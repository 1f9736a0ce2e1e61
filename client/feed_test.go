package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/genbus/genbus/client"
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service/servicetest"
)

// bareLog is a NATS server with the stream of the log but no genbus.
type bareLog struct {
	t   *testing.T
	ctx context.Context
	url string
	js  jetstream.JetStream
}

func newBareLog(t *testing.T) *bareLog {
	t.Helper()
	server := startNATS(t, t.TempDir(), -1)
	t.Cleanup(func() { stopNATS(server) })
	nc, err := nats.Connect(server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	b := &bareLog{t: t, ctx: within(t, time.Minute), url: server.ClientURL()}
	if b.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	b.stream(jetstream.StreamConfig{Name: "GENBUS_TASKS", Subjects: []string{"genbus.task.>", "genbus.done.>"}})
	return b
}

func (b *bareLog) stream(cfg jetstream.StreamConfig) {
	b.t.Helper()
	if _, err := b.js.CreateStream(b.ctx, cfg); err != nil {
		b.t.Fatal(err)
	}
}

// ended publishes a completed video to the feed.
func (b *bareLog) ended(tenant, id string) {
	b.t.Helper()
	data, err := proto.Marshal(&genbusv1.VideoTaskEvent{Version: 2, Task: &genbusv1.VideoTask{
		Id: id, Tenant: tenant, Status: genbusv1.JobStatus_JOB_STATUS_COMPLETED,
	}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.put(tenant, id, nats.Header{"ce-id": {id + "/2"}}, data)
}

func (b *bareLog) put(tenant, id string, header nats.Header, data []byte) {
	b.t.Helper()
	m := &nats.Msg{Subject: "genbus.done.video." + tenant + ".completed." + id, Header: header, Data: data}
	if _, err := b.js.PublishMsgAsync(m); err != nil {
		b.t.Fatal(err)
	}
}

// jobID returns a well-formed ID.
func jobID(n int) string {
	letters := fmt.Sprintf("%026d", n)
	return "video_" + strings.Map(func(r rune) rune { return 'a' + r - '0' }, letters)
}

// TestOneNameIsOneFeed checks that Subscribe refuses a durable name that belongs to another feed,
// which keeps its jobs.
func TestOneNameIsOneFeed(t *testing.T) {
	t.Parallel()
	b := newBareLog(t)
	a, other := connect(t, b.url, client.Options{Tenant: "a"}), connect(t, b.url, client.Options{Tenant: "b"})
	r := subscribe(b.ctx, a, client.Feed{Durable: "done"}, nil)
	b.ended("a", jobID(1))
	r.next(b.ctx, t)
	err := other.Subscribe(b.ctx, client.Feed{Durable: "done"}, func(context.Context, client.Finished) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "done.*.b") && !strings.Contains(err.Error(), "done.video.b") || !strings.Contains(err.Error(), "Feed.Durable") {
		t.Errorf("the second one: %v", err)
	}
	b.ended("b", jobID(2))
	b.ended("a", jobID(3))
	if got := r.next(b.ctx, t); got != jobID(3) {
		t.Errorf("the first one has %s", got)
	}
	r.stop(t)
}

// TestFailingJobsDoNotStopTheFeed checks that the feed continues past any number of failing jobs.
func TestFailingJobsDoNotStopTheFeed(t *testing.T) {
	t.Parallel()
	b := newBareLog(t)
	const failing = 1100 // above the default MaxAckPending of NATS consumers
	for i := range failing + 1 {
		b.ended("default", jobID(i))
	}
	r := subscribe(b.ctx, connect(t, b.url, client.Options{}), client.Feed{Parallel: 8}, func(f client.Finished) error {
		if f.ID != jobID(failing) {
			return errors.New("the database is away")
		}
		return nil
	})
	if got := r.next(b.ctx, t); got != jobID(failing) {
		t.Errorf("read %s", got)
	}
	r.stop(t)
}

// TestAHandlerGivesUp checks that a job that its handler gave up is not delivered again, and that the
// next one is.
func TestAHandlerGivesUp(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, servicetest.Options{Sandbox: sandbox.Options{VideoDuration: 10 * time.Millisecond}})
	c, ctx := connect(t, s.NATSURL(), client.Options{}), within(t, brokertest.Patience)
	bad := finish(ctx, t, c, "sandbox-video")
	feed := client.Feed{Durable: "gives-up", Kind: client.Video}
	var calls atomic.Int64
	r := subscribe(ctx, c, feed, func(job client.Finished) error {
		if job.ID == bad {
			calls.Add(1)
			return fmt.Errorf("store: %w", client.GiveUp(errors.New("the order is gone")))
		}
		return nil
	})
	good := finish(ctx, t, c, "sandbox-video")
	if id := r.next(ctx, t); id != good {
		t.Errorf("%s, want %s", id, good)
	}
	r.stop(t)
	js, err := jetstream.New(connection(t, s.NATSURL()))
	if err != nil {
		t.Fatal(err)
	}
	for { // the acks are on their way
		consumer, err := js.Consumer(ctx, "GENBUS_TASKS", feed.Durable)
		if err != nil {
			t.Fatal(err)
		}
		if info := consumer.CachedInfo(); info.NumAckPending == 0 && info.NumPending == 0 {
			break
		}
	}
	if calls.Load() != 1 {
		t.Errorf("the handler was called %d times", calls.Load())
	}
}

// TestStrangeMessagesAreNoJobs checks that malformed messages in the feed reach no handler.
func TestStrangeMessagesAreNoJobs(t *testing.T) {
	t.Parallel()
	b := newBareLog(t)
	running, err := proto.Marshal(&genbusv1.VideoTaskEvent{Version: 2, Task: &genbusv1.VideoTask{Id: jobID(2), Status: genbusv1.JobStatus_JOB_STATUS_QUEUED}})
	if err != nil {
		t.Fatal(err)
	}
	id := nats.Header{"ce-id": {"x"}}
	b.put("default", jobID(1), id, nil)
	b.put("default", jobID(2), id, running)
	b.put("default", jobID(3), id, running) // of another job
	b.put("default", jobID(4), nats.Header{"ce-id": {"x"}, "ce-datacontenttype": {"application/json"}}, []byte(`{}`))
	b.ended("default", jobID(5))
	r := subscribe(b.ctx, connect(t, b.url, client.Options{}), client.Feed{}, nil)
	if got := r.next(b.ctx, t); got != jobID(5) {
		t.Errorf("%s was handled", got)
	}
	r.stop(t)
}

// TestChatIsFollowedWithoutItsChunks checks that a missing chunk stream does not end FollowChat:
// genbus recreates it.
func TestChatIsFollowedWithoutItsChunks(t *testing.T) {
	t.Parallel()
	b := newBareLog(t)
	c := connect(t, b.url, client.Options{})
	ctx, cancel := context.WithCancelCause(b.ctx)
	enough, looks := errors.New("enough"), 0
	_, err := b.js.Conn().Subscribe("$JS.API.STREAM.MSG.GET.GENBUS_CHUNKS", func(*nats.Msg) {
		if looks++; looks == 2 { // FollowChat continued after the first failure
			cancel(enough)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range c.FollowChat(ctx, c.JobID(client.Chat, "x")) {
		if !errors.Is(err, enough) {
			t.Errorf("it ended with %v", err)
		}
	}
}

// TestFollowingFromAVersionEnds checks that resuming fails for an erased task and without the
// stream.
func TestFollowingFromAVersionEnds(t *testing.T) {
	t.Parallel()
	b := newBareLog(t)
	c := connect(t, b.url, client.Options{})
	follow := func() error {
		for e, err := range c.FollowVideo(b.ctx, jobID(1), 3) {
			if err != nil {
				return err
			}
			t.Errorf("there is %v", e)
		}
		return nil
	}
	if err := follow(); !errors.Is(err, client.ErrTaskNotFound) {
		t.Errorf("erased: %v", err)
	}
	if err := b.js.DeleteStream(b.ctx, "GENBUS_TASKS"); err != nil {
		t.Fatal(err)
	}
	if err := follow(); !errors.Is(err, client.ErrBrokerUnavailable) {
		t.Errorf("no stream: %v", err)
	}
}
