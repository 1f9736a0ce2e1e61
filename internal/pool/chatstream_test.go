package pool_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/chat"
)

func collect(s *pool.Stream) (blocks []string, err error) {
	for {
		b, err := s.Next()
		if errors.Is(err, io.EOF) {
			return blocks, nil
		}
		if err != nil {
			return blocks, err
		}
		blocks = append(blocks, string(b))
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	f := newFleet(t, byKey{"a": cut, "b": streams}, nil, nil)
	s, err := f.chat.Stream(t.Context(), request(false))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.UpstreamKey() != (pool.UpstreamKey{Upstream: "b"}) || s.Status() != 200 {
		t.Errorf("status %d of %v", s.Status(), s.UpstreamKey())
	}
	expectMetrics(t, f.metrics, `upstream_in_hand{upstream="b"} 1`)
	blocks, err := collect(s)
	if err != nil {
		t.Error(err)
	}
	expect(t, blocks, firstBlock, lastBlock)
	if _, err := s.Next(); err != io.EOF {
		t.Errorf("the end did not stick: %v", err)
	}
	expectMetrics(t, f.metrics, `upstream_in_hand{upstream="b"} 0`, answeredByB)
	s.Close()
	s.Close()
	expectMetrics(t, f.metrics, `upstream_in_hand{upstream="b"} 0`, answeredByB)
}

// TestOddEventsAreCounted proves that heartbeats are counted, in streams and in whole replies that
// arrive as a stream.
func TestOddEventsAreCounted(t *testing.T) {
	t.Parallel()
	for way, run := range runs {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, byKey{"a": events("ping", firstBlock, "null", `{"type":"keepalive"}`, lastBlock, "[DONE]")}, nil, nil)
			if _, err := run(t.Context(), f, request(false)); err != nil {
				t.Fatal(err)
			}
			expectMetrics(t, f.metrics, `upstream_events_skipped_total{upstream="a"} 3`)
		})
	}
}

// TestStreamsDoNotMoveOnOnceBegun proves that a stream does not fail over after its first block.
func TestStreamsDoNotMoveOnOnceBegun(t *testing.T) {
	t.Parallel()
	for name, rest := range map[string]string{
		"error":     `{"error":{"message":"no","code":"invalid_api_key"}}`,
		"nonsense":  `{`,
		"breaks up": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, byKey{"a": events(firstBlock, rest), "b": streams}, nil, nil)
			s, err := f.chat.Stream(t.Context(), request(false))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			blocks, err := collect(s)
			expect(t, blocks, firstBlock)
			if _, ok := errors.AsType[*upstream.Error](err); !ok {
				t.Fatalf("got %v, want the upstream's error", err)
			}
			if _, again := s.Next(); again != err {
				t.Errorf("the error did not stick: %v, then %v", err, again)
			}
			expect(t, f.called(), "a")
			expectMetrics(t, f.metrics, `upstream_in_hand{upstream="a"} 0`, `upstream_failovers_total{upstream="a"} 0`,
				`upstream_requests_total{op="chat",status="2xx",upstream="a",verdict="failed"} 1`)
		})
	}
}

// TestAnUnusableStreamHasFailed proves that Unusable counts as a failure, unless the stream was
// complete.
func TestAnUnusableStreamHasFailed(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]bool{"failed": false, "answered": true} { // after all blocks
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, byKey{"a": streams}, nil, nil)
			s, err := f.chat.Stream(t.Context(), request(true))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if read {
				_, _ = collect(s)
			}
			err = s.Unusable(errors.New("no block of ours"))
			if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Code != chat.CodeUnreadable || !e.Written || e.HTTPStatus != 200 {
				t.Errorf("got %#v, want an unreadable answer", err)
			}
			if _, again := s.Next(); again != err {
				t.Errorf("the error did not stick: %v, then %v", err, again)
			}
			expectMetrics(t, f.metrics, `upstream_in_hand{upstream="a"} 0`,
				`upstream_requests_total{op="chat",status="2xx",upstream="a",verdict="`+name+`"} 1`)
		})
	}
}

// TestStreamsReportTheirEnd proves that a late error starts the key's cooldown.
func TestStreamsReportTheirEnd(t *testing.T) {
	t.Parallel()
	f := newFleet(t, byKey{"a/1": events(firstBlock, `{"error":{"message":"no","code":"insufficient_quota"}}`), "a/2": streams}, nil, nil)
	for _, run := range []string{"a/1", "a/2", "a/2"} {
		s, err := f.chat.Stream(t.Context(), request(false))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = collect(s)
		if got := s.UpstreamKey().String(); got != run {
			t.Errorf("answered by %s, want %s", got, run)
		}
		s.Close()
	}
}

func TestAStreamHasATime(t *testing.T) {
	t.Parallel()
	f := newFleet(t, byKey{"a": func(w http.ResponseWriter, r *http.Request) {
		events(firstBlock)(w, r)
		hang(w, r)
	}}, nil, func(r *config.Route) { r.Timeouts.Total = 100 * time.Millisecond })
	s, err := f.chat.Stream(t.Context(), request(false))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = collect(s)
	if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Code != chat.CodeTotalTimeout {
		t.Errorf("got %v, want the total timeout", err)
	}
}

// TestACallerDisconnectsFromAStream proves that Close returns the slot and leaves the breaker
// unchanged.
func TestACallerDisconnectsFromAStream(t *testing.T) {
	t.Parallel()
	f := newFleet(t, byKey{"a": func(w http.ResponseWriter, r *http.Request) {
		events(firstBlock)(w, r)
		hang(w, r)
	}}, func(u *config.Upstream) { u.MaxConcurrent, u.Breaker.Failures = 1, 1 }, nil)
	for range 3 {
		s, err := f.chat.Stream(t.Context(), request(false))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.chat.Complete(t.Context(), request(false)); err == nil {
			t.Error("two chats on one place")
		}
		s.Close()
		if _, err := s.Next(); err == nil {
			t.Error("a closed stream goes on")
		}
		s.Close()
	}
	expect(t, f.called(), "a", "a", "a")
	expectMetrics(t, f.metrics, `upstream_in_hand{upstream="a"} 0`, `upstream_breaker_open{upstream="a"} 0`,
		`upstream_requests_total{op="chat",status="2xx",upstream="a",verdict="given_up"} 3`)
}

// TestAStreamThatBeganClosesTheBreaker proves that a streaming probe closes the breaker with its
// first block.
func TestAStreamThatBeganClosesTheBreaker(t *testing.T) {
	t.Parallel()
	f := newFleet(t, byKey{"a": func(w http.ResponseWriter, r *http.Request) {
		events(firstBlock)(w, r)
		hang(w, r)
	}}, func(u *config.Upstream) { u.Breaker = config.Breaker{Failures: 1, OpenFor: 1} }, nil)
	report(t, f.chooser, &noAnswer)
	for range 2 {
		s, err := f.chat.Stream(t.Context(), request(false))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
	}
	expectMetrics(t, f.metrics, `upstream_breaker_open{upstream="a"} 0`)
}
