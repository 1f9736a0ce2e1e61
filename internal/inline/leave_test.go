package inline_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// scripted is an upstream whose stream the test controls.
type scripted struct {
	*httptest.Server
	blocks       chan string   // blocks to send; closing it ends the stream properly
	disconnected chan struct{} // receives when a client leaves
}

func newScripted(t testing.TB) *scripted {
	t.Helper()
	s := &scripted{blocks: make(chan string), disconnected: make(chan struct{}, 10)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			select {
			case block, ok := <-s.blocks:
				if !ok {
					_, _ = io.WriteString(w, "data: [DONE]\n\n")
					return
				}
				_, _ = fmt.Fprintf(w, "data: %s\n\n", block)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				s.disconnected <- struct{}{}
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func piece(i int) string {
	return fmt.Sprintf(`{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"%d "},"finish_reason":null}]}`, i)
}

const stop = `{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`

const streamed = `"stream":true,`

func TestCallerDisconnects(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"context", "close"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			up := newScripted(t)
			x := setup(t, brokertest.Single(t), up.URL, nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { up.blocks <- piece(0) }()
			s, err := x.runner.Stream(ctx, ask("sandbox-chat-a", streamed), nil)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := s.Next(); err != nil || string(b.Data) != piece(0) {
				t.Fatalf("%s, %v", b.Data, err)
			}
			if how == "context" {
				cancel()
				_, err := s.Next()
				code(t, err, errcode.CallerGone)
			}
			s.Close()
			s.Close()
			<-up.disconnected
			_, err = s.Next()
			code(t, err, errcode.CallerGone)
			_, end := x.history(s.JobID())
			if end.GetStatus() != genbusv1.JobStatus_JOB_STATUS_CANCELLED || end.GetError().GetCode() != string(errcode.CallerGone) {
				t.Errorf("the terminal event is %v, %v", end.GetStatus(), end.GetError())
			}
			x.done(end, "cancelled")
		})
	}
}

func TestChatIsFinishedForSubscribers(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"context", "close"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			up := newScripted(t)
			x := setup(t, brokertest.Single(t), up.URL, func(c *config.Config) { c.Chat.FinishForSubscribers = true })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { up.blocks <- piece(0) }()
			s, err := x.runner.Stream(ctx, ask("sandbox-chat-a", streamed), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Next(); err != nil {
				t.Fatal(err)
			}
			if how == "context" {
				cancel()
				_, err := s.Next()
				code(t, err, errcode.CallerGone)
			}
			s.Close()
			up.blocks <- piece(1)
			up.blocks <- stop
			close(up.blocks)
			got, end := x.history(s.JobID())
			if strings.Join(got, "\n") != piece(0)+"\n"+piece(1)+"\n"+stop {
				t.Errorf("a subscriber saw %q", got)
			}
			if end.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || !strings.Contains(string(end.GetReplyJson()), `"content":"0 1 "`) {
				t.Errorf("the terminal event is %v, %s", end.GetStatus(), end.GetReplyJson())
			}
		})
	}
}

func TestCompleteIsCancelledWithItsCaller(t *testing.T) {
	t.Parallel()
	up := newScripted(t)
	x := setup(t, brokertest.Single(t), up.URL, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		up.blocks <- piece(0)
		cancel()
	}()
	_, err := x.runner.Complete(ctx, ask("sandbox-chat-a", ""))
	f := faultOf(t, err, errcode.CallerGone)
	<-up.disconnected
	_, end := x.history(f.JobID)
	if end.GetStatus() != genbusv1.JobStatus_JOB_STATUS_CANCELLED {
		t.Errorf("the terminal event is %v", end.GetStatus())
	}
}

// TestCancelledByAnother proves that a cancel in the log by any replica ends the chat.
func TestCancelledByAnother(t *testing.T) {
	t.Parallel()
	up := newScripted(t)
	x := setup(t, brokertest.Single(t), up.URL, nil)
	go func() { up.blocks <- piece(0) }()
	s, err := x.runner.Stream(t.Context(), ask("sandbox-chat-a", streamed), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	x.end(s.JobID(), byItsCaller)
	saw, err := read(s)
	code(t, err, errcode.Cancelled)
	<-up.disconnected
	_, end := x.history(s.JobID())
	if len(saw) != 1 || end.GetVersion() != 2 || end.GetError().GetMessage() != "by its caller" {
		t.Errorf("%d blocks; the terminal event is %v", len(saw), end)
	}
	x.done(end, "cancelled")
}

func TestCallsOfARouteAreLimited(t *testing.T) {
	t.Parallel()
	up := newScripted(t)
	x := setup(t, brokertest.Single(t), up.URL, func(c *config.Config) {
		for i := range c.Routes {
			c.Routes[i].MaxInFlight = 1
		}
	})
	go func() { up.blocks <- piece(0) }()
	s, err := x.runner.Stream(t.Context(), ask("sandbox-chat-a", streamed), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = x.runner.Complete(t.Context(), ask("sandbox-chat-a", ""))
	if f := faultOf(t, err, errcode.QueueFull); f.RetryAfter == 0 || f.Status() != 429 {
		t.Errorf("status %d, retry after %v", f.Status(), f.RetryAfter)
	}
	s.Close()
	<-up.disconnected
	go func() { up.blocks <- piece(0) }()
	if s, err = x.runner.Stream(t.Context(), ask("sandbox-chat-a", streamed), nil); err != nil {
		t.Fatalf("after the first has left: %v", err)
	}
	s.Close()
}

func TestCloseCutsOffAndStoresTheEnd(t *testing.T) {
	t.Parallel()
	up := newScripted(t)
	x := setup(t, brokertest.Single(t), up.URL, nil)
	go func() { up.blocks <- piece(0) }()
	s, err := x.runner.Stream(t.Context(), ask("sandbox-chat-a", streamed), nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := read(s)
		s.Close()
		ended <- err
	}()
	ctx, cancel := context.WithCancelCause(t.Context())
	impatient := errors.New("no time left")
	cancel(impatient)
	if err := x.runner.Close(ctx); !errors.Is(err, impatient) {
		t.Errorf("Close gave %v", err)
	}
	code(t, <-ended, errcode.ShuttingDown)
	_, err = x.runner.Complete(t.Context(), ask("sandbox-chat-a", ""))
	code(t, err, errcode.ShuttingDown)
	_, end := x.history(s.JobID())
	if end.GetStatus() != genbusv1.JobStatus_JOB_STATUS_FAILED || end.GetError().GetCode() != string(errcode.ShuttingDown) || end.GetChunkCount() != 1 {
		t.Errorf("the terminal event is %v", end)
	}
}

func TestEventsOff(t *testing.T) {
	t.Parallel()
	x, _ := withSandbox(t, brokertest.Single(t), func(c *config.Config) {
		c.Chat.InlineEvents = config.InlineEventsOff
		c.Chat.FinishForSubscribers = true // there are no subscribers
	})
	s, err := x.runner.Stream(t.Context(), ask("sandbox-chat-fast", streamed), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if blocks, err := read(s); err != io.EOF || len(blocks) < 3 {
		t.Errorf("%d blocks, %v", len(blocks), err)
	}
	reply, err := x.runner.Complete(t.Context(), ask("sandbox-chat-fast", ""))
	if err != nil || len(reply.Raw) == 0 {
		t.Fatal(err)
	}
	for _, name := range []string{x.b.Names().Tasks(), x.b.Names().Chunks()} {
		stream, err := x.b.JetStream().Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if n := stream.CachedInfo().State.LastSeq; n != 0 {
			t.Errorf("%s has %d messages", name, n)
		}
	}
	if n := x.counter("genbus_inline_events_dropped_total"); n != 0 {
		t.Errorf("%v dropped", n)
	}
}

// TestServedWithoutABroker proves that chats are served without delay while the broker is down, and
// that their dropped events are counted.
func TestServedWithoutABroker(t *testing.T) {
	t.Parallel()
	s := brokertest.Alone(t)
	b := brokertest.Open(t, broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: s.ClientURL()})
	x, _ := withSandbox(t, b, nil)
	s.Shutdown()
	s.WaitForShutdown()

	begin := time.Now()
	for range 5 {
		stream, err := x.runner.Stream(t.Context(), ask("sandbox-chat-fast:chunks=100", streamed), nil)
		if err != nil {
			t.Fatal(err)
		}
		if blocks, err := read(stream); err != io.EOF || len(blocks) < 100 {
			t.Errorf("%d blocks, %v", len(blocks), err)
		}
		stream.Close()
		if reply, err := x.runner.Complete(t.Context(), ask("sandbox-chat-fast", "")); err != nil || len(reply.Raw) == 0 {
			t.Errorf("%d bytes, %v", len(reply.Raw), err)
		}
	}
	if took := time.Since(begin); took > 10*time.Second { // a waiting chat would wait at least 2 s
		t.Errorf("10 chats took %v: the events delayed their callers", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.runner.Close(ctx); err == nil {
		t.Error("the events were stored without a broker")
	}
	if n := x.counter("genbus_inline_events_dropped_total"); n != 5*(100+2)+10*2 {
		t.Errorf("%v dropped", n)
	}
	// With an open broker, the test's cleanup would wait for answers.
	_ = b.Close()
}
