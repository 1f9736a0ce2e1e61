package clients_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"sync/atomic"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service/servicetest"
)

// world is a running service with its sandbox.
type world struct {
	*servicetest.Running
	up   *sandbox.Server
	base string
}

// newWorld starts a sandbox and a service. change may modify the configuration.
func newWorld(t *testing.T, o sandbox.Options, change func(*config.Config)) world {
	t.Helper()
	up := startSandbox(t, o)
	s := servicetest.New(t, servicetest.Options{Upstream: up.URL(), Change: change})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return world{s, up, "http://" + s.HTTPAddr().String()}
}

func startSandbox(t *testing.T, o sandbox.Options) *sandbox.Server {
	t.Helper()
	up, err := sandbox.Start("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := up.Close(); err != nil {
			t.Error(err)
		}
	})
	return up
}

// received is a request as the sandbox received it.
type received struct {
	header http.Header
	body   []byte
}

// creates returns the requests that create videos and chats, from now on.
func (w world) creates(t *testing.T) <-chan received {
	requests := make(chan received, 4)
	w.up.Sandbox.SetBehaviour(func(r *http.Request, body []byte) *sandbox.Behaviour {
		if r.Method == http.MethodPost {
			requests <- received{r.Header, bytes.Clone(body)}
		}
		return nil
	})
	t.Cleanup(func() { w.up.Sandbox.SetBehaviour(nil) })
	return requests
}

func (w world) openAI(opts ...option.RequestOption) (client openai.Client, sent *atomic.Int64) {
	return openAI(w.base, "any", opts...)
}

// openAI returns a client and a counter of the requests it sends.
func openAI(base, key string, opts ...option.RequestOption) (client openai.Client, sent *atomic.Int64) {
	sent = new(atomic.Int64)
	count := func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		sent.Add(1)
		return next(r)
	}
	return openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(base + "/v1"), option.WithAPIKey(key), option.WithMaxRetries(0), option.WithMiddleware(count),
	}, opts...)...), sent
}

// checkError checks an error of openai-go, and returns its type.
func checkError(t *testing.T, err error, status int, code string) string {
	t.Helper()
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != status || e.Code != code || e.Message == "" {
		t.Fatalf("got %v, want %d %s", err, status, code)
	}
	return e.Type
}

// theClip returns the file of every sandbox task.
func theClip(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../internal/sandbox/video.mp4")
	if err != nil {
		t.Fatal(err)
	}
	return data
}
