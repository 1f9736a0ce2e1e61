package chat

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/test/freeport"
)

const (
	textChunk   = `{"id":"c1","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`
	finishChunk = `{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	usageChunk  = `{"id":"c1","choices":[],"usage":{"total_tokens":3}}`
)

func data(blocks ...string) string {
	var b strings.Builder
	for _, block := range blocks {
		b.WriteString("data: " + block + "\n\n")
	}
	return b.String()
}

// TestStream covers cases that do not fit into the corpus: streams without a block, and blocks of
// megabytes.
func TestStream(t *testing.T) {
	t.Parallel()
	big := `{"id":"c1","choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 5<<20) + `"}}]}`
	silent := &upstream.Error{
		Op: op, Message: "the upstream reported an unspecified error", HTTPStatus: 200,
		RequestID: "req-1", Reported: true, Written: true, Scope: aboutUpstream,
	}
	for name, tc := range map[string]struct {
		body string
		want []string
		err  *upstream.Error // nil for io.EOF
	}{
		"DONE with spaces":        {data(textChunk) + "data:  [DONE] \r\n\r\n", []string{textChunk}, nil},
		"big":                     {data(big, finishChunk, "[DONE]"), []string{big, finishChunk}, nil},
		"error without a message": {data(textChunk, `{"error":{}, "object":"error"}`), []string{textChunk}, silent},
		"error event of nothing":  {data(textChunk) + "event: error\ndata:\n\n", []string{textChunk}, silent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, Options{}, answer(200, "text/event-stream", tc.body))
			blocks, _, err := streamAll(t, c)
			if diff := cmp.Diff(tc.want, blocks); diff != "" {
				t.Errorf("(-want +got)\n%.1000s", diff)
			}
			checkError(t, tc.err, err)
		})
	}
}

// checkError compares errors without their cause, and without their message if want has none. A nil
// want means io.EOF.
func checkError(t *testing.T, want *upstream.Error, err error) {
	t.Helper()
	if want == nil {
		if err != io.EOF {
			t.Errorf("error %v, want EOF", err)
		}
		return
	}
	got, ok := errors.AsType[*upstream.Error](err)
	if !ok {
		t.Fatalf("error %v, want %v", err, want)
	}
	ignored := []string{"Err"}
	if want.Message == "" {
		ignored = append(ignored, "Message")
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(upstream.Error{}, ignored...)); diff != "" {
		t.Errorf("error (-want +got)\n%s", diff)
	}
	if got.Message == "" || strings.Contains(got.Error(), "sk-secret-key") {
		t.Errorf("message %q", got.Message)
	}
}

// TestStreamSniffs checks that the first byte decides even if the media type is wrong or missing.
func TestStreamSniffs(t *testing.T) {
	t.Parallel()
	reply := `{"id":"c1","object":"chat.completion","created":5,"model":"m","x":1.0,"choices":[{"index":0,"message":{"role":"assistant","content":"a","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}],"usage":{"total_tokens":3}}`
	events := data(textChunk, "[DONE]")
	for name, tc := range map[string]struct {
		contentType, body string
		converted         bool
		code              string
	}{
		"events as JSON":        {"application/json", events, false, ""},
		"events as nothing":     {"", events, false, ""},
		"events as text":        {"text/plain; charset=utf-8", events, false, ""},
		"comment as nothing":    {"", ": hi\n\n" + events, false, ""},
		"JSON":                  {"application/json; charset=utf-8", reply, true, ""},
		"JSON as events":        {"text/event-stream", "\n" + reply, true, ""},
		"JSON as nothing":       {"", reply, true, ""},
		"error as JSON":         {"application/json", `{"error":{"message":"boom","code":"model_not_found"}}`, false, "model_not_found"},
		"error as events":       {"text/event-stream", `{"error":{"message":"boom","code":"model_not_found"}}`, false, "model_not_found"},
		"flat error":            {"application/json", `{"code":"invalid_request","message":"boom","data":null}`, false, "invalid_request"},
		"JSON of another kind":  {"application/json", `{"success":true}`, false, CodeUnreadable},
		"JSON cut off":          {"application/json", reply[:100], false, CodeUnreadable},
		"a list":                {"application/json", `[{"id":"x"}]`, false, CodeUnreadable},
		"error in a list":       {"application/json", `[{"error":{"message":"boom","code":"model_not_found"}}]`, false, "model_not_found"},
		"text":                  {"text/plain", `Too busy, come back later`, false, CodeUnreadable},
		"HTML":                  {"text/html", `<html><title>Bad gateway</title></html>`, false, CodeUnreadable},
		"nothing of a JSON":     {"application/json", ``, false, CodeUnreadable},
		"white space of a JSON": {"application/json", "  \n", false, CodeUnreadable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, Options{}, answer(200, tc.contentType, tc.body))
			s, err := c.Stream(t.Context(), Request{Body: []byte(testBody)})
			if tc.code != "" {
				if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Code != tc.code || e.Reported == (tc.code == CodeUnreadable) {
					t.Errorf("error %v, want %s", err, tc.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			blocks, err := collect(s)
			if err != io.EOF {
				t.Error(err)
			}
			if s.isWhole != tc.converted {
				t.Errorf("converted: %v", s.isWhole)
			}
			if !tc.converted {
				if diff := cmp.Diff([]string{textChunk}, blocks); diff != "" {
					t.Error(diff)
				}
				return
			}
			if diff := cmp.Diff(canonical(t, []byte(reply)), canonical(t, []byte(assemble(t, blocks...)))); diff != "" {
				t.Error(diff)
			}
			if strings.Count(strings.Join(blocks, ""), `"x":1.0`) != 1 {
				t.Errorf("a field of the reply is repeated: %v", blocks)
			}
			if len(blocks) != 3 || !strings.Contains(blocks[0], `"object":"chat.completion.chunk"`) {
				t.Errorf("blocks %v", blocks)
			}
		})
	}
}

func TestStreamSendsTheRequest(t *testing.T) {
	t.Parallel()
	got := make(chan *http.Request, 1)
	bodies := make(chan string, 1)
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r
		bodies <- string(body)
		w.Header().Set("X-Ratelimit-Remaining-Requests", "9")
		w.Header().Set("Set-Cookie", "no")
		w.Header().Set("X-Oneapi-Request-Id", "id-9")
		answer(200, "text/event-stream", data(textChunk, "[DONE]"))(w, r)
	})
	s, err := c.Stream(t.Context(), Request{JobID: "chat_1", Body: []byte(testBody)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := <-got
	if r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" || r.Header.Get("Idempotency-Key") != "chat_1" ||
		r.Header.Get("Authorization") != "Bearer sk-secret-key" || r.Header.Get("Content-Type") != "application/json" || !strings.HasPrefix(r.Header.Get("Accept"), "text/event-stream") {
		t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
	}
	if body := <-bodies; body != testBody {
		t.Errorf("body %s", body)
	}
	h := keptHeader(s.call.resp.Header)
	if s.Status() != 200 || h.Get("X-Ratelimit-Remaining-Requests") != "9" || h.Get("X-Oneapi-Request-Id") != "id-9" || h.Get("Set-Cookie") != "" || h.Get("Content-Type") != "" {
		t.Errorf("status %d, header %v", s.Status(), h)
	}
}

func TestStreamFragments(t *testing.T) {
	t.Parallel()
	text := ": hi\r\n\r\n" + data(textChunk, finishChunk, "[DONE]")
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for i := range len(text) {
			_, _ = io.WriteString(w, text[i:i+1])
			_ = http.NewResponseController(w).Flush()
		}
	})
	blocks, _, err := streamAll(t, c)
	if diff := cmp.Diff([]string{textChunk, finishChunk}, blocks); diff != "" || err != io.EOF {
		t.Error(err, diff)
	}
}

// TestStreamDoesNotWait checks that a block is returned before the upstream sends the next.
func TestStreamDoesNotWait(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for range 3 {
			_, _ = io.WriteString(w, data(textChunk))
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
		_, _ = io.WriteString(w, data("[DONE]"))
	})
	s, err := c.Stream(t.Context(), Request{Body: []byte(testBody)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 3 {
		if b, err := s.Next(); err != nil || string(b) != textChunk {
			t.Fatalf("%s, %v", b, err)
		}
		next <- struct{}{}
	}
	if _, err := s.Next(); err != io.EOF {
		t.Error(err)
	}
}

// TestStreamAnsweredAtOnce checks that an upstream may answer before it has read a request larger
// than all buffers.
func TestStreamAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		for range 100 {
			_, _ = io.WriteString(w, data(textChunk))
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.WriteString(w, data("[DONE]"))
		_, _ = io.Copy(io.Discard, r.Body)
	})
	body := `{"x":"` + strings.Repeat("x", 8<<20) + `"}`
	s, err := c.Stream(t.Context(), Request{Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if blocks, err := collect(s); err != io.EOF || len(blocks) != 100 {
		t.Errorf("%d blocks, %v", len(blocks), err)
	}
}

func TestStreamReset(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		blocks []string
		err    *upstream.Error
	}{
		"in the middle":    {[]string{textChunk}, &upstream.Error{Op: "chat", Code: CodeStreamTruncated, HTTPStatus: 200, Written: true, Scope: aboutUpstream}},
		"after the reason": {[]string{textChunk, finishChunk}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, data(tc.blocks...)+`data: {"choices"`)
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			})
			blocks, _, err := streamAll(t, c)
			if diff := cmp.Diff(tc.blocks, blocks); diff != "" {
				t.Error(diff)
			}
			checkError(t, tc.err, err)
		})
	}
}

func TestStreamLimits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	c := serve(t, Options{MaxEvent: 200}, answer(200, "text/event-stream", data(textChunk, long)))
	blocks, _, err := streamAll(t, c)
	if len(blocks) != 1 {
		t.Errorf("%d blocks", len(blocks))
	}
	checkError(t, &upstream.Error{Op: "chat", Code: CodeTooLarge, HTTPStatus: 200, RequestID: "req-1", Written: true, Final: true}, err)

	c = serve(t, Options{MaxEvent: 200}, answer(200, "text/event-stream", data(textChunk, finishChunk, long)))
	if blocks, _, err = streamAll(t, c); len(blocks) != 2 || err != io.EOF {
		t.Errorf("after the end: %d blocks, %v", len(blocks), err)
	}
}

// TestStreamHoldsBlocksBack checks that blocks before the first choice are passed on in order, and
// that a long series of them is not kept back.
func TestStreamHoldsBlocksBack(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, maxHeld, maxHeld + 1, 3 * maxHeld} {
		var want []string
		for i := range n {
			want = append(want, fmt.Sprintf(`{"id":"c1","choices":[],"n":%d}`, i))
		}
		want = append(want, textChunk, finishChunk)
		c := serve(t, Options{}, answer(200, "text/event-stream", data(want...)))
		blocks, refused, err := streamAll(t, c)
		if diff := cmp.Diff(want, blocks); diff != "" || refused || err != io.EOF {
			t.Errorf("%d: %v\n%s", n, err, diff)
		}
	}
	next := make(chan struct{})
	defer close(next)
	long := `{"id":"c1","choices":[],"x":"` + strings.Repeat("x", maxHeldBlock) + `"}`
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		answer(200, "text/event-stream", data(long))(w, r)
		_ = http.NewResponseController(w).Flush()
		<-next
	})
	s, err := c.Stream(t.Context(), Request{Body: []byte(testBody)}) // does not wait for a choice
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if block, err := s.Next(); string(block) != long || err != nil {
		t.Errorf("a long block: %.100s, %v", block, err)
	}
}

// TestStreamReusesTheConnection checks that a finished stream's connection is reused, although the
// answer ends only after [DONE].
func TestStreamReusesTheConnection(t *testing.T) {
	t.Parallel()
	addresses, end := make(chan string, 2), make(chan struct{})
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		addresses <- r.RemoteAddr
		answer(200, "text/event-stream", data(textChunk, "[DONE]"))(w, r)
		_ = http.NewResponseController(w).Flush()
		<-end
	})
	for range 2 {
		s, err := c.Stream(t.Context(), Request{Body: []byte(testBody)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := collect(s); err != io.EOF {
			t.Fatal(err)
		}
		end <- struct{}{}
		s.Close()
	}
	if a, b := <-addresses, <-addresses; a != b {
		t.Error("the second call opened another connection")
	}
}

func TestStreamClose(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, data(textChunk))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	})
	s, err := c.Stream(t.Context(), Request{Body: []byte(testBody)})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
	<-gone
	if _, err := s.Next(); err == nil || err == io.EOF {
		t.Errorf("error %v after Close", err)
	}
}

func TestNeverWritten(t *testing.T) {
	t.Parallel()
	addrs, err := freeport.Addrs(1)
	if err != nil {
		t.Fatal(err)
	}
	c := New(&upstream.Endpoint{Name: "test", BaseURL: "http://" + addrs[0], Transport: upstream.NewTransport(upstream.TransportOptions{})}, Options{})
	_, err = c.Stream(t.Context(), Request{Body: []byte(testBody)})
	if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Written || e.Final || e.HTTPStatus != 0 || e.Scope != aboutUpstream {
		t.Errorf("error %#v", err)
	}
	_, err = c.Complete(t.Context(), Request{Body: []byte{}})
	if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Written || !e.Final || e.Scope != aboutRequest {
		t.Errorf("an empty body: error %#v", err)
	}
}

func BenchmarkStream(b *testing.B) {
	block := data(usualChunk)
	count := make(chan int, 1)
	c := serve(b, Options{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		batch := strings.Repeat(block, 16)
		for n := <-count; n > 0; n -= 16 {
			_, _ = io.WriteString(w, batch)
		}
		_, _ = fmt.Fprint(w, data("[DONE]"))
	})
	b.ReportAllocs()
	b.SetBytes(int64(len(block)))
	count <- b.N
	s, err := c.Stream(b.Context(), Request{Body: []byte(testBody)})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.ResetTimer()
	for {
		if _, err := s.Next(); err == io.EOF {
			return
		} else if err != nil {
			b.Fatal(err)
		}
	}
}
