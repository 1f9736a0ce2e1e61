package upstream

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"
)

// TestMain runs more tests in parallel than there are processors, because many wait for deadlines.
func TestMain(m *testing.M) {
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = flag.Set("test.parallel", strconv.Itoa(max(16, runtime.GOMAXPROCS(0)))) // the flag exists
	}
	goleak.VerifyTestMain(m)
}

const testKey = "sk-test-0123456789"

func testEndpoint(t testing.TB, handler http.HandlerFunc) *Endpoint {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	transport := NewTransport(TransportOptions{})
	t.Cleanup(transport.CloseIdleConnections)
	return &Endpoint{Name: "test", BaseURL: server.URL, Key: testKey, Transport: transport}
}

func TestEndpointURL(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"https://host":         "https://host/v1/models",
		"https://host/":        "https://host/v1/models",
		"https://host/v1":      "https://host/v1/models",
		"https://host/v1/":     "https://host/v1/models",
		"https://host/v1//":    "https://host/v1/models",
		"https://host/api/v1":  "https://host/api/v1/models",
		"https://host/api":     "https://host/api/v1/models",
		"https://host/api/xv1": "https://host/api/xv1/v1/models",
	} {
		if got := (&Endpoint{BaseURL: base}).URL("/v1/models"); got != want {
			t.Errorf("URL of base %s = %s, want %s", base, got, want)
		}
	}
}

func TestSecretNeverPrints(t *testing.T) {
	t.Parallel()
	ep := &Endpoint{Name: "u", BaseURL: "https://host", Key: testKey, Header: http.Header{"X-Key": {testKey}}}
	var out strings.Builder
	for _, verb := range []string{"%s", "%v", "%+v", "%#v", "%q", "%x", "%d", "%t"} {
		fmt.Fprintf(&out, verb, ep.Key)
		fmt.Fprintf(&out, verb, struct{ K Secret }{ep.Key})
	}
	fmt.Fprintf(&out, "%s %v", ep, ep)
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("x", "key", ep.Key, "endpoint", ep)
	}
	if err := json.NewEncoder(&out).Encode(ep.Key); err != nil {
		t.Fatal(err)
	}
	for _, leak := range []string{testKey, fmt.Sprintf("%x", testKey)} {
		if strings.Contains(out.String(), leak) {
			t.Errorf("the key was printed: %s", out.String())
		}
	}
}

func TestNewRequestIsNotReplayable(t *testing.T) {
	t.Parallel()
	ep := &Endpoint{Name: "u", BaseURL: "http://host", Key: testKey}
	req, err := ep.NewRequest(t.Context(), http.MethodPost, "/v1/x", []byte("body"))
	if err != nil {
		t.Fatal(err)
	}
	if req.GetBody != nil || req.Body == nil || req.Body == http.NoBody || req.ContentLength != 4 {
		t.Errorf("net/http may resend this request: %+v", req)
	}
	httptrace.ContextClientTrace(req.Context()).WroteHeaders()
	if !req.Body.(*onceBody).seal() {
		t.Error("a request whose header block left counts as not written")
	}
	if req, err = ep.NewRequest(t.Context(), http.MethodPost, "/v1/x", []byte("body")); err != nil {
		t.Fatal(err)
	}
	if err := iotest.TestReader(req.Body, []byte("body")); err != nil {
		t.Error(err)
	}
	if _, err := ep.NewRequest(t.Context(), http.MethodPost, "/v1/x", []byte{}); err == nil {
		t.Error("an empty body was accepted")
	}
}

func TestNewRequestHeader(t *testing.T) {
	t.Parallel()
	ep := &Endpoint{BaseURL: "http://host", Key: testKey, Header: http.Header{
		"x-extra": {"1"}, "Authorization": {"other"}, "User-Agent": {"mine"},
	}}
	req, err := ep.NewRequest(t.Context(), http.MethodPost, "/v1/x", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer " + testKey, "X-Extra": "1", "User-Agent": "mine", "Content-Type": "application/json",
	} {
		if got := req.Header.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	ep.Key = ""
	if req, err = ep.NewRequest(t.Context(), http.MethodGet, "/v1/x", nil); err != nil {
		t.Fatal(err)
	}
	if req.Header.Get("Authorization") != "other" || req.Header.Get("Content-Type") != "" || req.Body != nil {
		t.Errorf("request without key and body = %+v", req)
	}
}

func TestOnceBodySealed(t *testing.T) {
	t.Parallel()
	b := newOnceBody(t.Context(), []byte("body"))
	if b.seal() {
		t.Error("an untouched body counts as written")
	}
	if n, err := b.Read(make([]byte, 8)); n != 0 || err == nil {
		t.Errorf("Read after seal = %d, %v", n, err)
	}
	b = newOnceBody(t.Context(), []byte("body"))
	if _, err := b.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if !b.seal() {
		t.Error("a body that was read counts as not written")
	}
	b = newOnceBody(t.Context(), []byte("body"))
	b.wroteHeaders()
	if !b.seal() {
		t.Error("a written header block counts as not written")
	}
}

func TestDoRemovesTheKeyFromErrors(t *testing.T) {
	t.Parallel()
	ep := testEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"message":"bad header `+r.Header.Get("Authorization")+`","code":"key `+testKey+`"}}`)
	})
	_, err := ListModels(t.Context(), ep)
	if err == nil || strings.Contains(err.Error(), testKey) || !strings.Contains(err.Error(), redacted) {
		t.Errorf("error = %v, want the key replaced", err)
	}
	if e := AsError("", err); e.Code != "key "+redacted {
		t.Errorf("code = %q", e.Code)
	}
	state, err := ep.Poll(t.Context(), TaskRef{ID: "1"}, PollCall{Path: "/v1/x", Read: func(*http.Response, []byte) (VideoState, bool, error) {
		return VideoState{Progression: Failed, Named: true, Err: &Error{Message: "failed with " + testKey}}, true, nil
	}})
	if err != nil || state.Err.Message != "failed with "+redacted {
		t.Errorf("poll: %+v, %v", state.Err, err)
	}
}

// TestShortKeysAreRemovedAsWords checks that a short key is not removed from longer words.
func TestShortKeysAreRemovedAsWords(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ key, message, want string }{
		{"abc123", `invalid key "abc123" abc123 (abc123)`, `invalid key "[redacted]" [redacted] ([redacted])`},
		{"none", "none of the nonexistent models", "[redacted] of the nonexistent models"},
		{"-k+", "bad -k+, and -k+", "bad [redacted], and [redacted]"},
		{"", "no key", "no key"},
	} {
		ep := &Endpoint{Key: Secret(row.key)}
		if got := ep.clean(row.message); got != row.want {
			t.Errorf("key %q: %q, want %q", row.key, got, row.want)
		}
	}
}

func TestDoErrorNamesTheCause(t *testing.T) {
	t.Parallel()
	ep := testEndpoint(t, func(http.ResponseWriter, *http.Request) {})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("the deadline of 24h is over"))
	req, err := ep.NewRequest(ctx, http.MethodPost, "/v1/x", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := ep.Do("chat", req)
	if err == nil {
		_ = resp.Body.Close()
		t.Fatal("Do succeeded with a cancelled context")
	}
	e := AsError("chat", err)
	if e.Written || e.Reported || e.Op != "chat" || e.Message != "could not reach the upstream: the deadline of 24h is over" {
		t.Errorf("error = %+v", e)
	}
}

func TestAppendBodyLimit(t *testing.T) {
	t.Parallel()
	ep := testEndpoint(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 1000)) })
	for limit, ok := range map[int64]bool{999: false, 1000: true, 0: true} {
		limited := *ep
		limited.MaxBody = limit
		req, err := limited.NewRequest(t.Context(), http.MethodGet, "/v1/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := limited.Do("poll", req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := limited.AppendBody("poll", resp, []byte("prefix"))
		if (err == nil) != ok {
			t.Errorf("limit %d: error %v", limit, err)
		}
		if ok && string(body) != "prefix"+strings.Repeat("x", 1000) {
			t.Errorf("limit %d: %d bytes", limit, len(body))
		}
	}
}
