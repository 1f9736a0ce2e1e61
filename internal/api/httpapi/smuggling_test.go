package httpapi_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/telemetry"
)

// raw sends bytes on a new connection and returns the statuses of all answers. closed is false if
// the server does not close the connection.
func (w *world) raw(text string) (statuses []int, closed bool) {
	w.T.Helper()
	conn := apitest.Must[net.Conn](w.T)(net.Dial("tcp", strings.TrimPrefix(w.HTTP.URL, "http://")))
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, text); err != nil {
		w.T.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(brokertest.Patience)); err != nil {
		w.T.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			var timeout net.Error
			return statuses, !errors.As(err, &timeout) || !timeout.Timeout()
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			w.T.Errorf("%q: %v", text, err)
		}
		_ = res.Body.Close()
		statuses = append(statuses, res.StatusCode)
	}
}

// TestNoRequestHidesInAnother checks requests whose end a proxy may see elsewhere: genbus refuses
// them or reads nothing after them.
func TestNoRequestHidesInAnother(t *testing.T) {
	t.Parallel()
	const hidden = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
	const last = "GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	const post = "POST /v1/videos HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	w := newWorld(t)
	for name, row := range map[string]struct {
		text   string
		status int
	}{
		"a length and chunks":           {post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, 400},
		"chunks, with a job in them":    {post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n", len(apitest.VideosBody), apitest.VideosBody) + "0\r\n\r\n" + hidden, 200},
		"two lengths":                   {post + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} " + hidden, 400},
		"two lengths in one":            {post + "Content-Length: 2, 2\r\n\r\n{}" + hidden, 400},
		"a length with a sign":          {post + "Content-Length: +2\r\n\r\n{}" + hidden, 400},
		"another encoding":              {post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden, 501},
		"two encodings":                 {post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + hidden, 501},
		"a blank before the colon":      {post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden, 400},
		"two hosts":                     {"GET /v1/models HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n" + hidden, 400},
		"no host":                       {"GET /v1/models HTTP/1.1\r\n\r\n" + hidden, 400},
		"a NUL in a name":               {"GET /v1/models HTTP/1.1\r\nHost: x\r\nX\x00: y\r\n\r\n" + hidden, 400},
		"a chunk of a negative length":  {post + "Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n" + hidden, 400},
		"a chunk longer than it says":   {post + "Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n" + hidden, 400},
		"an old version with chunks":    {strings.Replace(post, "1.1", "1.0", 1) + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, 400},
		"an old version with a length":  {strings.Replace(post, "1.1", "1.0", 1) + "Content-Length: 2\r\n\r\n{}" + hidden, 400},
		"a body where none is expected": {"GET /v1/models HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			statuses, closed := w.raw(row.text)
			if !slices.Equal(statuses, []int{row.status}) || !closed {
				t.Errorf("answers %v, closed %v; want one %d and the end", statuses, closed, row.status)
			}
		})
	}
	// The bytes after the announced length are the next request.
	if statuses, _ := w.raw("GET /v1/models HTTP/1.1\r\nHost: x\r\nContent-Length: " + strconv.Itoa(len(hidden)) + "\r\n\r\n" + hidden + last); !slices.Equal(statuses, []int{200, 200}) {
		t.Errorf("a body of a GET, and another request: %v", statuses)
	}
}

// TestHeadersOfCallersStayHere checks that an upstream gets the caller's body and none of its
// headers.
func TestHeadersOfCallersStayHere(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got http.Header
	up := apitest.NewHost(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got = r.Header.Clone()
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`)
	})
	w := newWorld(t, apitest.UpstreamAt(up), apitest.TwoTenants)
	headers := append(apitest.ByAcme, "Cookie", "a=b", "X-Forwarded-For", "10.0.0.1", "X-Forwarded-Host", "evil", "Forwarded", "for=1", "Te", "trailers", "Trailer", "X-Late",
		"Connection", "X-Account", "X-Account", "theirs", "Proxy-Authorization", "Basic x", "Accept-Encoding", "br", "Expect", "100-continue", "Range", "bytes=0-1",
		"Openai-Organization", "org", "X-Api-Key", "k", "Genbus-Labels", "a=b", "X-Request-Id", "mine", "Referer", "http://x", "Origin", "http://x", "User-Agent", "evil")
	if a := w.Post("/v1/chat/completions", apitest.TalkBody("hi"), headers...); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	mu.Lock()
	defer mu.Unlock()
	allowed := []string{"Accept", "Accept-Encoding", "Authorization", "Content-Length", "Content-Type", "Idempotency-Key", "Traceparent", "User-Agent", "X-Account"}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if !slices.Contains(allowed, name) {
			t.Errorf("the upstream got %s: %q", name, got[name])
		}
	}
	if got.Get("Authorization") != "Bearer sk-upstream" || got.Get("X-Account") != "ours" || got.Get("User-Agent") == "evil" || got.Get("Accept-Encoding") == "br" {
		t.Errorf("the upstream got %v", got)
	}
}

// TestLogsHaveOneLineForOneEvent checks that callers cannot forge log lines, and that the log
// contains no keys or prompts.
func TestLogsHaveOneLineForOneEvent(t *testing.T) {
	t.Parallel()
	const forged, prompt = "forged-line-5f3a", "prompt-9d21"
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			log := &apitest.Lines{}
			logger := apitest.Must[*slog.Logger](t)(telemetry.NewLogger(log, "debug", format))
			w := &world{apitest.NewWith(t, apitest.Options{Logger: logger})}
			evil := "x\n" + forged + "\r\n\x1b[31m" + forged + "\u2028" + forged
			w.Post("/v1/chat/completions", apitest.TalkBody(prompt), "X-Request-Id", "a b\t"+forged)
			w.raw("GET /v1/videos/%0a" + forged + "%0d%0a%1b HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-Id: " + forged + "\t\x7f\r\n\r\n")
			w.Post("/v1/videos", `{"model":"x\n`+forged+`","prompt":"`+prompt+`"}`, "Idempotency-Key", forged)
			logger.Warn("what a caller said: "+evil, //nolint:sloglint // the test needs a message that varies
				telemetry.KeySubject, evil, evil, "value", telemetry.KeyError, errors.New(evil))
			text := log.String()
			if !strings.Contains(text, "what a caller said") {
				t.Fatalf("nothing was logged: %q", text)
			}
			for line := range strings.Lines(text) {
				whole := strings.HasPrefix(line, "time=") || strings.HasPrefix(line, `{"time":`)
				if !whole || strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\r\x1b\u2028") {
					t.Errorf("a line is not one event: %q", line)
				}
			}
			if strings.Contains(text, prompt) {
				t.Errorf("the log holds a prompt: %s", text)
			}
		})
	}
}
