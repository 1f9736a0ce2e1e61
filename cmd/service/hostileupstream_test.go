package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/test/hostile"
)

type hostileUpstream struct {
	listener net.Listener
	canary   *canary
	inward   []string
	conns    sync.WaitGroup
	number   atomic.Int64

	mu    sync.Mutex
	polls map[string]int    // by task ID
	keys  map[string]string // name of the answer that leaves the outcome unknown, by Idempotency-Key
	again []string          // names of such answers after which the create was repeated
}

// canary detects calls to addresses that an upstream must not make genbus call.
type canary struct {
	listeners []net.Listener
	called    atomic.Int64
}

func newCanary(t *testing.T) *canary {
	t.Helper()
	c := &canary{}
	port := "0"
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		l, err := net.Listen("tcp", host+":"+port)
		if err != nil {
			t.Logf("no canary on %s: %v", host, err)
			continue
		}
		c.listeners = append(c.listeners, l)
		_, port, _ = net.SplitHostPort(l.Addr().String())
		go c.listen(l)
		t.Cleanup(func() { _ = l.Close() })
	}
	return c
}

func (c *canary) listen(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		c.called.Add(1)
		_ = conn.Close()
	}
}

func (c *canary) port() string {
	_, port, _ := net.SplitHostPort(c.listeners[0].Addr().String())
	return port
}

func newHostileUpstream(t *testing.T) *hostileUpstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &hostileUpstream{listener: l, canary: newCanary(t), polls: map[string]int{}, keys: map[string]string{}}
	u.inward = hostile.Inward(u.canary.port())
	u.conns.Go(u.serve)
	t.Cleanup(func() {
		_ = l.Close()
		u.conns.Wait()
	})
	return u
}

// Timeouts of the routes to a hostile upstream.
const (
	hostileCreate   = time.Second
	hostileDeadline = 3 * time.Second
)

// hostileNames is the number of names for the upstream. An answer that demands a pause of minutes
// disables only one name.
const hostileNames = 40

// addTo adds the upstream, and a route to it for each protocol.
func (u *hostileUpstream) addTo(c *config.Config) {
	var targets []config.Target
	for i := range hostileNames {
		up := config.NewUpstream("http://" + u.listener.Addr().String())
		up.Breaker.Failures, up.KeyCooldown = 0, 10*time.Millisecond
		for k := range 5 {
			up.Keys = append(up.Keys, config.UpstreamKey{Name: fmt.Sprintf("k%d", k), KeyEnv: "KEY", Key: config.NewSecret(hostileUpstreamKey)})
		}
		name := fmt.Sprintf("hostile-%d", i)
		c.Upstreams[name] = up
		targets = append(targets, config.Target{Name: name, Weight: 1})
	}
	c.Retry.Share, c.Retry.PerSecond = 1, 10_000
	for _, kind := range hostile.Kinds {
		c.Routes = append(c.Routes, hostileRoute(kind, targets))
	}
}

func hostileRoute(kind hostile.Kind, targets []config.Target) config.Route {
	name := "hostile-" + string(kind)
	if kind == hostile.Chat {
		r := config.NewRoute(name, config.KindChat, "", name)
		r.Timeouts.FirstByte, r.Timeouts.Idle, r.Timeouts.Total = time.Second, 500*time.Millisecond, 3*time.Second
		r.Upstream, r.Upstreams = "", targets
		return r
	}
	r := config.NewRoute(name, config.KindVideo, "", name)
	r.Upstream, r.Upstreams, r.Protocol, r.MaxInFlight = "", targets, string(kind), 16
	r.Timeouts.Create, r.Timeouts.Deadline, r.Timeouts.Archive, r.Timeouts.Queue = hostileCreate, hostileDeadline, time.Second, 6*time.Second
	return r
}

func (u *hostileUpstream) serve() {
	for {
		conn, err := u.listener.Accept()
		if err != nil {
			return
		}
		u.conns.Go(func() {
			defer conn.Close()
			// Longer than all timeouts of a route, and shorter than the readers' timeouts.
			_ = conn.SetDeadline(time.Now().Add(answerWithin / 2))
			u.answer(conn)
		})
	}
}

func (u *hostileUpstream) answer(conn net.Conn) {
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	number := int(u.number.Add(1))
	in := hostile.At(hostileSeed, "answers", number)
	answer := u.choose(in, r, body, number)
	for _, step := range answer.Steps {
		for range max(1, step.Times) {
			if _, err := conn.Write(step.Bytes); err != nil {
				return
			}
			if step.Pause > 0 && !wait(step.Pause) {
				return
			}
		}
	}
	if tcp, ok := conn.(*net.TCPConn); ok && answer.Reset {
		_ = tcp.SetLinger(0)
	}
}

func wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
	return true
}

// choose returns the answer. Some answers are valid, so that later calls are reached.
func (u *hostileUpstream) choose(in *hostile.Source, r *http.Request, body []byte, number int) hostile.Answer {
	call, kind, id := about(r, body)
	places := slices.Concat(u.inward, hostile.Addresses, []string{"http://" + u.listener.Addr().String() + "/files/x"})
	switch call {
	case hostile.CallCreate:
		id = fmt.Sprintf("task-%d", number)
		if in.Chance(55) {
			return hostile.Good(call, kind, id, "")
		}
		answer := hostile.Respond(in, call, kind, id, u.inward)
		u.note(r, answer)
		return answer
	case hostile.CallPoll:
		if u.polled(id) > 4 || in.Chance(30) {
			return hostile.Good(call, kind, id, hostile.One(in, places))
		}
	case hostile.CallChat, hostile.CallModels, hostile.CallContent: // no call follows these
	}
	return hostile.Respond(in, call, kind, id, u.inward)
}

// about returns the call, the protocol and the task ID of a request.
func about(r *http.Request, body []byte) (hostile.Call, hostile.Kind, string) {
	path := strings.Trim(r.URL.Path, "/")
	last := path[strings.LastIndexByte(path, '/')+1:]
	post := r.Method == http.MethodPost
	switch {
	case strings.HasSuffix(path, "chat/completions"):
		return hostile.CallChat, hostile.Chat, ""
	case strings.HasPrefix(path, "v1/models"):
		return hostile.CallModels, hostile.Chat, ""
	case strings.HasPrefix(path, "jimeng") && strings.Contains(r.URL.RawQuery, "GetResult"):
		var asked struct {
			ID string `json:"task_id"`
		}
		_ = json.Unmarshal(body, &asked)
		return hostile.CallPoll, hostile.Jimeng, asked.ID
	case strings.HasPrefix(path, "jimeng"):
		return hostile.CallCreate, hostile.Jimeng, ""
	case strings.HasPrefix(path, "kling"):
		return callOf(post), hostile.Kling, last
	case strings.HasPrefix(path, "v1/video/generations"):
		return callOf(post), hostile.Primary, last
	case strings.HasPrefix(path, "v1/videos") && !strings.HasSuffix(path, "/content"):
		return callOf(post), hostile.Videos, last
	default:
		return hostile.CallContent, hostile.Primary, ""
	}
}

func callOf(post bool) hostile.Call {
	if post {
		return hostile.CallCreate
	}
	return hostile.CallPoll
}

func (u *hostileUpstream) polled(id string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.polls[id]++
	return u.polls[id]
}

// note records a create whose outcome is unknown, and a repeated create after such an outcome.
func (u *hostileUpstream) note(r *http.Request, a hostile.Answer) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	if before, known := u.keys[key]; known {
		u.again = append(u.again, before)
	}
	if a.Silent {
		u.keys[key] = a.Name
	}
}

func (u *hostileUpstream) check(t *testing.T) {
	t.Helper()
	if n := u.canary.called.Load(); n > 0 {
		t.Errorf("%d connections to an address of this machine that an upstream named", n)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.again) > 0 {
		t.Errorf("%d creates were repeated although nobody can know what became of the first, such as after %q", len(u.again), u.again[0])
	}
	t.Logf("the hostile upstream answered %d calls", u.number.Load())
}

// attackFromUpstream creates jobs with a hostile upstream and reads their results. Each answer of
// the upstream counts as an input.
func (s *siege) attackFromUpstream() {
	before := s.up.number.Load()
	var kinds sync.WaitGroup
	kinds.Go(func() {
		s.send("jobs", 320, 48, func(in *hostile.Source, _ int) (string, error) { return "", s.oneJob(in) })
	})
	kinds.Go(func() {
		s.send("chats", 250, 6, func(in *hostile.Source, number int) (string, error) { return "", s.oneChat(in, number) })
	})
	kinds.Wait()
	s.sent.Add(s.up.number.Load() - before)
}

// oneJob creates a video task, follows it to its end, and reads its content.
func (s *siege) oneJob(in *hostile.Source) error {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(s.t.Context(), "authorization", s.target.Authorization), answerWithin*3/2)
	defer cancel()
	client := genbusv1grpc.NewVideoServiceClient(s.grpc)
	kind := hostile.One(in, hostile.Kinds[:4])
	archive := in.Chance(20)
	made, err := client.CreateVideoTask(ctx, &genbusv1.CreateVideoTaskRequest{Request: &genbusv1.VideoRequest{
		Body:    &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{Model: "hostile-" + string(kind), Prompt: hostileMarker}},
		Archive: &archive,
	}})
	if err != nil {
		return err
	}
	id := made.GetTask().GetId()
	events, err := client.WatchVideoTask(ctx, &genbusv1.WatchVideoTaskRequest{Id: id})
	if err != nil {
		return err
	}
	var last *genbusv1.VideoTask
	for {
		m, err := events.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("%s, %s: follow: %w", id, kind, err)
		}
		last = m.GetEvent().GetTask()
	}
	if code := last.GetError().GetCode(); code == "internal" || code == "poisoned" || code == "log_lost" {
		return fmt.Errorf("%s, %s ended as %v", id, kind, last.GetError())
	}
	return s.readContent(ctx, id)
}

// readContent reads the content of a task, and the task in every protocol.
func (s *siege) readContent(ctx context.Context, id string) error {
	for _, path := range []string{"/v1/videos/" + id + "/content", "/v1/videos/" + id, "/v1/video/generations/" + id, "/kling/v1/videos/text2video/" + id, "/genbus/v1/videos/" + id} {
		code, body, err := s.fetch(ctx, http.MethodGet, path, nil)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, "/content") {
			s.contents.count(strconv.Itoa(code))
		}
		if code == http.StatusInternalServerError || code >= 500 && !strings.HasSuffix(path, "/content") || bytes.Contains(body, []byte(hostileUpstreamKey)) {
			return fmt.Errorf("GET %s: %d %.300s", path, code, body)
		}
	}
	return nil
}

// fetch calls a path with the tenant's key. It ignores truncated answers.
func (s *siege) fetch(ctx context.Context, method, path string, body io.Reader) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.base+path, body)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", s.target.Authorization)
	resp, err := http.DefaultClient.Do(r)
	if errors.Is(err, io.EOF) || err != nil && strings.Contains(err.Error(), "unexpected EOF") {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, data, nil
}

// oneChat requests a chat over HTTP, or over gRPC for every fourth number.
func (s *siege) oneChat(in *hostile.Source, number int) error {
	body := fmt.Sprintf(`{"model":"hostile-chat","stream":%t,"messages":[{"role":"user","content":%q}]}`, in.Chance(60), hostileMarker)
	ctx, cancel := context.WithTimeout(s.t.Context(), answerWithin*3/2)
	defer cancel()
	if number%4 == 0 {
		return s.oneChatGRPC(ctx, body)
	}
	code, answer, err := s.fetch(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	if bytes.Contains(answer, []byte(`"code":"internal"`)) || bytes.Contains(answer, []byte(hostileUpstreamKey)) {
		return fmt.Errorf("%d %.400s", code, answer)
	}
	return nil
}

func (s *siege) oneChatGRPC(ctx context.Context, body string) error {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", s.target.Authorization)
	stream, err := genbusv1grpc.NewChatServiceClient(s.grpc).StreamChatCompletion(ctx, &genbusv1.StreamChatCompletionRequest{Request: &genbusv1.ChatRequest{
		Body: &genbusv1.ChatRequest_RawJson{RawJson: []byte(strings.Replace(body, `"stream":false`, `"stream":true`, 1))},
	}})
	for err == nil {
		_, err = stream.Recv()
	}
	if code := status.Code(err); err != io.EOF && (code == codes.Internal || code == codes.DeadlineExceeded && ctx.Err() != nil) {
		return err
	}
	return nil
}
