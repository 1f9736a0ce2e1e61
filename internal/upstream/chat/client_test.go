package chat

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/upstream"
)

const testReply = `{"id":"c1", "object":"chat.completion","created":5,"model":"m","x":1.0,"choices":[{"index":0,"message":{"role":"assistant","content":"\"error\":"},"finish_reason":"stop"}],"usage":{"total_tokens":3},"error":null}`

func TestComplete(t *testing.T) {
	t.Parallel()
	big := `{"choices":[{"index":0,"message":{"content":"` + strings.Repeat("x", 5<<20) + `"}}]}`
	for name, tc := range map[string]struct {
		contentType, body string
		want              string
		assembled         bool
	}{
		"usual":            {"application/json", testReply, testReply, false},
		"no media type":    {"", testReply, testReply, false},
		"big":              {"application/json", big, big, false},
		"a stream":         {"text/event-stream", data(textChunk, finishChunk, usageChunk, "[DONE]"), `{"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],"usage":{"total_tokens":3}}`, true},
		"a stream as JSON": {"application/json", ": hi\n\n" + data(textChunk, finishChunk), `{"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, Options{}, answer(201, tc.contentType, tc.body))
			r, err := c.Complete(t.Context(), Request{JobID: "chat_1", Body: []byte(testBody)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(r.Raw)); diff != "" {
				t.Errorf("%.1000s", diff)
			}
			if r.Assembled != tc.assembled || r.Status != 201 || r.Header.Get("X-Request-Id") != "req-1" {
				t.Errorf("assembled %v, status %d, header %v", r.Assembled, r.Status, r.Header)
			}
		})
	}
}

func TestCompleteErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		body   string
		code   string
		said   bool
		final  bool
	}{
		"error":           {200, `{"error":{"message":"boom","code":"server_error"}}`, "server_error", true, false},
		"flat error":      {200, `{"code":"invalid_request","message":"boom","data":null}`, "invalid_request", true, true},
		"no completion":   {200, `{"success":true}`, CodeUnreadable, false, false},
		"no choice":       {200, `{"choices":[]}`, CodeUnreadable, false, false},
		"cut off":         {200, testReply[:50], CodeUnreadable, false, false},
		"not JSON inside": {200, `{"choices":[nonsense]}`, CodeUnreadable, false, false},
		"HTML":            {200, `<html>`, CodeUnreadable, false, false},
		"truncated":       {200, data(textChunk), CodeStreamTruncated, false, false},
		"error in stream": {200, data(textChunk, `{"error":{"message":"boom","code":429}}`), "429", true, false},
		"too large":       {200, `{"choices":["` + strings.Repeat("x", 6000) + `"]}`, CodeTooLarge, false, true},
		"stream too large": {200, data(strings.Repeat(" ", 100)+strings.Replace(textChunk, `"a"`, `"`+strings.Repeat("x", 3000)+`"`, 1),
			strings.Replace(textChunk, `"a"`, `"`+strings.Repeat("x", 3000)+`"`, 1)), CodeTooLarge, false, true},
		"refused":         {400, `{"error":{"message":"boom","type":"invalid_request_error","param":"messages","code":null}}`, "", true, true},
		"model not found": {503, `{"error":{"code":"model_not_found","message":"boom","type":"new_api_error"}}`, "model_not_found", true, true},
		"a proxy's page":  {502, `<html><title>502 Bad Gateway</title></html>`, "", false, false},
		"a redirect":      {307, ``, "", false, true},
		"a moved model":   {204, ``, CodeUnreadable, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, Options{MaxReply: 5000}, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", "7")
				answer(tc.status, "application/json", tc.body)(w, r)
			})
			_, err := c.Complete(t.Context(), Request{Body: []byte(testBody)})
			e, ok := errors.AsType[*upstream.Error](err)
			if !ok {
				t.Fatalf("error %v", err)
			}
			if e.Code != tc.code || e.Reported != tc.said || e.Final != tc.final || e.HTTPStatus != tc.status || !e.Written || e.Op != "chat" || e.RequestID != "req-1" || e.Message == "" {
				t.Errorf("%#v", e)
			}
			if e.Reported && e.RetryAfter != 7*time.Second {
				t.Errorf("retry after %v", e.RetryAfter)
			}
		})
	}
}

// TestCompleteTimeouts checks that Complete waits for its first byte for Answer, not FirstByte.
func TestCompleteTimeouts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := serveInBubble(t, Options{FirstByte: time.Nanosecond, Answer: 80 * time.Millisecond}, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		})
		_, err := c.Complete(t.Context(), Request{Body: []byte(testBody)})
		checkError(t, &upstream.Error{Op: "chat", Code: CodeFirstByteTimeout, Message: "no first byte from upstream test within 80ms", Written: true, Scope: aboutUpstream}, err)
	})
}

func TestShouldRetryHeader(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"true": false, "false": true, "maybe": false} {
		c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Should-Retry", value)
			answer(500, "text/html", "<html>boom</html>")(w, r)
		})
		_, err := c.Complete(t.Context(), Request{Body: []byte(testBody)})
		if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Final != want || e.Reported != want {
			t.Errorf("%s: %#v", value, err)
		}
	}
}

func TestOptionsDefaults(t *testing.T) {
	t.Parallel()
	want := Options{FirstByte: 10 * time.Minute, Answer: 30 * time.Minute, Idle: 10 * time.Minute, Total: 30 * time.Minute, MaxEvent: 32 << 20, MaxReply: 32 << 20}
	if diff := cmp.Diff(want, Options{}.WithDefaults()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, want.WithDefaults()); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkComplete(b *testing.B) {
	c := serve(b, Options{}, answer(200, "application/json", testReply))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Complete(b.Context(), Request{Body: []byte(testBody)}); err != nil {
			b.Fatal(err)
		}
	}
}
