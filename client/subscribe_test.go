package client_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/client"
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service/servicetest"
)

// reader collects the jobs of a subscription.
type reader struct {
	mu   sync.Mutex
	ids  []string
	seen chan string
	end  context.CancelFunc
	done chan error
}

// subscribe reads until stop. If set, handle runs before a job counts as seen.
func subscribe(ctx context.Context, c *client.Client, f client.Feed, handle func(client.Finished) error) *reader {
	ctx, cancel := context.WithCancel(ctx)
	r := &reader{seen: make(chan string, 100), end: cancel, done: make(chan error, 1)}
	go func() {
		r.done <- c.Subscribe(ctx, f, func(_ context.Context, job client.Finished) error {
			if handle != nil {
				if err := handle(job); err != nil {
					return err
				}
			}
			r.mu.Lock()
			r.ids = append(r.ids, job.ID)
			r.mu.Unlock()
			r.seen <- job.ID
			return nil
		})
	}()
	return r
}

// next returns the next job.
func (r *reader) next(ctx context.Context, t *testing.T) string {
	t.Helper()
	select {
	case id := <-r.seen:
		return id
	case err := <-r.done:
		t.Fatalf("the subscription has ended: %v", err)
	case <-ctx.Done():
		t.Fatal("nothing came")
	}
	return ""
}

// stop ends the subscription and returns every job seen.
func (r *reader) stop(t *testing.T) []string {
	t.Helper()
	r.end()
	if err := <-r.done; err != nil {
		t.Fatal(err)
	}
	return r.ids
}

// finish submits a video and waits until it has ended.
func finish(ctx context.Context, t *testing.T, c *client.Client, model string) string {
	t.Helper()
	task, err := c.SubmitVideo(ctx, video(model, ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.WaitVideo(ctx, task.GetId()); err != nil && !errors.Is(err, client.ErrUpstreamFailed) {
		t.Fatal(err)
	}
	return task.GetId()
}

func TestSubscriptions(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, servicetest.Options{Sandbox: sandbox.Options{VideoDuration: 50 * time.Millisecond, ChunkInterval: time.Millisecond}})
	c, ctx := connect(t, s.NATSURL(), client.Options{Tenant: "acme"}), within(t, time.Minute)
	others := connect(t, s.NATSURL(), client.Options{Tenant: "globex"})
	const good, bad = "sandbox-video", "sandbox-video:fail=no"
	first, failed, foreign := finish(ctx, t, c, good), finish(ctx, t, c, bad), finish(ctx, t, others, good)

	t.Run("every end of a tenant", func(t *testing.T) {
		r := subscribe(ctx, c, client.Feed{}, nil)
		r.next(ctx, t)
		r.next(ctx, t)
		got, want := r.stop(t), []string{first, failed} // jobs reach the feed some time after they end
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("read %v, want %v", got, want)
		}
	})
	t.Run("one status of all tenants", func(t *testing.T) {
		r := subscribe(ctx, c, client.Feed{Tenant: client.AllTenants, Kind: client.Video, Status: genbusv1.JobStatus_JOB_STATUS_COMPLETED, Parallel: 4}, nil)
		r.next(ctx, t)
		r.next(ctx, t)
		got := r.stop(t)
		slices.Sort(got)
		want := []string{first, foreign}
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("read %v, want %v", got, want)
		}
	})
	t.Run("a place that is kept", func(t *testing.T) {
		feed := client.Feed{Durable: "billing", Status: genbusv1.JobStatus_JOB_STATUS_COMPLETED}
		r := subscribe(ctx, c, feed, nil)
		r.next(ctx, t)
		r.stop(t)
		second := finish(ctx, t, c, good)
		feed.From = client.FromNow() // ignored, because the reader has a position
		r = subscribe(ctx, c, feed, nil)
		if got := r.next(ctx, t); got != second {
			t.Errorf("it goes on with %s, want %s", got, second)
		}
		r.stop(t)
	})
	t.Run("from a time", func(t *testing.T) {
		from := time.Now()
		last := finish(ctx, t, c, bad)
		r := subscribe(ctx, c, client.Feed{From: client.FromTime(from)}, func(f client.Finished) error {
			if !errors.Is(f.Err(), client.ErrUpstreamFailed) || f.Video.GetTask().GetId() != f.ID || f.EventID == "" || f.Tenant != "acme" || f.Kind != client.Video {
				t.Errorf("the job is %+v", f)
			}
			return nil
		})
		if got := r.next(ctx, t); got != last {
			t.Errorf("it begins with %s, want %s", got, last)
		}
		r.stop(t)
	})
	t.Run("a handler that fails", func(t *testing.T) {
		var deliveries []uint64
		r := subscribe(ctx, c, client.Feed{Status: genbusv1.JobStatus_JOB_STATUS_FAILED}, func(f client.Finished) error {
			deliveries = append(deliveries, f.Delivery)
			if f.ID == failed && f.Delivery == 1 {
				return errors.New("not now")
			}
			return nil
		})
		for id := ""; id != failed; {
			id = r.next(ctx, t)
		}
		r.stop(t)
		if !slices.Contains(deliveries, 2) {
			t.Errorf("the deliveries were %v", deliveries)
		}
	})
	t.Run("no feed", func(t *testing.T) {
		for _, f := range []client.Feed{
			{Tenant: "a.b"}, {Kind: "audio"}, {Durable: "a b"}, {Status: genbusv1.JobStatus_JOB_STATUS_QUEUED},
		} {
			if err := c.Subscribe(ctx, f, nil); err == nil {
				t.Errorf("%+v passes", f)
			}
		}
	})
	t.Run("nothing stays of those without a name", func(t *testing.T) {
		for _, name := range consumers(ctx, t, s.NATSURL()) {
			if len(name) > 7 && name[:7] == "reader-" {
				t.Errorf("the consumer %s is still there", name)
			}
		}
	})
}

// consumers returns the names of the log's consumers.
func consumers(ctx context.Context, t *testing.T, url string) (names []string) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(ctx, "GENBUS_TASKS")
	if err != nil {
		t.Fatal(err)
	}
	list := stream.ConsumerNames(ctx)
	for name := range list.Name() {
		names = append(names, name)
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

// TestSubscriptionOutlivesRestarts checks that a subscription survives a NATS restart and the loss
// of its consumer.
func TestSubscriptionOutlivesRestarts(t *testing.T) {
	brokertest.Full(t, "restarts NATS")
	t.Parallel()
	w := newRestarts(t)
	c, ctx := connect(t, w.url, client.Options{}), within(t, 2*time.Minute)
	r := subscribe(ctx, c, client.Feed{Durable: "lasting"}, nil)
	const model = "sandbox-video:duration_ms=50"
	first := finish(ctx, t, c, model)
	r.next(ctx, t)
	w.stopNATS()
	w.startNATS()
	second := finish(ctx, t, c, model)
	if got := r.next(ctx, t); got != second {
		t.Errorf("after the restart came %s, want %s", got, second)
	}
	w.deleteConsumer(ctx, "lasting")
	third := finish(ctx, t, c, model)
	if got := r.next(ctx, t); got != third {
		t.Errorf("after the loss came %s, want %s", got, third)
	}
	if got := r.stop(t); !slices.Equal(got, []string{first, second, third}) {
		t.Errorf("read %v", got)
	}
}

// TestNothingIsMissedWhereTheConsumerIsLost checks that losing the consumer skips no job, even for
// a reader that started with FromNow and has not received a job.
func TestNothingIsMissedWhereTheConsumerIsLost(t *testing.T) {
	t.Parallel()
	w := newRestarts(t)
	c, ctx := connect(t, w.url, client.Options{}), within(t, 2*time.Minute)
	const model = "sandbox-video:duration_ms=50"
	before := finish(ctx, t, c, model)
	// A job may be seen as ended before it is in the feed.
	feed := subscribe(ctx, c, client.Feed{}, nil)
	if got := feed.next(ctx, t); got != before {
		t.Errorf("the feed begins with %s, want %s", got, before)
	}
	feed.stop(t)
	r := subscribe(ctx, c, client.Feed{Durable: "late", From: client.FromNow()}, nil)
	for !slices.Contains(consumers(ctx, t, w.url), "late") {
		if ctx.Err() != nil {
			t.Fatal("the consumer is not made")
		}
	}
	w.deleteConsumer(ctx, "late")
	missed := finish(ctx, t, c, model)
	if got := r.next(ctx, t); got != missed {
		t.Errorf("read %s, want %s", got, missed)
	}
	if got := r.stop(t); len(got) != 1 {
		t.Errorf("read %v", got)
	}
}

// TestSubscriptionEndsWithItsConnection checks that Subscribe returns nats.ErrConnectionClosed once
// the connection is closed.
func TestSubscriptionEndsWithItsConnection(t *testing.T) {
	brokertest.Full(t, "waits ten seconds for a lost connection")
	t.Parallel()
	s := servicetest.New(t, servicetest.Options{})
	nc, err := nats.Connect(s.NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c, err := client.New(nc, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t, time.Minute)
	r := subscribe(ctx, c, client.Feed{}, nil)
	for there := 0; there < 2 && ctx.Err() == nil; { // the service has one consumer
		there = len(consumers(ctx, t, s.NATSURL()))
	}
	nc.Close()
	select {
	case err := <-r.done:
		if !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("it ended with %v", err)
		}
	case <-ctx.Done():
		t.Error("it goes on")
	}
	r.end()
}

func (w *restarts) deleteConsumer(ctx context.Context, name string) {
	w.t.Helper()
	nc, err := nats.Connect(w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err == nil {
		err = js.DeleteConsumer(ctx, "GENBUS_TASKS", name)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
