package chat

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/genbus/genbus/internal/upstream"
)

func TestTimeouts(t *testing.T) {
	t.Parallel()
	hang := func(parts ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			for _, p := range parts {
				_, _ = io.WriteString(w, p)
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		}
	}
	const short = 60 * time.Millisecond
	for name, tc := range map[string]struct {
		opts    Options
		handler http.HandlerFunc
		code    string
		text    string
		status  int
		scope   upstream.Scope
		blocks  int
	}{
		"no headers":              {Options{FirstByte: short}, hang(), CodeFirstByteTimeout, "no first byte from upstream test within 60ms", 0, aboutUpstream, 0},
		"headers, no byte":        {Options{FirstByte: short}, hang(""), CodeFirstByteTimeout, "no first byte from upstream test within 60ms", 200, aboutUpstream, 0},
		"idle":                    {Options{Idle: short}, hang(data(textChunk)), CodeIdleTimeout, "no more data from upstream test for 60ms", 200, aboutUpstream, 1},
		"idle before the block":   {Options{Idle: short}, hang(": hi\n\n"), CodeIdleTimeout, "no more data from upstream test for 60ms", 200, aboutUpstream, 0},
		"total":                   {Options{Total: short}, hang(data(textChunk)), CodeTotalTimeout, "the answer of upstream test did not finish within 60ms", 200, aboutRequest, 1},
		"total before the header": {Options{Total: short}, hang(), CodeTotalTimeout, "the answer of upstream test did not finish within 60ms", 0, aboutRequest, 0},
		"idle in a JSON answer":   {Options{Idle: short}, hang(`{"choices":`), CodeIdleTimeout, "no more data from upstream test for 60ms", 200, aboutUpstream, 0},
		"idle after the reason":   {Options{Idle: short}, hang(data(finishChunk)), "", "", 0, aboutRequest, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				blocks, _, err := streamAll(t, serveInBubble(t, tc.opts, tc.handler))
				if len(blocks) != tc.blocks {
					t.Errorf("%d blocks, want %d", len(blocks), tc.blocks)
				}
				if tc.code == "" {
					checkError(t, nil, err)
					return
				}
				checkError(t, &upstream.Error{Op: "chat", Code: tc.code, Message: tc.text, HTTPStatus: tc.status, Written: true, Scope: tc.scope}, err)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error("not a DeadlineExceeded")
				}
			})
		})
	}
}

// TestACompleteReplyIsNotWaitedForLong checks that a stream ends soon after its finish_reason,
// however long the model may think, and not before that.
func TestACompleteReplyIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const thinks = 9 * time.Minute
		c := serveInBubble(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			for _, block := range []string{textChunk, finishChunk} {
				time.Sleep(thinks) //nolint:forbidigo // fake time
				_, _ = io.WriteString(w, data(block))
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		})
		begin := time.Now()
		blocks, _, err := streamAll(t, c)
		if !errors.Is(err, io.EOF) || len(blocks) != 2 {
			t.Errorf("%d blocks, %v", len(blocks), err)
		}
		if took := time.Since(begin); took != 2*thinks+trailer {
			t.Errorf("took %v", took)
		}
	})
}

// TestIdleCountsOnlyTheUpstream checks that the caller's pauses do not count as idle, and that
// every byte resets the limit.
func TestIdleCountsOnlyTheUpstream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		w := newWatch("test", limits{first: 10 * time.Second, idle: 2 * time.Second, total: time.Hour}, cancel)
		defer w.stop()
		read := func(takes time.Duration, arrived bool) {
			w.before()
			time.Sleep(takes) //nolint:forbidigo // fake time
			w.after(arrived)
		}
		read(9*time.Second, true)
		for range 5 {
			time.Sleep(5 * time.Second) //nolint:forbidigo // fake time: the caller is busy
			read(1900*time.Millisecond, true)
		}
		synctest.Wait()
		if ctx.Err() != nil {
			t.Fatal(context.Cause(ctx))
		}
		started := time.Now()
		read(3*time.Second, false)
		synctest.Wait()
		if late, ok := errors.AsType[*timeoutError](context.Cause(ctx)); !ok || late.code != CodeIdleTimeout {
			t.Fatalf("cause %v after %v", context.Cause(ctx), time.Since(started))
		}
	})
}

// TestWatchIsPunctual checks that a limit is enforced exactly when it expires.
func TestWatchIsPunctual(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		limit limits
		waits []time.Duration // successful reads, each followed by a pause of 1 s
		after time.Duration   // from the start of the last read, which never ends
		code  string
	}{
		"first":             {limits{10 * time.Second, 2 * time.Second, time.Hour}, nil, 10 * time.Second, CodeFirstByteTimeout},
		"idle at once":      {limits{100 * time.Second, 2 * time.Second, time.Hour}, []time.Duration{1}, 2 * time.Second, CodeIdleTimeout},
		"idle later":        {limits{10 * time.Second, 3 * time.Second, time.Hour}, []time.Duration{1, 2 * time.Second, 1, 2900 * time.Millisecond}, 3 * time.Second, CodeIdleTimeout},
		"total before idle": {limits{10 * time.Second, 5 * time.Second, 7 * time.Second}, []time.Duration{4 * time.Second}, 2 * time.Second, CodeTotalTimeout},
		"total of first":    {limits{10 * time.Second, 5 * time.Second, 7 * time.Second}, nil, 7 * time.Second, CodeTotalTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				w := newWatch("test", tc.limit, cancel)
				defer w.stop()
				for _, takes := range tc.waits {
					w.before()
					time.Sleep(takes) //nolint:forbidigo // fake time
					w.after(true)
					time.Sleep(time.Second) //nolint:forbidigo // fake time
				}
				w.before()
				started := time.Now()
				<-ctx.Done()
				late, ok := errors.AsType[*timeoutError](context.Cause(ctx))
				if took := time.Since(started); !ok || late.code != tc.code || took != tc.after {
					t.Errorf("%v after %v, want %s after %v", context.Cause(ctx), took, tc.code, tc.after)
				}
			})
		})
	}
}

func TestCancellationKeepsItsCause(t *testing.T) {
	t.Parallel()
	stopping := errors.New("shutting down")
	for name, first := range map[string]string{"before the headers": "", "within the stream": data(textChunk)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arrived := make(chan struct{})
			c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if first != "" {
					_, _ = io.WriteString(w, first)
					_ = http.NewResponseController(w).Flush()
				}
				close(arrived)
				<-r.Context().Done()
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			go func() {
				<-arrived
				if first == "" {
					cancel(stopping)
				}
			}()
			s, err := c.Stream(ctx, Request{Body: []byte(testBody)})
			if err == nil {
				defer s.Close()
				_, _ = s.Next()
				cancel(stopping)
				_, err = s.Next()
			}
			e, ok := errors.AsType[*upstream.Error](err)
			if !ok || e.Code != CodeCancelled || !errors.Is(err, stopping) || !e.Written || e.Reported || e.Final || e.Scope != aboutRequest || e.Message != "the call was abandoned: shutting down" {
				t.Errorf("error %#v", err)
			}
		})
	}
}
