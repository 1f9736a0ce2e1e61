package faultinject

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/sandbox"
)

// newTestUpstream starts an upstream until the test ends. The returned client follows no redirects
// and resends nothing.
func newTestUpstream(t *testing.T, mix Mix) (*Upstream, *http.Client) {
	t.Helper()
	u := newUpstream(t, UpstreamOptions{
		Seed: 1, Faults: mix,
		Timing:  Timing{Latency: 50 * time.Millisecond, Drip: time.Millisecond, Late: time.Hour},
		Sandbox: sandbox.Options{VideoDuration: time.Millisecond, ChunkInterval: time.Millisecond, RepeatCreates: true},
	})
	return u, newClient(t, func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse })
}

func newUpstream(t *testing.T, o UpstreamOptions) *Upstream {
	t.Helper()
	u, err := NewUpstream(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
	return u
}

func newClient(t *testing.T, redirect func(*http.Request, []*http.Request) error) *http.Client {
	t.Helper()
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: redirect, Timeout: patience}
}

func always(op Op, f Fault) Mix {
	if f == None {
		return nil
	}
	return Mix{op: {f: 1}}
}

const (
	videoBody  = `{"model":"sandbox-video","prompt":"a cat mark=m1"}`
	chatBody   = `{"model":"sandbox-chat","messages":[{"role":"user","content":"hello mark=m1"}]}`
	streamBody = `{"model":"sandbox-chat","stream":true,"messages":[{"role":"user","content":"hello mark=m1"}]}`
)

var paths = map[Op]string{OpCreate: "/v1/video/generations", OpChat: "/v1/chat/completions"}

// reply is a possibly incomplete answer and the error that ended it.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

// post sends a body once. net/http does not resend it, because the body cannot be read again.
func post(t *testing.T, c *http.Client, url, key, body string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, io.NopCloser(strings.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = int64(len(body))
	return send(c, req, key)
}

func get(t *testing.T, c *http.Client, url string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return send(c, req, "")
}

func send(c *http.Client, req *http.Request, key string) reply {
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := c.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(body), err: err}
}

// only waits until the only post of the ledger has ended, and returns it.
func only(t *testing.T, u *Upstream) Post {
	t.Helper()
	await(t, "the end of the post", func() bool {
		posts := u.Ledger()
		return len(posts) > 0 && !posts[len(posts)-1].Ended.IsZero()
	})
	posts := u.Ledger()
	if len(posts) != 1 {
		t.Fatalf("the ledger holds %d posts: %+v", len(posts), posts)
	}
	return posts[0]
}

// create creates a task on an upstream without faults and returns its ID.
func create(t *testing.T, u *Upstream, c *http.Client, key string) string {
	t.Helper()
	r := post(t, c, u.URL()+paths[OpCreate], key, videoBody)
	id := taskIDOf([]byte(r.body))
	if r.err != nil || id == "" {
		t.Fatalf("create: %+v", r)
	}
	return id
}

var errNotSo = errors.New("not so")

func isCut(err error) bool {
	return err != nil && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || strings.Contains(fmt.Sprint(err), "reset"))
}
