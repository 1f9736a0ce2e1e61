package natsacl_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/sandbox"
)

// running is the real service on NATS servers with the configuration of deploy/nats.
type running struct {
	*node   // the first of nodes
	nodes   []*node
	t       testing.TB
	up      *sandbox.Sandbox
	service *process
	base    string // HTTP URL
	grpc    string // address
	client  *http.Client
}

// serviceConfig has four video routes: an ordinary one, one that archives results, one with a
// single slot, and one whose creates lose their connection.
const serviceConfig = `
nats: {url: %q, user: service, password_env: NATS_SERVICE_PASSWORD, replicas: %d, tls: {%s}}
http: {addr: "127.0.0.1:0"}
grpc: {addr: "127.0.0.1:0"}
upstreams:
  sandbox: {base_url: %q}
routes:
  - {name: video, kind: video, models: ["sandbox-video"], upstream: sandbox, poll: {interval: 200ms}}
  - {name: archived, kind: video, models: ["archived"], upstream: sandbox, upstream_model: sandbox-video, archive: true, poll: {interval: 200ms}}
  - {name: slow, kind: video, models: ["slow"], upstream: sandbox, upstream_model: "sandbox-video:duration_ms=600000", max_in_flight: 1, ready_jobs: 1}
  - {name: cut-off, kind: video, models: ["cut-off"], upstream: sandbox, upstream_model: "sandbox-video:drop=after_create"}
  - {name: chat, kind: chat, models: ["sandbox-chat*"], upstream: sandbox}
operator_keys: [{name: operator, key_env: OPERATOR_KEY}]
log: {level: warn}
shutdown: {grace: 10s}
`

// operatorKey authenticates the operator's calls.
const operatorKey = "an-operators-key-of-32-characters"

// run starts the service on all nodes, with one replica of each stream on each node. tls is the
// value of nats.tls.
func run(t testing.TB, tls string, nodes ...*node) *running {
	t.Helper()
	brokertest.Full(t, "builds and runs the service")
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.ClientURL())
	}
	up, err := sandbox.Start("127.0.0.1:0", sandbox.Options{VideoDuration: 500 * time.Millisecond, ChunkInterval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := up.Close(); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(t.TempDir(), "genbus.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, serviceConfig, strings.Join(urls, ","), len(nodes), tls, up.URL()), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &running{node: nodes[0], nodes: nodes, t: t, up: up.Sandbox, client: &http.Client{Transport: &http.Transport{}, Timeout: patience}}
	r.service = spawn(t, []string{"GENBUS_CONFIG=" + file, "OPERATOR_KEY=" + operatorKey}, "service", "serve")
	r.base = strings.Fields(r.service.line("HTTP", "http://"))[1]
	r.grpc = strings.Fields(r.service.line("gRPC", "127.0.0.1:"))[1]
	t.Cleanup(r.client.CloseIdleConnections)
	return r
}

// end stops the service. It fails if the service exits with an error, or if NATS refused anything
// to any client.
func (r *running) end() {
	r.t.Helper()
	r.service.stop(syscall.SIGTERM)
	for _, line := range strings.Split(r.service.stderr.String(), "\n") {
		if strings.Contains(line, "ermissions") {
			r.t.Errorf("the service was refused something: %s", line)
		}
	}
	for _, n := range r.nodes {
		for _, line := range n.log.violations() {
			r.t.Errorf("somebody was refused something: %s", line)
		}
	}
}

// url returns the server's URL with a user's credentials.
func (r *running) url(user string) string {
	return strings.Replace(r.ClientURL(), "nats://", "nats://"+user+":"+password(user)+"@", 1)
}

// http sends a JSON request and returns the status and the JSON response.
func (r *running) http(method, path, body string, header ...string) (int, map[string]any) {
	r.t.Helper()
	status, data := r.fetch(method, path, body, header...)
	var out map[string]any
	if len(data) > 0 {
		if err := json.Unmarshal(data, &out); err != nil {
			r.t.Fatalf("%s %s: %s: %v", method, path, data, err)
		}
	}
	return status, out
}

func (r *running) fetch(method, path, body string, header ...string) (int, []byte) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.base+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, data
}

// create creates a video over HTTP and returns its ID. It retries while the broker is unavailable.
func (r *running) create(body string) string {
	r.t.Helper()
	var status int
	var answer map[string]any
	await(r.t, "a broker that is there", func() error {
		if status, answer = r.http(http.MethodPost, "/v1/video/generations", body); status == http.StatusServiceUnavailable {
			return fmt.Errorf("%v", answer)
		}
		return nil
	})
	id, _ := answer["id"].(string)
	if status != http.StatusOK || id == "" {
		r.t.Fatalf("create: %d %v", status, answer)
	}
	return id
}

// completed waits in the tenant's copy of the feed until a video has completed.
func (r *running) completed(js jetstream.JetStream, id string) {
	r.t.Helper()
	ends := r.read(js, names.Done("video", local, "*", id), 1)
	if want := names.Done("video", local, "completed", id); ends[0] != want {
		r.t.Errorf("ended as %s", ends[0])
	}
}

// read waits for n messages in the tenant's copy of the log and returns their subjects. It retries,
// because a new consumer on a cluster may not answer yet.
func (r *running) read(js jetstream.JetStream, filter string, n int) (subjects []string) {
	r.t.Helper()
	await(r.t, filter, func() error {
		c, err := js.OrderedConsumer(r.t.Context(), "GENBUS_TASKS", jetstream.OrderedConsumerConfig{FilterSubjects: []string{filter}})
		if err != nil {
			return err
		}
		subjects = nil
		for range n {
			m, err := c.Next(jetstream.FetchMaxWait(5 * time.Second))
			if err != nil {
				return fmt.Errorf("after %d messages: %w", len(subjects), err)
			}
			subjects = append(subjects, m.Subject())
		}
		return nil
	})
	return subjects
}

// call sends a JSON request over NATS and returns the job ID. It retries like create.
func (r *running) call(nc *nats.Conn, kind, body string, header ...string) string {
	r.t.Helper()
	m := message("genbus.call."+kind+"."+local, body, append(header, "content-type", "application/json"))
	var reply *nats.Msg
	await(r.t, "a broker that is there", func() (err error) {
		if reply, err = nc.RequestMsg(m, patience); err == nil && reply.Header.Get("genbus-error-code") == "broker_unavailable" {
			err = fmt.Errorf("%s", reply.Data)
		}
		return err
	})
	id := reply.Header.Get("genbus-job-id")
	if id == "" {
		r.t.Fatalf("refused: %v %s", reply.Header, reply.Data)
	}
	return id
}
