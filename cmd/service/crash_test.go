package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/test/freeport"
)

const crashPatience = 3 * time.Minute

// rig runs the service and its upstream in separate processes, so that the service can be killed
// alone.
type rig struct {
	t        *testing.T
	dir      string
	nats     string
	upstream string
	env      []string
	service  *exec.Cmd
	ended    chan error
	log      *lockedBuffer
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// crashConfig limits concurrency so that creates can be cut off while most tasks wait.
const crashConfig = `
upstreams:
  sandbox: {base_url: %q}
routes:
  - name: video
    kind: video
    models: ["*"]
    upstream: sandbox
    max_in_flight: %d
    ack_wait: 10m # what comes back sooner was given back, or taken back at the start
    poll: {interval: 200ms}
    timeouts: {create: 2s}
`

func newRig(t *testing.T) *rig {
	t.Helper()
	brokertest.Full(t, "kills the service")
	r := &rig{t: t, dir: t.TempDir(), nats: freeAddr(t), log: &lockedBuffer{}}
	upstream := freeAddr(t)
	r.upstream = "http://" + upstream
	file := filepath.Join(r.dir, "genbus.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, crashConfig, r.upstream, someJobs/6), 0o600); err != nil {
		t.Fatal(err)
	}
	r.env = append(os.Environ(), runAsService+"=1", "GENBUS_SANDBOX_ADDR="+upstream, "GENBUS_NATS_LISTEN="+r.nats,
		"GENBUS_DATA_DIR="+filepath.Join(r.dir, "data"), "GENBUS_HTTP_ADDR=127.0.0.1:0", "GENBUS_GRPC_ADDR=127.0.0.1:0",
		"GENBUS_LOG_LEVEL=warn", "GENBUS_NATS_SYNC_ALWAYS=false", "GENBUS_CONFIG="+file)
	up, ended := r.spawn("sandbox")
	t.Cleanup(func() {
		if err := up.Process.Kill(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err == nil {
			t.Error("the sandbox ended by itself")
		}
		http.DefaultClient.CloseIdleConnections()
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	r.await("the sandbox", func(ctx context.Context) error { _, err := r.stats(ctx); return err })
	return r
}

func freeAddr(t *testing.T) string {
	t.Helper()
	addrs, err := freeport.Addrs(1)
	if err != nil {
		t.Fatal(err)
	}
	return addrs[0]
}

func (r *rig) spawn(command string) (*exec.Cmd, chan error) {
	r.t.Helper()
	cmd := exec.Command(os.Args[0], command)
	cmd.Env, cmd.Stdout, cmd.Stderr = r.env, io.Discard, r.log
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return cmd, ended
}

// start starts the service and waits until it consumes requests.
func (r *rig) start() (*nats.Conn, jetstream.JetStream) {
	r.t.Helper()
	r.service, r.ended = r.spawn("serve")
	var nc *nats.Conn
	var js jetstream.JetStream
	r.await("the service", func(ctx context.Context) (err error) {
		select {
		case err := <-r.ended:
			r.t.Fatalf("the service ended: %v\n%s", err, r.log.String())
		default:
		}
		if nc, err = nats.Connect("nats://"+r.nats, nats.NoReconnect()); err != nil {
			return err
		}
		if js, err = jetstream.New(nc); err == nil {
			_, err = js.Consumer(ctx, "GENBUS_REQUESTS", "intake-chat") // created last during startup
		}
		if err != nil {
			nc.Close()
		}
		return err
	})
	return nc, js
}

// end signals the service and waits until it exits.
func (r *rig) end(sig syscall.Signal) error {
	r.t.Helper()
	if err := r.service.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
	select {
	case err := <-r.ended:
		return err
	case <-time.After(crashPatience):
		r.t.Fatalf("the service did not end on %s", sig)
		return nil
	}
}

func (r *rig) stats(ctx context.Context) (sandbox.Stats, error) {
	var s sandbox.Stats
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.upstream+"/stats", nil)
	if err != nil {
		return s, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&s)
	return s, err
}

func (r *rig) awaitCreates(n int64) {
	r.t.Helper()
	r.await(fmt.Sprintf("%d creates", n), func(ctx context.Context) error {
		s, err := r.stats(ctx)
		if err == nil && s.Creates < n {
			err = fmt.Errorf("%d so far", s.Creates)
		}
		return err
	})
}

func (r *rig) await(what string, ask func(context.Context) error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), crashPatience)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		if broker.Wait(ctx, 5*time.Millisecond) != nil {
			r.t.Fatalf("%s did not come: %v\n%s", what, err, r.log.String())
		}
	}
}

// fill publishes n requests with slow creates and videos of 1 to 3 seconds.
func (r *rig) fill(js jetstream.JetStream, n int) {
	r.t.Helper()
	for i := range n {
		request := &genbusv1.VideoRequest{RequestId: fmt.Sprint("r", i), Body: &genbusv1.VideoRequest_RawJson{RawJson: fmt.Appendf(nil,
			`{"model":"sandbox-video","prompt":"video %d","metadata":{"sandbox":{"delay_ms":%d,"duration_ms":%d}}}`, i, 30+i%50, 1000+i*7%2000)}}
		data, err := proto.Marshal(request)
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := js.PublishAsync("genbus.request.video.default", data); err != nil {
			r.t.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(crashPatience):
		r.t.Fatal("the requests were not stored")
	}
}

// ends reads the feed until n tasks have ended, and returns the events of each.
func (r *rig) ends(js jetstream.JetStream, n int) map[string][]task.Event {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), crashPatience)
	defer cancel()
	names := subject.Default()
	c, err := js.OrderedConsumer(ctx, names.Tasks(), jetstream.OrderedConsumerConfig{FilterSubjects: []string{names.TaskPattern(), names.DonePattern()}})
	if err != nil {
		r.t.Fatal(err)
	}
	out, done := map[string][]task.Event{}, map[string]int{}
	for len(done) < n {
		m, err := c.Next(jetstream.FetchContext(ctx))
		if err != nil {
			r.t.Fatalf("%d of %d ended: %v\n%s", len(done), n, err, r.log.String())
		}
		if name, err := names.ParseDone(m.Subject()); err == nil {
			done[name.ID]++
			continue
		}
		e, err := publisher.DecodeEvent(subject.Video, m.Headers(), m.Data())
		if err != nil {
			r.t.Fatal(err)
		}
		out[e.Job.GetId()] = append(out[e.Job.GetId()], e)
	}
	for id, times := range done {
		if times != 1 {
			r.t.Errorf("%s stands %d times in the feed", id, times)
		}
	}
	return out
}

// check validates all histories and counts their error codes.
func (r *rig) check(ends map[string][]task.Event) map[string]int {
	r.t.Helper()
	codes := map[string]int{}
	for id, events := range ends {
		for i, e := range events {
			if e.Version() != uint64(i+1) || e.Terminal() != (i == len(events)-1) {
				r.t.Errorf("%s: event %d has version %d, terminal %t", id, i, e.Version(), e.Terminal())
			}
		}
		end := events[len(events)-1].Job
		codes[end.GetError().GetCode()]++
		if end.GetError() == nil {
			continue
		}
		before := events[len(events)-2].Job.GetExecution()
		if end.GetError().GetCode() != "submission_outcome_unknown" || before.GetPhase() != genbusv1.JobPhase_JOB_PHASE_SUBMITTING {
			r.t.Errorf("%s ended %v after %s", id, end.GetError(), before.GetPhase())
		}
	}
	return codes
}

// TestKilledInTheMiddle proves that after three kills every task ends once, no task is submitted
// twice, and only tasks with an interrupted submission end as unknown.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	const n = someJobs
	r := newRig(t)
	nc, js := r.start()
	r.fill(js, n)
	for range 3 {
		s, err := r.stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.awaitCreates(s.Creates + n/8)
		nc.Close()
		if err := r.end(syscall.SIGKILL); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("the service ended by itself: %v", err)
		}
		nc, js = r.start()
	}
	codes := r.check(r.ends(js, n))
	nc.Close()
	if err := r.end(syscall.SIGTERM); err != nil {
		t.Errorf("the clean stop: %v\n%s", err, r.log.String())
	}
	s, err := r.stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d completed, %d unknown, %d creates", codes[""], codes["submission_outcome_unknown"], s.Creates)
	if s.MaxCreatesPerKey != 1 {
		t.Errorf("a key was submitted %d times", s.MaxCreatesPerKey)
	}
	if codes[""]+codes["submission_outcome_unknown"] != n {
		t.Errorf("ends: %v", codes)
	}
}

// TestStoppedCleanly proves that a restart in the middle loses no task and leaves none unknown.
func TestStoppedCleanly(t *testing.T) {
	t.Parallel()
	const n = someJobs / 2
	r := newRig(t)
	nc, js := r.start()
	r.fill(js, n)
	r.awaitCreates(n / 3)
	nc.Close()
	if err := r.end(syscall.SIGTERM); err != nil {
		t.Errorf("the clean stop: %v\n%s", err, r.log.String())
	}
	nc, js = r.start()
	codes := r.check(r.ends(js, n))
	nc.Close()
	if err := r.end(syscall.SIGTERM); err != nil {
		t.Errorf("the second clean stop: %v\n%s", err, r.log.String())
	}
	if s, err := r.stats(t.Context()); err != nil || s.MaxCreatesPerKey != 1 || codes[""] != n {
		t.Errorf("ends %v, creates for one key %d, %v", codes, s.MaxCreatesPerKey, err)
	}
}
