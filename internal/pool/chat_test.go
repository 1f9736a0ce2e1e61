package pool_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/chat"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

// failures lists answers to a chat, and whether inline and queued chats fail over after them.
var failures = map[string]struct {
	answer         http.HandlerFunc
	inline, queued bool
}{
	"bad key":               {refuse(401, "invalid_api_key"), true, true},
	"no money":              {refuse(402, ""), true, true},
	"not allowed":           {refuse(403, ""), true, true},
	"quota as 429":          {refuse(429, "insufficient_quota"), true, true},
	"slow down":             {refuse(429, "rate_limit_exceeded"), true, true},
	"no such model":         {refuse(404, "model_not_found"), true, true},
	"no such path":          {answer(404, "<html>not found</html>"), true, true},
	"no such method":        {answer(405, ""), true, true},
	"a key Google refuses":  {answer(400, googleKey), true, true},
	"no such model as 503":  {refuse(503, "model_not_found"), true, true},
	"no such model as 200":  {refuse(200, "model_not_found"), true, true},
	"overloaded":            {refuse(503, ""), true, true},
	"overloaded elsewhere":  {refuse(529, "overloaded_error"), true, true},
	"not reached":           {nil, true, true},
	"error":                 {refuse(500, "server_error"), true, false},
	"proxy":                 {answer(502, "<html>bad gateway</html>"), true, false},
	"unavailable, not said": {answer(503, "<html>try later</html>"), true, false},
	"too slow":              {refuse(408, ""), false, false},
	"too slow for a proxy":  {answer(504, "<html>gateway time-out</html>"), false, false},
	"too slow within 200":   {answer(200, `{"error":{"message":"no","code":504}}`), false, false},
	"cut off":               {cut, true, false},
	"unreadable":            {answer(200, "well"), true, false},
	"no choice":             {answer(200, `{"id":"1","choices":[]}`), true, false},
	"choices of null":       {answer(200, `{"id":"1","choices":null}`), true, false},
	"error of a choice":     {answer(200, `{"id":"1","choices":[{"index":0,"error":{"message":"no","code":502}}]}`), true, false},
	"balance within 200":    {answer(200, `{"id":"1","choices":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`), true, true},
	"sensitive within 200":  {answer(200, `{"id":"1","choices":null,"base_resp":{"status_code":1026,"status_msg":"input new_sensitive"}}`), false, false},
	"stream of a usage":     {events(`{"id":"1","choices":[],"usage":{"total_tokens":1}}`, "[DONE]"), true, false},
	"stream of nothing":     {events("[DONE]"), true, false},
	"stream of pings":       {events("ping", "null"), true, false},
	"error within 200":      {answer(200, `{"error":{"message":"no","code":"server_error"}}`), true, false},
	"bad request":           {refuse(400, "invalid_request_error"), false, false},
	"too long":              {refuse(400, "context_length_exceeded"), false, false},
	"too large":             {refuse(413, ""), false, false},
	"in hand already":       {refuse(409, ""), false, false},
	"not to be said":        {refuse(400, "content_filter"), false, false},
	"bad request as 500":    {refuse(500, "invalid_request_error"), false, false},
}

// runs contains both ways to run a chat.
var runs = map[string]func(context.Context, *fleet, pool.ChatRequest) (pool.UpstreamKey, error){
	"complete": func(ctx context.Context, f *fleet, r pool.ChatRequest) (pool.UpstreamKey, error) {
		reply, err := f.chat.Complete(ctx, r)
		return reply.UpstreamKey, err
	},
	"stream": func(ctx context.Context, f *fleet, r pool.ChatRequest) (pool.UpstreamKey, error) {
		s, err := f.chat.Stream(ctx, r)
		if err != nil {
			return pool.UpstreamKey{}, err
		}
		defer s.Close()
		_, err = collect(s)
		return s.UpstreamKey(), err
	},
}

func TestChatsMoveOn(t *testing.T) {
	t.Parallel()
	for way, run := range runs {
		for name, row := range failures {
			for kind, queued := range map[string]bool{"inline": false, "queued": true} {
				t.Run(way+"/"+name+"/"+kind, func(t *testing.T) {
					t.Parallel()
					f := newFleet(t, byKey{"a": row.answer, "b": replies}, nil, nil)
					key, err := run(t.Context(), f, request(queued))
					if want := queued && row.queued || !queued && row.inline; want {
						if err != nil || key.Upstream != "b" {
							t.Errorf("answered by %v (%v), want b", key, err)
						}
						expectMetrics(t, f.metrics, `upstream_failovers_total{upstream="a"} 1`, answeredByB)
						return
					}
					if _, ok := errors.AsType[*upstream.Error](err); !ok {
						t.Errorf("answered by %v (%v), want a's error", key, err)
					}
					expect(t, f.called(), "a")
				})
			}
		}
	}
}

// googleKey is Google's answer to a wrong key.
const googleKey = `[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]`

// TestARefusedKeyIsSetAside proves that a key is used once if the upstream refuses it, in whatever
// words and with whatever status.
func TestARefusedKeyIsSetAside(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]http.HandlerFunc{
		"401":              refuse(401, ""),
		"Google":           answer(400, googleKey),
		"Google, wrapped":  answer(400, `{"error":{"code":400,"status":"Bad Request","message":"{\"error\":{\"code\":400,\"details\":[{\"reason\":\"API_KEY_INVALID\"}]}}"}}`),
		"xAI":              answer(400, `{"code":"x","error":"Incorrect API key provided: a***b."}`),
		"DeepSeek":         answer(402, `{"error":{"message":"Insufficient Balance","code":"invalid_request_error"}}`),
		"MiniMax":          answer(500, `{"error":{"type":"api_error","message":"insufficient balance (1008)"}}`),
		"an error in 200":  answer(200, `{"error":{"code":"insufficient_quota","message":"x"}}`),
		"Google, a stream": answer(400, "data: "+googleKey+"\n\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, byKey{"a/1": refusal, "a/2": replies}, nil, nil)
			for range 4 {
				if _, err := f.chat.Complete(t.Context(), request(false)); err != nil {
					t.Fatal(err)
				}
			}
			expect(t, f.called(), "a/1", "a/2", "a/2", "a/2", "a/2")
		})
	}
}

// TestAnUnknownPathIsNotBadHealth proves that answers without an error for an unknown path open no
// breaker, and that chats go to another upstream meanwhile.
func TestAnUnknownPathIsNotBadHealth(t *testing.T) {
	t.Parallel()
	for name, unrouted := range map[string]http.HandlerFunc{
		"text": answer(404, "404 page not found"), "page": answer(404, "<html>"), "nothing": answer(404, ""), "method": answer(405, "<html>"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, byKey{"a": unrouted, "b": replies}, func(u *config.Upstream) { u.Breaker.Failures = 2 }, nil)
			for range 5 {
				if _, err := f.chat.Complete(t.Context(), request(false)); err != nil {
					t.Fatal(err)
				}
			}
			expect(t, f.called(), "a", "b", "a", "b", "a", "b", "a", "b", "a", "b")
			if s := f.pool.State()[0]; s.Breaker != pool.BreakerClosed || s.Failed != 0 || s.LastError == "" {
				t.Errorf("the upstream's state is %+v", s)
			}
		})
	}
}

// TestTimeoutsAreRepeatedIfTheRouteSaysSo proves that with retry_timeouts an inline chat moves on
// from an upstream that was too slow, although both may charge for it. A queued chat never does so
// within an attempt.
func TestTimeoutsAreRepeatedIfTheRouteSaysSo(t *testing.T) {
	t.Parallel()
	for way, run := range runs {
		for name, row := range failures {
			if !strings.HasPrefix(name, "too slow") {
				continue
			}
			t.Run(way+"/"+name, func(t *testing.T) {
				t.Parallel()
				f := newFleet(t, byKey{"a": row.answer, "b": replies}, nil, func(r *config.Route) { r.RetryTimeouts = true })
				if key, err := run(t.Context(), f, request(false)); err != nil || key.Upstream != "b" {
					t.Errorf("inline: answered by %v (%v), want b", key, err)
				}
				_, err := run(t.Context(), f, request(true))
				if e, ok := errors.AsType[*upstream.Error](err); !ok || !chat.TimedOut(e) {
					t.Errorf("queued: %v, want a timeout", err)
				}
				expect(t, f.called(), "a", "b", "a")
			})
		}
	}
}

const answeredByB = `upstream_requests_total{op="chat",status="2xx",upstream="b",verdict="answered"} 1`

func TestChatsMoveAlongKeysAndUpstreams(t *testing.T) {
	t.Parallel()
	f := newFleet(t, byKey{
		"a/1": refuse(401, ""), "a/2": refuse(500, ""), "b/1": cut, "b/2": replies, "c": replies,
	}, nil, nil)
	r, err := f.chat.Complete(t.Context(), request(false))
	if err != nil || string(r.Raw) != reply || r.UpstreamKey != (pool.UpstreamKey{Upstream: "b", Key: "2"}) {
		t.Fatalf("got %s of %v (%v)", r.Raw, r.UpstreamKey, err)
	}
	expect(t, f.called(), "a/1", "a/2", "b/1", "b/2")
	for _, c := range f.calls {
		if c.jobID != "chat_1" {
			t.Errorf("%s got the Idempotency-Key %q", c.key, c.jobID)
		}
	}
	expectMetrics(t, f.metrics,
		`upstream_failovers_total{upstream="a"} 1`, `upstream_keys_out{upstream="a"} 1`, `upstream_in_hand{upstream="b"} 0`,
		`upstream_requests_total{op="chat",status="4xx",upstream="a",verdict="failed"} 1`,
		`upstream_requests_total{op="chat",status="5xx",upstream="a",verdict="failed"} 1`,
		`upstream_requests_total{op="chat",status="none",upstream="b",verdict="failed"} 1`, answeredByB,
	)
	// The next chat starts with the key that did not refuse.
	if _, err := f.chat.Complete(t.Context(), request(false)); err != nil {
		t.Error(err)
	}
	expect(t, f.called()[4:], "a/2", "b/1", "b/2")
}

func TestTheLastErrorIsTheChats(t *testing.T) {
	t.Parallel()
	f := newFleet(t, byKey{"a": refuse(401, "invalid_api_key"), "b": after("7", refuse(429, "slow"))}, nil, nil)
	_, err := f.chat.Complete(t.Context(), request(false))
	if e, ok := errors.AsType[*upstream.Error](err); !ok || e.HTTPStatus != 429 || e.RetryAfter != 7*time.Second {
		t.Errorf("got %v, want b's refusal", err)
	}
}

func TestModelsAreMappedForEachUpstream(t *testing.T) {
	t.Parallel()
	f := newFleet(t, byKey{"a": cut, "b": cut, "c": replies}, nil, func(r *config.Route) {
		r.ModelMap = map[string]string{"m": "mapped"}
		r.Upstreams[0].UpstreamModel = "a-name"
		r.Upstreams[2].UpstreamModel = "m"
	})
	if _, err := f.chat.Complete(t.Context(), request(false)); err != nil {
		t.Fatal(err)
	}
	want := []call{{"a", "a-name", "chat_1", ""}, {"b", "mapped", "chat_1", ""}, {"c", "m", "chat_1", ""}}
	if !slices.Equal(f.calls, want) {
		t.Errorf("calls %v, want %v", f.calls, want)
	}
}

func TestABodyThatCannotBeMapped(t *testing.T) {
	t.Parallel()
	f := newFleet(t, byKey{"a": replies, "b": replies}, nil, func(r *config.Route) { r.UpstreamModel = "other" })
	_, err := f.chat.Complete(t.Context(), pool.ChatRequest{Model: "m", Body: body.Parse([]byte(`{`))})
	if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Written || !e.Final {
		t.Errorf("got %v, want an error for good", err)
	}
	expect(t, f.called())
	expectMetrics(t, f.metrics, `upstream_in_hand{upstream="a"} 0`)
}

// TestNobodyIsAskedForNobody proves that a chat whose caller left does not fail over.
func TestNobodyIsAskedForNobody(t *testing.T) {
	t.Parallel()
	for way, run := range runs {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			gone := errors.New("the caller hung up")
			f := newFleet(t, byKey{"a": func(w http.ResponseWriter, r *http.Request) {
				cancel(gone)
				hang(w, r)
			}, "b": replies}, func(u *config.Upstream) { u.Breaker.Failures = 1 }, nil)
			_, err := run(ctx, f, request(false))
			if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Code != chat.CodeCancelled || !errors.Is(err, gone) {
				t.Errorf("got %v, want cancelled", err)
			}
			expect(t, f.called(), "a")
			expectMetrics(t, f.metrics, `upstream_breaker_open{upstream="a"} 0`, `upstream_in_hand{upstream="a"} 0`)
		})
	}
}

// disconnecting cancels once the response has been read.
type disconnecting struct {
	http.RoundTripper
	disconnect func()
}

func (l disconnecting) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = disconnectingBody{resp.Body, l.disconnect}
	}
	return resp, err
}

type disconnectingBody struct {
	io.ReadCloser
	disconnect func()
}

func (b disconnectingBody) Close() error {
	b.disconnect()
	return b.ReadCloser.Close()
}

// TestARefusalForNobody proves the same if a refusal arrives while the caller leaves.
func TestARefusalForNobody(t *testing.T) {
	t.Parallel()
	f := newFleet(t, byKey{"a": refuse(401, ""), "b": replies}, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	f.transport.RoundTripper = disconnecting{f.transport.RoundTripper, cancel}
	_, err := f.chat.Complete(ctx, request(false))
	if e, ok := errors.AsType[*upstream.Error](err); !ok || e.HTTPStatus != 401 {
		t.Errorf("got %v, want the refusal", err)
	}
	expect(t, f.called(), "a")
}

// TestAnAnswerCountsForTheBreaker proves that a successful chat resets the breaker.
func TestAnAnswerCountsForTheBreaker(t *testing.T) {
	t.Parallel()
	for way, run := range runs {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			f := newFleet(t, byKey{"a": func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1)%2 == 1 {
					refuse(500, "")(w, r)
					return
				}
				replies(w, r)
			}, "b": replies}, func(u *config.Upstream) { u.Breaker.Failures = 2 }, nil)
			for range 5 {
				if _, err := run(t.Context(), f, request(false)); err != nil {
					t.Error(err)
				}
			}
			expect(t, f.called(), "a", "b", "a", "a", "b", "a", "a", "b")
			expectMetrics(t, f.metrics, `upstream_breaker_open{upstream="a"} 0`)
		})
	}
}

func TestAllAttemptsShareOneTime(t *testing.T) {
	t.Parallel()
	for way, run := range runs {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, byKey{"a": cut, "b": hang, "c": replies}, nil, func(r *config.Route) {
				r.Timeouts.Total = 100 * time.Millisecond
			})
			_, err := run(t.Context(), f, request(false))
			e, ok := errors.AsType[*upstream.Error](err)
			if !ok || e.Code != chat.CodeTotalTimeout || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the total timeout", err)
			}
			expect(t, f.called(), "a", "b")
		})
	}
}

func TestNoUpstreamForAChat(t *testing.T) {
	t.Parallel()
	_, err := newFleet(t, nil, nil, nil).chat.Complete(t.Context(), request(true))
	if e, ok := errors.AsType[*upstream.Error](err); !ok || !e.Final {
		t.Errorf("got %v, want an error for good", err)
	}
}

// TestARefusalDoesNotSpeakForBusyKeys proves that the chat is busy, not refused, while another key
// may accept it.
func TestARefusalDoesNotSpeakForBusyKeys(t *testing.T) {
	t.Parallel()
	f := newFleet(t, byKey{"a": refuse(404, "model_not_found"), "b": replies}, func(u *config.Upstream) { u.MaxConcurrent = 1 }, nil)
	other := f.pool.Resume(pool.UpstreamKey{Upstream: "b"})
	var tried pool.Tried
	req := request(true)
	req.Tried = &tried
	_, err := f.chat.Complete(t.Context(), req)
	if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Final || e.Written || e.RetryAfter <= 0 {
		t.Errorf("got %v, want a refusal for now", err)
	}
	other.Release()
	if r, err := f.chat.Complete(t.Context(), req); err != nil || r.UpstreamKey.Upstream != "b" {
		t.Errorf("answered by %v (%v), want b", r.UpstreamKey, err)
	}
	expect(t, f.called(), "a", "b")
}

// TestAttemptsOfAQueuedChat proves that attempts start with a key that has not failed and then go
// round.
func TestAttemptsOfAQueuedChat(t *testing.T) {
	t.Parallel()
	f := newFleet(t, byKey{"a": refuse(500, ""), "b": refuse(500, "")}, func(u *config.Upstream) { u.MaxConcurrent = 1 }, nil)
	req := request(true)
	req.Tried = new(pool.Tried)
	attempt := func(want int) {
		t.Helper()
		_, err := f.chat.Complete(t.Context(), req)
		if e, ok := errors.AsType[*upstream.Error](err); !ok || e.HTTPStatus != want {
			t.Fatalf("got %v, want status %d", err, want)
		}
	}
	for range 3 {
		attempt(500)
	}
	expect(t, f.called(), "a", "b", "a")
	other := f.pool.Resume(pool.UpstreamKey{Upstream: "b"})
	attempt(0)   // b has no slot
	attempt(500) // a new round, instead of waiting for b again
	expect(t, f.called()[3:], "a")
	other.Release()
}

func TestManyChatsAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, byKey{"a/1": refuse(500, ""), "a/2": replies, "b": streams}, func(u *config.Upstream) { u.Breaker.Failures = 0 }, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 25 {
				for way, run := range runs {
					if _, err := run(t.Context(), f, request(i%2 == 0)); err != nil && i%2 == 1 {
						t.Errorf("%s: %v", way, err)
					}
				}
			}
		})
	}
	wg.Wait()
	expectMetrics(t, f.metrics, `upstream_in_hand{upstream="a"} 0`, `upstream_in_hand{upstream="b"} 0`)
}

// TestChatsOfBeforeAReload proves that chats from before a reload only use keys for which they have
// a client, and return all slots.
func TestChatsOfBeforeAReload(t *testing.T) {
	t.Parallel()
	for way, run := range runs {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, byKey{"a/2": refuse(503, "")}, nil, nil)
			f.pool.Reload(config.Upstreams{"a": with(nil, "1", "2", "3")}, config.Retry{})
			for range 3 {
				if _, err := run(t.Context(), f, request(false)); err == nil {
					t.Error("a chat of the refused key went well")
				}
			}
			r := request(true)
			if r.Slot = get(t, f.chooser, new(pool.Tried)); r.Slot.UpstreamKey().Key == "2" {
				t.Fatal("the whole pool has only the old key")
			}
			if _, err := run(t.Context(), f, r); err == nil {
				t.Error("a chat of the refused key went well")
			}
			expect(t, f.called(), "a/2", "a/2", "a/2", "a/2")
			expectMetrics(t, f.metrics, `upstream_in_hand{upstream="a"} 0`)
		})
	}
}

// TestAChatThatIsSentTwiceCountsTwice proves that a resent request counts toward the key's rate.
func TestAChatThatIsSentTwiceCountsTwice(t *testing.T) {
	t.Parallel()
	var refused atomic.Bool
	server := upstreamtest.NewHTTP2Server(t, func(c *upstreamtest.HTTP2Conn, _ int, stream uint32) {
		if !refused.Swap(true) {
			_ = c.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
			return
		}
		c.Answer(stream, reply, true)
	})
	connections := upstream.NewTransport(upstream.TransportOptions{TLS: server.TLS})
	t.Cleanup(connections.CloseIdleConnections)
	client := chat.New(&upstream.Endpoint{Name: "a", BaseURL: server.URL, Transport: connections}, chat.Options{})
	const interval = 100 * time.Second
	limited := with(func(u *config.Upstream) { u.RatePerSecond = 1 / interval.Seconds() })
	chats := pool.NewChat(pool.New(config.Upstreams{"a": limited}, pool.Options{Metrics: telemetry.NewMetrics("v1")}).Chooser(along("a")), func(pool.UpstreamKey) *chat.Client { return client })
	if _, err := chats.Complete(t.Context(), request(false)); err != nil {
		t.Fatal(err)
	}
	if n := server.Requests.Load(); n != 2 {
		t.Fatalf("the upstream got %d requests, want 2", n)
	}
	var busy *pool.BusyError
	if l, err := chats.Reserve(new(pool.Tried), nil); !errors.As(err, &busy) || time.Until(busy.Until) < interval*3/2 {
		t.Errorf("the next request after two, of one in %s, got %v, %v", interval, l, err)
	}
}
