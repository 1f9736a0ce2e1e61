package sandbox_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bundle is a running sandbox with its own client.
type bundle struct {
	*sandbox.Server
	client *http.Client
	url    string // if the server does not listen
}

func (b bundle) URL() string {
	if b.url != "" {
		return b.url
	}
	return b.Server.URL()
}

type inProcess struct{ http.Handler }

func (h inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	asked := r.Clone(r.Context())
	asked.Host, asked.RequestURI = r.URL.Host, r.URL.RequestURI()
	h.ServeHTTP(rec, asked)
	return rec.Result(), nil
}

// setupInBubble is setup for a synctest bubble, in which time passes only while the test waits.
func setupInBubble(opts sandbox.Options) bundle {
	s := sandbox.New(opts)
	return bundle{Server: &sandbox.Server{Sandbox: s}, client: &http.Client{Transport: inProcess{s}}, url: "http://sandbox"}
}

func setup(t *testing.T, opts sandbox.Options) bundle {
	t.Helper()
	server, err := sandbox.Start("127.0.0.1:0", opts)
	if err != nil {
		t.Fatal(err)
	}
	// The timeout is generous, so that a hanging test fails where it hangs.
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return bundle{Server: server, client: client}
}

type answer struct {
	status int
	header http.Header
	body   []byte
	err    error // of the request or of reading the body
}

func (a answer) json(t *testing.T) map[string]any {
	t.Helper()
	if a.err != nil {
		t.Fatalf("request failed: %v", a.err)
	}
	var v map[string]any
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("body %q is not JSON: %v", a.body, err)
	}
	return v
}

func (b bundle) do(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, b.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	// With an Idempotency-Key, net/http would retry a POST after a reset.
	req.GetBody = nil
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := b.client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = res.Body.Close() }()
	var buf bytes.Buffer
	_, err = io.Copy(&buf, res.Body)
	return answer{status: res.StatusCode, header: res.Header, body: buf.Bytes(), err: err}
}

func (b bundle) create(t *testing.T, body string, headers ...string) answer {
	t.Helper()
	return b.do(t, http.MethodPost, "/v1/video/generations", body, headers...)
}

func (b bundle) poll(t *testing.T, id string) answer {
	t.Helper()
	return b.do(t, http.MethodGet, "/v1/video/generations/"+id, "")
}

// at follows a path of keys and indexes through decoded JSON. It returns nil if the path does not
// exist.
func at(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			list, _ := v.([]any)
			if step >= len(list) {
				return nil
			}
			v = list[step]
		}
	}
	return v
}

const pollEvery = 5 * time.Millisecond

// until polls a task until its status is one of words.
func (b bundle) until(t *testing.T, id string, status func(map[string]any) any, words ...string) map[string]any {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for ; time.Now().Before(deadline); <-time.After(pollEvery) {
		v := b.poll(t, id).json(t)
		for _, word := range words {
			if status(v) == word {
				return v
			}
		}
	}
	t.Fatalf("task %s never became one of %v", id, words)
	return nil
}

func flatStatus(v map[string]any) any     { return at(v, "status") }
func envelopeStatus(v map[string]any) any { return at(v, "data", "status") }
func idOf(t *testing.T, a answer) string {
	t.Helper()
	id, _ := a.json(t)["task_id"].(string)
	if id == "" {
		t.Fatalf("create answered %d %s, want a task_id", a.status, a.body)
	}
	return id
}
