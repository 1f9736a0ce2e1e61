package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/faulttest"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// bedPatience bounds one wait of these tests.
const bedPatience = time.Minute

// bed is a NATS server of its own, and room for service processes that share it.
type bed struct {
	t     *testing.T
	nats  string // the server's address, around every link
	js    jetstream.JetStream
	nc    *nats.Conn
	names subject.Space
}

// newBed runs one NATS server in the test's process.
func newBed(t *testing.T) *bed {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		ServerName: "alone", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: t.TempDir(), JetStreamMaxMemory: 512 << 20, JetStreamMaxStore: 100 << 30, MaxPayload: 8 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(bedPatience) {
		t.Fatal("the NATS server did not start")
	}
	return bedOn(t, s.ClientURL())
}

// bedOn uses NATS servers that run already.
func bedOn(t *testing.T, url string) *bed {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return &bed{t: t, nats: url, js: js, nc: nc, names: subject.Default()}
}

// member is one replica: a process that reaches NATS through a link of its own,
// unless the bed's servers have theirs.
type member struct {
	*faulttest.Process
	bed  *bed
	link *faulttest.Link
	base string // of HTTP
	grpc string
}

// memberOptions is what differs between replicas.
type memberOptions struct {
	upstream string // base URL
	ackWait  time.Duration
	replicas int    // of the streams; 0: 1
	more     string // YAML of the top level
	direct   bool   // without a link
}

const memberConfig = `
nats: {replicas: %d}
upstreams:
  up: {base_url: %q}
routes:
  - {name: video, kind: video, models: ["*"], upstream: up, ack_wait: %[3]s, max_in_flight: 200, poll: {interval: 100ms}, timeouts: {create: 2s}}
  - {name: chat, kind: chat, models: ["*"], upstream: up, ack_wait: %[3]s}
%s
`

// start starts a replica and waits until it is ready.
func (b *bed) start(o memberOptions) *member {
	b.t.Helper()
	m := &member{bed: b, base: "http://" + freeAddr(b.t), grpc: freeAddr(b.t)}
	url := b.nats
	if !o.direct {
		var err error
		if m.link, err = faulttest.NewLink(strings.TrimPrefix(b.nats, "nats://")); err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() {
			if err := m.link.Close(); err != nil {
				b.t.Error(err)
			}
		})
		url = "nats://" + m.link.Addr()
	}
	dir := b.t.TempDir()
	file := filepath.Join(dir, "genbus.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, memberConfig, max(o.replicas, 1), o.upstream, o.ackWait, o.more), 0o600); err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), bedPatience)
	defer cancel()
	var err error
	m.Process, err = faulttest.Start(ctx, faulttest.Spec{
		Path: os.Args[0], Args: []string{"serve"}, Log: filepath.Join(dir, "log"), Ready: m.ready,
		Env: append(os.Environ(), runAsService+"=1", "GENBUS_CONFIG="+file, "GENBUS_NATS_URL="+url, "GENBUS_LOG_LEVEL=info",
			"GENBUS_HTTP_ADDR="+strings.TrimPrefix(m.base, "http://"), "GENBUS_GRPC_ADDR="+m.grpc),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := m.Kill(); err != nil {
			b.t.Error(err)
		}
		if b.t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			b.t.Logf("the replica at %s:\n%s", m.base, log)
		}
	})
	return m
}

// ready asks /readyz.
func (m *member) ready(ctx context.Context) error {
	status, body, err := m.get(ctx, "/readyz")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("/readyz says %d: %s", status, body)
	}
	return err
}

func (m *member) get(ctx context.Context, path string) (int, string, error) {
	r, err := m.do(ctx, http.MethodGet, path, "")
	return r.status, r.body, err
}

// said is an answer that was read whole.
type said struct {
	status int
	header http.Header
	body   string
}

// word is a top-level string of a JSON answer.
func (s said) word(name string) string {
	var fields map[string]any
	_ = json.Unmarshal([]byte(s.body), &fields)
	word, _ := fields[name].(string)
	return word
}

func (m *member) do(ctx context.Context, method, path, body string, header ...string) (said, error) {
	req, err := http.NewRequestWithContext(ctx, method, m.base+path, strings.NewReader(body))
	if err != nil {
		return said{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return said{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return said{resp.StatusCode, resp.Header, string(data)}, err
}

// holdsNothing waits until a replica has let go of every job.
func (m *member) holdsNothing() {
	m.bed.t.Helper()
	m.bed.until("nothing is held at "+m.base, func(ctx context.Context) error {
		_, body, err := m.get(ctx, "/metrics")
		if err != nil {
			return err
		}
		seen := false
		for line := range strings.Lines(body) {
			if !strings.HasPrefix(line, "genbus_jobs_held_by_phase{") {
				continue
			}
			if seen = true; !strings.HasSuffix(strings.TrimSpace(line), " 0") {
				return errors.New(line)
			}
		}
		if !seen {
			return errors.New("there is no such metric")
		}
		return nil
	})
}

// until asks again until it is so.
func (b *bed) until(what string, ask func(context.Context) error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), bedPatience)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		if broker.Wait(ctx, 10*time.Millisecond) != nil {
			b.t.Fatalf("%s: not within %s: %v", what, bedPatience, err)
		}
	}
}

// send puts a request into the inbox and names its job.
func (b *bed) send(kind subject.Kind, requestID string, m proto.Message) subject.TaskName {
	b.t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.js.Publish(b.t.Context(), b.names.Request(kind, "default"), data); err != nil {
		b.t.Fatal(err)
	}
	return subject.TaskName{Kind: kind, Tenant: "default", ID: admission.JobID(kind, "default", "request\x00"+requestID)}
}

// events are what the log has of a job.
func (b *bed) events(ctx context.Context, n subject.TaskName) ([]task.Event, error) {
	s, err := b.js.Stream(ctx, b.names.Tasks())
	if err != nil {
		return nil, err
	}
	var out []task.Event
	for seq := uint64(1); ; {
		m, err := s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(b.names.Task(n.Kind, n.Tenant, n.ID)))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		e, err := publisher.DecodeEvent(n.Kind, m.Header, m.Data)
		if err != nil {
			return nil, err
		}
		out, seq = append(out, e), m.Sequence+1
	}
}

// awaitPhase waits for a phase and gives the events up to it.
func (b *bed) awaitPhase(n subject.TaskName, phase genbusv1.JobPhase) []task.Event {
	b.t.Helper()
	var out []task.Event
	b.until(n.ID+" "+phase.String(), func(ctx context.Context) (err error) {
		if out, err = b.events(ctx, n); err != nil {
			return err
		}
		for i, e := range out {
			if e.Job.GetExecution().GetPhase() == phase {
				out = out[:i+1]
				return nil
			}
		}
		return errors.New(phaseWords(out))
	})
	return out
}

// awaitEnd waits for the terminal event.
func (b *bed) awaitEnd(n subject.TaskName) task.Event {
	b.t.Helper()
	var end task.Event
	b.until(n.ID+" ends", func(ctx context.Context) error {
		out, err := b.events(ctx, n)
		if err != nil {
			return err
		}
		if len(out) == 0 || !out[len(out)-1].Terminal() {
			return errors.New(phaseWords(out))
		}
		end = out[len(out)-1]
		return nil
	})
	return end
}

func phaseWords(events []task.Event) string {
	words := make([]string, 0, len(events))
	for _, e := range events {
		words = append(words, task.PhaseWord(e.Job.GetExecution().GetPhase()))
	}
	return strings.Join(words, " ")
}

// count is the number of messages on a subject of a stream.
func (b *bed) count(ctx context.Context, stream, pattern string) (n uint64, err error) {
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(pattern))
	if err != nil {
		return 0, err
	}
	for _, of := range info.State.Subjects {
		n += of
	}
	return n, nil
}

// hasItem reports whether a job's work item is still there.
func (b *bed) hasItem(n subject.TaskName) bool {
	b.t.Helper()
	there, err := b.count(b.t.Context(), b.names.Work(), b.names.WorkAnyRoute(n.Kind, n.Tenant, n.ID))
	if err != nil {
		b.t.Fatal(err)
	}
	return there > 0
}

// endedOnce checks a job that nobody holds any more: its log is gap-free and has
// one end, which is its last event and stands once in the feed; its item is gone.
func (b *bed) endedOnce(n subject.TaskName, want string) {
	b.t.Helper()
	b.until("the feed and the item of "+n.ID, func(ctx context.Context) error {
		feed, err := b.count(ctx, b.names.Tasks(), b.names.Done(n.Kind, n.Tenant, "*", n.ID))
		if err == nil && (feed != 1 || b.hasItem(n)) {
			err = fmt.Errorf("%d times in the feed, item there: %t", feed, b.hasItem(n))
		}
		return err
	})
	events, err := b.events(b.t.Context(), n)
	if err != nil {
		b.t.Fatal(err)
	}
	for i, e := range events {
		if e.Version() != uint64(i+1) || e.Terminal() != (i == len(events)-1) {
			b.t.Errorf("%s: event %d has version %d, terminal %t", n.ID, i, e.Version(), e.Terminal())
		}
	}
	if got := task.PhaseWord(events[len(events)-1].Job.GetExecution().GetPhase()); got != want {
		b.t.Errorf("%s ended %s: %s, %v", n.ID, got, phaseWords(events), events[len(events)-1].Job.GetError())
	}
}

// handUpstream is an upstream in the test's hands. Each replica reaches it under a
// path of its own, so that it knows who called.
type handUpstream struct {
	url string

	mu        sync.Mutex
	posts     []handPost
	polls     map[string]int // by caller
	completed bool
	streaming map[string]int // chats that are being written, by caller
	cut       map[string]int // chats whose caller went away
	release   chan struct{}  // closed: chats end
}

type handPost struct {
	by, key string
	at      time.Time
}

func newHandUpstream(t *testing.T) *handUpstream {
	t.Helper()
	u := &handUpstream{polls: map[string]int{}, streaming: map[string]int{}, cut: map[string]int{}, release: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{by}/v1/video/generations", func(w http.ResponseWriter, r *http.Request) {
		u.post(r)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"task_id":"up_%s","status":"queued"}`, r.Header.Get("Idempotency-Key"))
	})
	mux.HandleFunc("GET /{by}/v1/video/generations/{id}", func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		u.polls[r.PathValue("by")]++
		completed := u.completed
		u.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if completed {
			_, _ = fmt.Fprintf(w, `{"task_id":%q,"status":"completed","url":"http://%s/file.mp4"}`, r.PathValue("id"), r.Host)
			return
		}
		_, _ = fmt.Fprintf(w, `{"task_id":%q,"status":"in_progress"}`, r.PathValue("id"))
	})
	mux.HandleFunc("POST /{by}/v1/chat/completions", u.chat)
	s := httptest.NewServer(mux)
	u.url = s.URL
	t.Cleanup(s.Close)
	return u
}

func (u *handUpstream) post(r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.posts = append(u.posts, handPost{r.PathValue("by"), r.Header.Get("Idempotency-Key"), time.Now()})
}

// chat says who is asked. A stream waits until it may end, or the caller is gone.
func (u *handUpstream) chat(w http.ResponseWriter, r *http.Request) {
	u.post(r)
	by := r.PathValue("by")
	asked, _ := io.ReadAll(r.Body)
	if !strings.Contains(string(asked), `"stream":true`) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"by %s"},"finish_reason":"stop"}]}`, by)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"by %s"}}]}`+"\n\n", by)
	_ = http.NewResponseController(w).Flush()
	u.mu.Lock()
	u.streaming[by]++
	u.mu.Unlock()
	select {
	case <-u.release:
	case <-r.Context().Done():
		u.mu.Lock()
		u.cut[by]++
		u.mu.Unlock()
		return
	}
	_, _ = io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
}

// sent are the POSTs so far.
func (u *handUpstream) sent() []handPost {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]handPost(nil), u.posts...)
}

// sentFor are the POSTs of one job.
func (u *handUpstream) sentFor(id string) (out []handPost) {
	for _, p := range u.sent() {
		if p.key == id {
			out = append(out, p)
		}
	}
	return out
}

// of reads a counter under the lock.
func (u *handUpstream) of(counter map[string]int, by string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return counter[by]
}

func (u *handUpstream) complete() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.completed = true
}

// more waits until a counter is above what it is now.
func (u *handUpstream) more(b *bed, what string, counter map[string]int, by string) {
	b.t.Helper()
	before := u.of(counter, by)
	b.until(what+" by "+by, func(context.Context) error {
		if u.of(counter, by) > before {
			return nil
		}
		return errors.New("none")
	})
}

func tell(t *testing.T, f func() error) {
	t.Helper()
	if err := f(); err != nil {
		t.Fatal(err)
	}
}
