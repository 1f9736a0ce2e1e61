package client_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/genbus/genbus/client"
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service/servicetest"
	"github.com/genbus/genbus/test/freeport"
)

// startNATS starts a server with its data in dir; port -1 picks a free one. Stop it with stopNATS.
func startNATS(t *testing.T, dir string, port int) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir, MaxPayload: 8 << 20,
		JetStreamMaxStore: 100 << 30, JetStreamMaxMemory: 1 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(brokertest.Patience) {
		t.Fatal("the NATS server is not ready")
	}
	return s
}

func stopNATS(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

func startSandbox(t *testing.T, o sandbox.Options) string {
	t.Helper()
	up, err := sandbox.Start("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := up.Close(); err != nil {
			t.Error(err)
		}
	})
	return up.URL()
}

// TestFollowOutlivesRestarts checks that restarting the service, NATS, or both in one process in
// the middle of a video neither loses nor repeats an event.
func TestFollowOutlivesRestarts(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		start   func(t *testing.T) *restarts
		restart func(w *restarts)
	}{
		"service":  {newRestarts, func(w *restarts) { w.stopService(); w.startService() }},
		"NATS":     {newRestarts, func(w *restarts) { w.stopNATS(); w.startNATS() }},
		"embedded": {newEmbedded, func(w *restarts) { w.stopService(); w.startService() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := row.start(t)
			c, ctx := connect(t, w.url, client.Options{Reread: time.Second}), within(t, 2*time.Minute)
			w.unfinished.Store(true) // until the restart
			task, err := c.SubmitVideo(ctx, video("sandbox-video:duration_ms=50", ""))
			if err != nil {
				t.Fatal(err)
			}
			var versions []uint64
			var last genbusv1.JobStatus
			restarted := false
			for e, err := range c.FollowVideo(ctx, task.GetId(), 0) {
				if err != nil {
					t.Fatal(err)
				}
				versions, last = append(versions, e.GetVersion()), e.GetTask().GetStatus()
				if last == genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS && !restarted {
					restarted = true
					row.restart(w)
					w.unfinished.Store(false)
				}
			}
			for i, v := range versions {
				if v != uint64(i+1) {
					t.Fatalf("the versions are %v", versions)
				}
			}
			if !restarted || last != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
				t.Errorf("it ended as %s, after %v", last, versions)
			}
		})
	}
}

// TestChatOutlivesARestart checks that a chat interrupted by a service restart continues with a new
// attempt, whose blocks are the reply.
func TestChatOutlivesARestart(t *testing.T) {
	t.Parallel()
	w := newRestarts(t)
	c, ctx := connect(t, w.url, client.Options{Reread: time.Second}), within(t, 2*time.Minute)
	accepted, err := c.SubmitChat(ctx, chat("sandbox-chat:chunk_interval_ms=50"))
	if err != nil {
		t.Fatal(err)
	}
	var text string
	var attempt uint32
	var end *genbusv1.Chat
	restarted := false
	for i, err := range c.FollowChat(ctx, accepted.GetId()) {
		if err != nil || i.Gap != nil {
			t.Fatal(err, i.Gap)
		}
		if i.Event != nil {
			end = i.Event.GetChat()
			if end.GetAttempt() > attempt {
				attempt, text = end.GetAttempt(), ""
			}
		}
		text += i.Text()
		if text != "" && !restarted {
			restarted = true
			w.stopService()
			w.startService()
		}
	}
	if end.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || text != content(ctx, t, c, end) {
		t.Errorf("attempt %d ended as %s, %v, with %q", attempt, end.GetStatus(), end.GetError(), text)
	}
}

// restarts is a service and its NATS server.
type restarts struct {
	t       *testing.T
	dir     string
	port    int
	url     string
	nats    *server.Server
	service *servicetest.Running
	options servicetest.Options

	unfinished atomic.Bool // keeps the upstream's videos in progress
}

func newRestarts(t *testing.T) *restarts {
	t.Helper()
	w := &restarts{t: t, dir: t.TempDir(), port: freePort(t)}
	w.startNATS()
	w.options = servicetest.Options{NATSURL: w.url, Upstream: w.upstream()}
	w.startService()
	t.Cleanup(func() { w.stopService(); w.stopNATS() })
	return w
}

// newEmbedded starts a service with an embedded NATS server at a fixed address.
func newEmbedded(t *testing.T) *restarts {
	t.Helper()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))
	w := &restarts{t: t, url: "nats://" + addr}
	w.options = servicetest.Options{DataDir: t.TempDir(), Listen: addr, Upstream: w.upstream()}
	w.startService()
	t.Cleanup(w.stopService)
	return w
}

// upstream starts a sandbox behind a proxy that answers polls itself while unfinished is set.
func (w *restarts) upstream() string {
	w.t.Helper()
	target, err := url.Parse(startSandbox(w.t, sandbox.Options{}))
	if err != nil {
		w.t.Fatal(err)
	}
	// Other tests close the idle connections of http.DefaultTransport when they end.
	transport := &http.Transport{}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = transport
	front := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if dir, id := path.Split(r.URL.Path); r.Method == http.MethodGet && dir == "/v1/video/generations/" && w.unfinished.Load() {
			out.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(out, `{"task_id":%q,"status":"in_progress"}`, id)
			return
		}
		proxy.ServeHTTP(out, r)
	}))
	w.t.Cleanup(func() {
		front.Close()
		transport.CloseIdleConnections() // to the sandbox
	})
	return front.URL
}

func (w *restarts) startNATS() {
	w.t.Helper()
	w.nats = startNATS(w.t, w.dir, w.port)
	w.url = w.nats.ClientURL()
}

func freePort(t *testing.T) int {
	t.Helper()
	ports, err := freeport.Ports(1)
	if err != nil {
		t.Fatal(err)
	}
	return ports[0]
}

func (w *restarts) stopNATS() { stopNATS(w.nats) }

func (w *restarts) startService() {
	w.t.Helper()
	var err error
	if w.service, err = servicetest.Start(w.options); err != nil {
		w.t.Fatal(err)
	}
}

func (w *restarts) stopService() {
	w.t.Helper()
	if err := w.service.Stop(); err != nil {
		w.t.Error(err)
	}
}
