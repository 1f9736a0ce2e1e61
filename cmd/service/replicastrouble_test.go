package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/faultinject"
)

// atOnce limits the time of an answer that needs no broker, on a busy machine.
const atOnce = 2 * time.Second

// TestJetStreamUnreachable proves that without JetStream, calls that need it are refused
// immediately with advice, inline chats continue and jobs in flight end. The service recovers by
// itself.
func TestJetStreamUnreachable(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]faultinject.CutMode{"reset": faultinject.Reset, "silent": faultinject.Blackhole} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, up := newBed(t), newHandUpstream(t)
			close(up.release) // chats end at once
			m := b.start(memberOptions{upstream: up.url + "/it", ackWait: shortWait})
			conn, err := grpc.NewClient(m.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			n := b.send(subject.Video, "v", oneVideo("v"))
			b.awaitPhase(n, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)

			events := m.watches(t, n.ID)

			m.link.Cut(mode)
			b.until("/readyz/jobs turns false", func(ctx context.Context) error {
				status, body, err := m.get(ctx, "/readyz/jobs")
				if err != nil || status != http.StatusServiceUnavailable || !strings.Contains(body, `"check":"jetstream"`) {
					return fmt.Errorf("%d %s, %w", status, body, err)
				}
				return nil
			})
			b.until("gRPC health turns too", servingStatus(conn, grpc_health_v1.HealthCheckResponse_NOT_SERVING))
			m.servesWithoutBroker(t)
			m.refusesAtOnce(t, conn, n.ID)
			m.chatsInline(t)
			up.more(b, "polls go on", up.polls, "it")
			mustDo(t, func() error { return m.serves(t.Context()) }) // readiness does not change

			m.link.Heal()
			b.until("/readyz/jobs turns true", m.ready)
			b.until("gRPC health turns too", servingStatus(conn, grpc_health_v1.HealthCheckResponse_SERVING))
			mustDo(t, func() error { return m.serves(t.Context()) })
			up.complete()
			b.awaitEnd(n)
			if got := events(); !strings.Contains(got, "completed") {
				t.Errorf("the watch that was open all the time ended with %q", got)
			}
			again, err := m.do(t.Context(), http.MethodPost, "/v1/video/generations", `{"model":"sandbox-video","prompt":"a dog"}`)
			if err != nil || again.status != http.StatusOK {
				t.Fatalf("after the recovery: %v, %v", again, err)
			}
			next := subject.JobName{Kind: subject.Video, Tenant: "default", ID: again.word("id")}
			b.awaitEnd(next)
			m.holdsNothing()
			b.endedOnce(n, "completed")
			b.endedOnce(next, "completed")
			for _, id := range []string{n.ID, next.ID} {
				if sent := up.sentFor(id); len(sent) != 1 {
					t.Errorf("POSTs for %s: %v", id, sent)
				}
			}
		})
	}
}

// watches opens a watch of a video. The returned function waits for its end and returns the last
// event.
func (m *member) watches(t *testing.T, id string) func() string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.base+"/v1/video/generations/"+id+"/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the watch: %s", resp.Status)
	}
	events := bufio.NewReader(resp.Body)
	if first, err := events.ReadString('\n'); err != nil { // the watch has started once a line arrives
		t.Fatalf("the watch: %q, %v", first, err)
	}
	return func() string {
		all, err := io.ReadAll(events)
		if err != nil {
			t.Errorf("the watch: %v", err)
		}
		blocks := strings.Split(strings.TrimSpace(string(all)), "\n\n")
		return blocks[len(blocks)-1]
	}
}

// servesWithoutBroker checks that /readyz stays ready, and that calls that need no broker are
// answered.
func (m *member) servesWithoutBroker(t *testing.T) {
	t.Helper()
	for path, want := range map[string]string{"/readyz": `{"status":"ready"}`, "/healthz": `{"status":"ok"}`, "/v1/models": `"object":"list"`} {
		if got, err := m.do(t.Context(), http.MethodGet, path, ""); err != nil || got.status != http.StatusOK || !strings.Contains(got.body, want) {
			t.Errorf("GET %s: %d %s, %v", path, got.status, got.body, err)
		}
	}
}

// servingStatus checks the gRPC health of the server and of each service.
func servingStatus(conn *grpc.ClientConn, want grpc_health_v1.HealthCheckResponse_ServingStatus) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, name := range []string{"", "genbus.v1.VideoService", "genbus.v1.ChatService"} {
			got, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: name})
			if err != nil || got.GetStatus() != want {
				return fmt.Errorf("%q: %s, %w", name, got.GetStatus(), err)
			}
		}
		return nil
	}
}

// refusesAtOnce checks that all calls that need JetStream are refused immediately with advice.
func (m *member) refusesAtOnce(t *testing.T, conn *grpc.ClientConn, id string) {
	t.Helper()
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPost, "/v1/video/generations", `{"model":"sandbox-video","prompt":"a cat"}`},
		{http.MethodPost, "/genbus/v1/videos", `{"video":{"model":"sandbox-video","prompt":"a cat"}}`},
		{http.MethodGet, "/v1/video/generations/" + id, ""},
		{http.MethodGet, "/v1/videos/" + id, ""},
		{http.MethodGet, "/v1/videos", ""},
		{http.MethodGet, "/genbus/v1/videos", ""},
		{http.MethodGet, "/genbus/v1/videos/" + id, ""},
	} {
		begin := time.Now()
		got, err := m.do(t.Context(), c.method, c.path, c.body)
		if err != nil || got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" || time.Since(begin) > atOnce {
			t.Errorf("%s %s: %d %s after %s, %v", c.method, c.path, got.status, got.body, time.Since(begin), err)
		}
	}
	if got, err := m.do(t.Context(), http.MethodGet, "/healthz", ""); err != nil || got.status != http.StatusOK {
		t.Errorf("/healthz: %v, %v", got, err)
	}
	videos := genbusv1grpc.NewVideoServiceClient(conn)
	for what, call := range map[string]func(context.Context) error{
		"create": func(ctx context.Context) error {
			_, err := videos.CreateVideoTask(ctx, &genbusv1.CreateVideoTaskRequest{Request: oneVideo("w")})
			return err
		},
		"get": func(ctx context.Context) error {
			_, err := videos.GetVideoTask(ctx, &genbusv1.GetVideoTaskRequest{Id: id})
			return err
		},
		"list": func(ctx context.Context) error {
			_, err := videos.ListVideoTasks(ctx, &genbusv1.ListVideoTasksRequest{})
			return err
		},
		"cancel": func(ctx context.Context) error {
			_, err := videos.CancelVideoTask(ctx, &genbusv1.CancelVideoTaskRequest{Id: id})
			return err
		},
		"submit a chat": func(ctx context.Context) error {
			_, err := genbusv1grpc.NewChatServiceClient(conn).SubmitChatCompletion(ctx, &genbusv1.SubmitChatCompletionRequest{Request: oneChat("x")})
			return err
		},
	} {
		begin := time.Now()
		err := call(t.Context())
		advice := false
		for _, d := range status.Convert(err).Details() {
			if _, ok := d.(*errdetails.RetryInfo); ok {
				advice = true
			}
		}
		if status.Code(err) != codes.Unavailable || !advice || time.Since(begin) > atOnce {
			t.Errorf("%s: %v with advice %t after %s", what, err, advice, time.Since(begin))
		}
	}
}

// chatsInline checks that inline chats work without a broker, whole and streamed.
func (m *member) chatsInline(t *testing.T) {
	t.Helper()
	for _, stream := range []bool{false, true} {
		begin := time.Now()
		got, err := m.do(t.Context(), http.MethodPost, "/v1/chat/completions",
			fmt.Sprintf(`{"model":"sandbox-chat","stream":%t,"messages":[{"role":"user","content":"tell me of the sea"}]}`, stream))
		if err != nil || got.status != http.StatusOK || stream != strings.HasSuffix(got.body, "data: [DONE]\n\n") || time.Since(begin) > 2*atOnce {
			t.Errorf("stream %t: %d after %s, %v: %s", stream, got.status, time.Since(begin), err, got.body)
		}
	}
}
