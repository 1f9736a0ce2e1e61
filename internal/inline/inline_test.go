package inline_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/inline"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

func TestComplete(t *testing.T) {
	t.Parallel()
	x, _ := withSandbox(t, brokertest.Single(t), nil)
	reply, err := x.runner.Complete(t.Context(), ask("sandbox-chat-fast", ""))
	if err != nil {
		t.Fatal(err)
	}
	if kind, ok := subject.KindOf(reply.JobID); !ok || kind != subject.Chat {
		t.Errorf("job id %q", reply.JobID)
	}
	blocks, end := x.history(reply.JobID)
	if len(blocks) != 0 || end.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || string(end.GetReplyJson()) != string(reply.Raw) {
		t.Errorf("%d blocks, %v with reply %s; the caller got %s", len(blocks), end.GetStatus(), end.GetReplyJson(), reply.Raw)
	}
	if !end.GetInline() || end.GetVersion() != 2 || end.GetUsage().GetTotalTokens() == 0 || end.GetExecution().GetUpstream() != config.SandboxUpstream {
		t.Errorf("the terminal event is %v", end)
	}
	x.done(end, "completed")
	for name, want := range map[string]float64{"genbus_jobs_accepted_total": 1, "genbus_upstream_requests_total": 1, "genbus_inline_events_dropped_total": 0} {
		if got := x.counter(name); got != want {
			t.Errorf("%s is %v", name, got)
		}
	}
}

func TestStreamIsWhatSubscribersSee(t *testing.T) {
	t.Parallel()
	for _, model := range []string{"sandbox-chat-fast:chunks=700", "sandbox-chat:chunks=20,chunk_interval_ms=2", "sandbox-chat-fast:json_for_stream", "sandbox-chat-fast:odd_events", "sandbox-chat-fast:big_chunk_bytes=400000"} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			x, _ := withSandbox(t, brokertest.Single(t), nil)
			s, err := x.runner.Stream(t.Context(), ask(model, `"stream":true,"stream_options":{"include_usage":true},`), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			want, err := read(s)
			if err != io.EOF {
				t.Fatal(err)
			}
			if _, err := s.Next(); err != io.EOF {
				t.Errorf("then %v", err)
			}
			got, end := x.history(s.JobID())
			if strings.Join(got, "\n") != strings.Join(want, "\n") || len(want) < 3 {
				t.Errorf("the caller saw %d blocks, a subscriber %d", len(want), len(got))
			}
			if end.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || end.GetChunkCount() != uint64(len(want)) || end.GetUsage().GetTotalTokens() == 0 {
				t.Errorf("the terminal event is %v with %d chunks", end.GetStatus(), end.GetChunkCount())
			}
			whole := end.GetReplyJson()
			if ref := end.GetReplyRef(); ref != nil {
				if whole, err = x.bodies.Get(t.Context(), publisher.BodyOf(ref)); err != nil {
					t.Fatal(err)
				}
			}
			if !strings.HasPrefix(string(whole), `{"id":"chatcmpl`) || !strings.Contains(string(whole), `"object":"chat.completion"`) {
				t.Errorf("the whole reply is %.200s", whole)
			}
			if large := len(whole) > 256<<10; large != (end.GetReplyRef() != nil) || large != strings.Contains(model, "big") {
				t.Errorf("%d bytes, reference %v", len(whole), end.GetReplyRef())
			}
			x.done(end, "completed")
		})
	}
}

// TestBodyReachesTheUpstreamAsItWas proves that a body reaches the upstream byte for byte, except
// for the mapped model and an added stream flag.
func TestBodyReachesTheUpstreamAsItWas(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- string(b)
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}`)
	}))
	defer up.Close()
	plain := setup(t, brokertest.Single(t), up.URL, nil)
	mapped := setup(t, brokertest.Single(t), up.URL, func(c *config.Config) {
		for i := range c.Routes {
			c.Routes[i].ModelMap = map[string]string{"sandbox-chat-a": "real-a"}
		}
	})
	const rest = `, "n":1.0e0,  "messages":[{"role":"user","content":"\u0041"}] }`
	for _, c := range []struct {
		name         string
		x            *bundle
		stream       bool
		body, expect string
	}{
		{"whole", plain, false, `{"model":"sandbox-chat-a"` + rest, `{"model":"sandbox-chat-a"` + rest},
		{"whole, said so", plain, false, `{"model":"sandbox-chat-a","stream":false` + rest, `{"model":"sandbox-chat-a","stream":false` + rest},
		{"mapped", mapped, false, `{"model":"sandbox-chat-a"` + rest, `{"model":"real-a"` + rest},
		{"not mapped", mapped, false, `{"model":"sandbox-chat-b"` + rest, `{"model":"sandbox-chat-b"` + rest},
		{"stream", plain, true, `{"model":"sandbox-chat-a", "stream":true` + rest, `{"model":"sandbox-chat-a", "stream":true` + rest},
		{"stream by the call", mapped, true, `{"model":"sandbox-chat-a"` + rest, `{"model":"real-a"` + strings.TrimSuffix(rest, " }") + `,"stream":true }`},
	} {
		req := ask("", "")
		req.Body = body.Parse([]byte(c.body))
		var err error
		if c.stream {
			var s *inline.Stream
			if s, err = c.x.runner.Stream(t.Context(), req, nil); err == nil {
				s.Close()
			}
		} else {
			_, err = c.x.runner.Complete(t.Context(), req)
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if g := <-got; g != c.expect {
			t.Errorf("%s: got %s, want %s", c.name, g, c.expect)
		}
	}
}

func TestStreamFlagMustFitTheCall(t *testing.T) {
	t.Parallel()
	x, sb := withSandbox(t, brokertest.Single(t), nil)
	_, err := x.runner.Complete(t.Context(), ask("sandbox-chat", `"stream":true,`))
	if f := faultOf(t, err, errcode.InvalidRequest); len(f.Violations) != 1 || f.Violations[0].Field != "stream" {
		t.Errorf("violations %v", f.Violations)
	}
	_, err = x.runner.Stream(t.Context(), ask("sandbox-chat", `"stream":false,`), nil)
	code(t, err, errcode.InvalidRequest)
	_, err = x.runner.Stream(t.Context(), ask("other", ""), nil)
	code(t, err, errcode.ModelNotFound)
	if n := sb.Stats().Chats; n != 0 {
		t.Errorf("%d calls went upstream", n)
	}
	if n := x.counter("genbus_jobs_refused_total"); n != 3 {
		t.Errorf("%v refusals counted", n)
	}
}

func TestUpstreamRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		suffix  string
		code    errcode.Code
		status  int
		message string
	}{
		{"status=400,code=bad_thing,message=no", errcode.UpstreamRefused, 400, "no"},
		{"status=404", errcode.UpstreamRefused, 404, ""},
		{"status=422", errcode.UpstreamRefused, 422, ""},
		{"status=401", errcode.UpstreamKeyRefused, 502, ""},
		{"status=403,code=permission_denied", errcode.UpstreamKeyRefused, 502, ""},
		{"status=403", errcode.UpstreamQuota, 502, ""}, // the sandbox's code for 403 is a gateway's for quotas
		{"status=402", errcode.UpstreamQuota, 502, ""},
		{"status=400,code=API_KEY_INVALID", errcode.UpstreamKeyRefused, 502, ""},
		{"status=429,code=insufficient_quota", errcode.UpstreamQuota, 502, ""},
		{"status=403,code=moderation_blocked", errcode.UpstreamRefused, 502, ""},
		{"status=429,retry_after=7", errcode.UpstreamRateLimited, 429, ""},
		{"status=500", errcode.UpstreamUnavailable, 502, ""},
		{"drop=before_answer", errcode.UpstreamUnavailable, 502, ""},
	} {
		t.Run(c.suffix, func(t *testing.T) {
			t.Parallel()
			// Each row has a separate runner, because refusals are remembered.
			x, _ := withSandbox(t, brokertest.Single(t), nil)
			_, completed := x.runner.Complete(t.Context(), ask("sandbox-chat:"+c.suffix, ""))
			_, streamed := x.runner.Stream(t.Context(), ask("sandbox-chat:"+c.suffix, `"stream":true,`), nil)
			for _, err := range []error{completed, streamed} {
				f := faultOf(t, err, c.code)
				if f.Status() != c.status || c.message != "" && (f.Message != c.message || f.UpstreamCode != "bad_thing") {
					t.Errorf("status %d, %q, code %q", f.Status(), f.Message, f.UpstreamCode)
				}
				if c.status == 429 && (f.RetryAfter > 7*time.Second || f.RetryAfter < 5*time.Second) {
					t.Errorf("retry after %v", f.RetryAfter)
				}
				_, end := x.history(f.JobID)
				if end.GetStatus() != genbusv1.JobStatus_JOB_STATUS_FAILED || end.GetError().GetCode() != string(c.code) {
					t.Errorf("the terminal event is %v, %v", end.GetStatus(), end.GetError())
				}
				x.done(end, "failed")
			}
		})
	}
}

func TestUpstreamEndsTheStreamEarly(t *testing.T) {
	t.Parallel()
	x, _ := withSandbox(t, brokertest.Single(t), nil)
	for suffix, want := range map[string]errcode.Code{
		"drop_after_chunks=5": errcode.StreamTruncated, "odd_events,drop_after_chunks=5": errcode.StreamTruncated, "error_after_chunks=5": errcode.UpstreamUnavailable, "chunks=5,no_done,no_finish": errcode.StreamTruncated,
	} {
		t.Run(suffix, func(t *testing.T) {
			t.Parallel()
			s, err := x.runner.Stream(t.Context(), ask("sandbox-chat-fast:"+suffix, `"stream":true,`), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			saw, err := read(s)
			f := faultOf(t, err, want)
			if _, again := s.Next(); !errors.Is(again, f) || f.JobID != s.JobID() {
				t.Errorf("job %q; then %v", f.JobID, again)
			}
			got, end := x.history(s.JobID())
			if strings.Join(got, "\n") != strings.Join(saw, "\n") || len(saw) < 5 || end.GetChunkCount() != uint64(len(saw)) {
				t.Errorf("the caller saw %d blocks, a subscriber %d of %d", len(saw), len(got), end.GetChunkCount())
			}
			if end.GetStatus() != genbusv1.JobStatus_JOB_STATUS_FAILED || end.GetError().GetCode() != string(want) {
				t.Errorf("the terminal event is %v, %v", end.GetStatus(), end.GetError())
			}
		})
	}
}

// TestUpstreamEndsBeforeTheFirstBlock proves that a stream without a block fails with a status.
func TestUpstreamEndsBeforeTheFirstBlock(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": wait\n\n")
	}))
	defer up.Close()
	x := setup(t, brokertest.Single(t), up.URL, nil)
	_, err := x.runner.Stream(t.Context(), ask("sandbox-chat-a", `"stream":true,`), nil)
	if f := faultOf(t, err, errcode.StreamTruncated); f.Status() != http.StatusBadGateway || f.UpstreamCode != "stream_truncated" || f.Message != "upstream chat: status 200: the upstream ended the stream early" {
		t.Errorf("status %d: %+v", f.Status(), f)
	}
}
