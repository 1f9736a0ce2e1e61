package core_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/errcode"
)

// metricOf returns the value of the series of a kind and an ingress, or 0 if it does not exist.
func metricOf(w *world, name, kind, ingress string) float64 {
	w.T.Helper()
	families, err := w.Metrics.Gatherer().Gather()
	if err != nil {
		w.T.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if family.GetName() == name && labels["kind"] == kind && labels["ingress"] == ingress {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// TestReadersAreCounted checks that readers are counted by ingress while they follow a job.
func TestReadersAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := w.Dial()
	video, chat := w.CreateVideo(), w.SubmitChat("read")
	sse := func(method, path, body string, headers ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			res, err := w.Client.Do(w.Request(method, path, body, headers...).WithContext(ctx))
			if err == nil {
				t.Cleanup(func() { _ = res.Body.Close() })
			}
			return err
		}
	}
	for name, c := range map[string]struct {
		kind, ingress string
		open          func(context.Context) error // ends the reading when ctx ends
	}{
		"video, HTTP": {"video", "http", sse(http.MethodGet, "/genbus/v1/videos/"+video+"/events", "")},
		"chat, HTTP":  {"chat", "http", sse(http.MethodGet, "/genbus/v1/chats/"+chat+"/events", "")},
		"video, gRPC": {"video", "grpc", func(ctx context.Context) error {
			_, err := genbusv1grpc.NewVideoServiceClient(conn).WatchVideoTask(ctx, &genbusv1.WatchVideoTaskRequest{Id: video})
			return err
		}},
		"chat, gRPC": {"chat", "grpc", func(ctx context.Context) error {
			_, err := genbusv1grpc.NewChatServiceClient(conn).WatchChatCompletion(ctx, &genbusv1.WatchChatCompletionRequest{Id: chat})
			return err
		}},
		"queued stream": {"chat", "http", func(ctx context.Context) error {
			go func() {
				_ = sse(http.MethodPost, "/v1/chat/completions", apitest.StreamBody, "Idempotency-Key", "streamed")(ctx)
			}()
			return nil
		}},
		"queued, whole": {"chat", "http", func(ctx context.Context) error {
			go func() {
				_ = sse(http.MethodPost, "/v1/chat/completions", apitest.ChatBody, "Idempotency-Key", "whole")(ctx)
			}()
			return nil
		}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if err := c.open(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		w.Await(name+": the reader is counted", func() bool { return metricOf(w, "genbus_readers_open", c.kind, c.ingress) == 1 })
		cancel()
		w.Await(name+": the reader is gone", func() bool { return metricOf(w, "genbus_readers_open", c.kind, c.ingress) == 0 })
		if cut := metricOf(w, "genbus_slow_readers_cut_total", c.kind, c.ingress); cut != 0 {
			t.Errorf("%s: a reader that went away was counted as slow: %v", name, cut)
		}
	}
}

// fill stores chunks of a chat until stop, more than all buffers hold.
func fill(w *world, id string, stop func() bool) {
	w.T.Helper()
	e := w.StartChat("default", id)
	block := apitest.Block(strings.Repeat("x", 100<<10))
	for i := uint64(0); !stop(); i++ {
		if i == 500 {
			w.Await("50 MB of chunks cut the reader off", stop)
			return
		}
		w.Chunk(e, i, block)
	}
}

// TestSlowReadersAreCounted checks the count of readers that were cut off by their buffer or by a
// slow write.
func TestSlowReadersAreCounted(t *testing.T) {
	t.Parallel()
	const short = 200 * time.Millisecond
	watch := func(t *testing.T, w *world, id string) grpc.ServerStreamingClient[genbusv1.WatchChatCompletionResponse] {
		t.Helper()
		s := apitest.Must[grpc.ServerStreamingClient[genbusv1.WatchChatCompletionResponse]](t)(
			genbusv1grpc.NewChatServiceClient(w.Dial()).WatchChatCompletion(t.Context(), &genbusv1.WatchChatCompletionRequest{Id: id}))
		if _, err := s.Recv(); err != nil && w.Core.WriteTimeout != short { // a stalled machine cuts it off earlier
			t.Fatal(err)
		}
		return s
	}
	cut := func(w *world, ingress string) func() bool {
		return func() bool { return metricOf(w, "genbus_slow_readers_cut_total", "chat", ingress) == 1 }
	}
	t.Run("gRPC, its buffer is full", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		id := w.SubmitChat("slow")
		s, stored := watch(t, w, id), 0
		fill(w, id, func() bool { stored++; return stored == 40 })
		var err error
		for err == nil {
			_, err = s.Recv()
		}
		apitest.CheckStatus(t, err, codes.ResourceExhausted, errcode.SlowReader)
		w.Await("the cut is counted", cut(w, "grpc"))
	})
	t.Run("gRPC, a message is not read", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.Core.WriteTimeout = short
		id := w.SubmitChat("slow")
		watch(t, w, id)
		fill(w, id, cut(w, "grpc"))
	})
	t.Run("HTTP, a write takes too long", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.Core.WriteTimeout = short
		id := w.SubmitChat("slow")
		if res, err := w.Client.Do(w.Request(http.MethodGet, "/genbus/v1/chats/"+id+"/events", "")); err == nil { // see watch
			defer res.Body.Close()
		}
		fill(w, id, cut(w, "http"))
	})
}
