package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc/metadata"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/hostile"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
)

// TestRepliesForgeNothing: a request's reply subject is chosen by its sender,
// who may have it published where only the service may write.
func TestRepliesForgeNothing(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: time.Minute})
	id := w.call(t, subject.Video, `{"model":"sandbox-video","prompt":"a cat"}`)
	for _, reply := range []string{
		"genbus.task.video.default." + id, "genbus.done.video.default.completed." + id, "genbus.chunk.default.chat_x", "genbus.live.task.video.default." + id,
		"genbus.work.video.sandbox-video.default.video_aaaaaaaaaaaaaaaaaaaaaaaaaa", "genbus.request.video.default", "genbus.dead.video.default.x", "genbus.call.video.default",
		"$JS.API.STREAM.PURGE.GENBUS_TASKS", "$JS.ACK.GENBUS_WORK.video-sandbox-video.1.1.1.1.1", "$O.GENBUS_BODIES_default.M.x", "$KV.x", "$SYS.REQ.SERVER.PING",
	} {
		heard, err := w.nc.SubscribeSync(reply)
		if err != nil {
			t.Fatal(err)
		}
		for _, data := range []string{`{"model":"sandbox-video","prompt":"a dog"}`, `{`} {
			m := &nats.Msg{Subject: "genbus.call.video.default", Reply: reply, Data: []byte(data), Header: nats.Header{subject.HeaderContentType: {subject.ContentTypeJSON}}}
			if err := w.nc.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
		w.call(t, subject.Video, `{"model":"sandbox-video","prompt":"a bird"}`) // answered after them, mostly
		for {
			m, err := heard.NextMsg(200 * time.Millisecond)
			if err != nil {
				break
			}
			if strings.Contains(string(m.Data), `"task_id"`) || strings.Contains(string(m.Data), `"error"`) && !strings.HasPrefix(reply, "$JS.API") {
				t.Errorf("the service has published on %s: %.200s", reply, m.Data)
			}
		}
		_ = heard.Unsubscribe()
	}
	if code, body := getJSON(t, w.base+"/v1/video/generations/"+id, ""); code != http.StatusOK {
		t.Errorf("the task whose log was written to: %d %s", code, body)
	}
}

func getJSON(t *testing.T, url, key string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestAnyTenantLeavesTheInbox, as a dead letter if need be: messages that stay
// take the places of others until the inbox of all tenants stands still.
func TestAnyTenantLeavesTheInbox(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{})
	subjects := []string{"genbus.request.video.\xff\xfe", "genbus.request.chat.\xed\xa0\x80", "genbus.request.video.a\x01b", "genbus.request.chat." + strings.Repeat("\xff", 3000)}
	for _, s := range subjects {
		if _, err := w.js.Publish(t.Context(), s, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	count := func(stream string) uint64 {
		s, err := w.js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(">"))
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Msgs
	}
	await(t, "an empty inbox", func() bool { return count("GENBUS_REQUESTS") == 0 })
	if n := count("GENBUS_DEAD"); n != uint64(len(subjects)) {
		t.Errorf("%d dead letters of %d messages", n, len(subjects))
	}
}

// TestManyMembersTakeNoTime: what a request costs grows with its length, not
// with the square of it.
func TestManyMembersTakeNoTime(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{})
	var extra strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&extra, `,"k%07d":0`, i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := genbusv1.NewVideoServiceClient(w.grpc).CreateVideoTask(ctx, &genbusv1.CreateVideoTaskRequest{Request: &genbusv1.VideoRequest{
		Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{Model: "sandbox-kling", Prompt: "a cat", ExtraJson: []byte("{" + extra.String()[1:] + "}")}},
	}})
	if ctx.Err() != nil {
		t.Errorf("200,000 members are not read within 20 s: %v", err)
	}
}

// TestNoMessageIsReadOfAStranger: who has no key is refused before his message
// is there, by gRPC as by HTTP.
func TestNoMessageIsReadOfAStranger(t *testing.T) {
	t.Parallel()
	f := newFortress(t)
	grown := f.watchHeap()
	const size, calls = 8 << 20, 32
	message := make([]byte, 5+size-1)
	binary.BigEndian.PutUint32(message[1:], size)
	for method, authorization := range map[string]string{
		hostile.CreateMethod: "", "/genbus.v1.VideoService/GetVideoTask": "Bearer wrong", "/genbus.v1.ModelService/ListModels": "Basic eDp5",
		"/grpc.health.v1.Health/Check": "", "/grpc.health.v1.Health/Watch": "", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": "",
	} {
		h := dialH2(t, f.grpc)
		for i := range calls {
			stream := uint32(2*i + 1)
			err := h.open(stream, method, authorization)
			if err == nil {
				err = h.send(stream, message)
			}
			if err != nil && !errors.Is(err, errRefused) {
				break // the connection is closed
			}
		}
		await(t, "the refusals", func() bool { n := h.refusals(); return n < 0 || n >= calls })
	}
	if n := grown(); n > 64 {
		t.Errorf("strangers have made the heap grow by %.0f MiB", n)
	}
}

// TestStreamsOfOneConnection: one connection of a tenant takes a bounded number
// of calls at a time, and bounded metadata.
func TestStreamsOfOneConnection(t *testing.T) {
	t.Parallel()
	f := newFortress(t)
	before := f.must(metricGoroutines)
	h := dialH2(t, f.grpc)
	for i := range 5000 {
		if err := h.open(uint32(2*i+1), hostile.CreateMethod, "Bearer "+hostileKey); err != nil {
			break
		}
	}
	await(t, "the calls beyond the limit to be refused", func() bool { n := h.refusals(); return n < 0 || n > 3000 })
	if n := f.must(metricGoroutines) - before; n > 2500 {
		t.Errorf("one connection has %.0f goroutines", n)
	}
	grown := f.watchHeap()
	long := strings.Repeat("a", 1<<20)
	for range 4 {
		h := dialH2(t, f.grpc)
		for i := range 20 {
			fields := []string{"a1", long, "a2", long, "a3", long, "a4", long, "a5", long, "a6", long, "a7", long, "a8", long}
			if err := h.open(uint32(2*i+1), hostile.CreateMethod, "Bearer "+hostileKey, fields...); err != nil {
				break
			}
		}
	}
	if err := f.served(servedWithin); err != nil {
		t.Error(err)
	}
	if n := grown(); n > 64 {
		t.Errorf("metadata have made the heap grow by %.0f MiB", n)
	}
}

// TestSlowMessages: a message that does not come is given up, as a body is.
func TestSlowMessages(t *testing.T) {
	if os.Getenv(longTests) == "" {
		t.Skip("takes two minutes; set " + longTests)
	}
	t.Parallel()
	f := newFortress(t)
	h := dialH2(t, f.grpc)
	const calls = 100
	for i := range calls {
		method := []string{hostile.CreateMethod, "/genbus.v1.VideoService/WatchVideoTask"}[i%2]
		if err := h.open(uint32(2*i+1), method, "Bearer "+hostileKey); err != nil {
			t.Fatal(err)
		}
		if err := h.send(uint32(2*i+1), []byte{0, 0, 0}); err != nil {
			t.Fatal(err)
		}
	}
	late := time.NewTimer(2*time.Minute + 30*time.Second)
	defer late.Stop()
	for tick := time.NewTicker(time.Second); h.refusals() < calls; {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("%d of %d calls were ended", h.refusals(), calls)
		}
	}
}

// TestNoTenantReadsAnothersWords: an upstream that asks for a wait may say why,
// in words that name what it was asked. They are for who asked it.
func TestNoTenantReadsAnothersWords(t *testing.T) {
	t.Parallel()
	const keyA, keyB = "tenant-a-key-0123456789", "tenant-b-key-0123456789"
	w := newClientWorld(t, sandbox.Options{}, func(c *config.Config) {
		c.APIKeys = []config.APIKey{{Tenant: "a", KeyEnv: "A", Key: config.NewSecret(keyA)}, {Tenant: "b", KeyEnv: "B", Key: config.NewSecret(keyB)}}
	})
	w.up.Sandbox.SetBehaviour(func(r *http.Request, body []byte) *sandbox.Behaviour {
		if r.Method != http.MethodPost {
			return nil
		}
		return &sandbox.Behaviour{Status: 429, RetryAfter: "120", Message: "too many requests like: " + string(body)}
	})
	const chat = `{"model":"sandbox-chat","messages":[{"role":"user","content":%q}]}`
	for tenant, key := range map[string]string{"a": keyA, "b": keyB} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.base+"/v1/chat/completions", strings.NewReader(fmt.Sprintf(chat, "the secret of "+tenant)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		other := map[string]string{"a": "b", "b": "a"}[tenant]
		if strings.Contains(string(body), "the secret of "+other) {
			t.Errorf("tenant %s is told: %s", tenant, body)
		}
	}
}

// TestBrokenFramingIsTheSendersFault, on every path.
func TestBrokenFramingIsTheSendersFault(t *testing.T) {
	t.Parallel()
	f := newFortress(t)
	for _, e := range hostile.Creates {
		for _, rest := range []string{"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n2\r\n{}", "Content-Length: 100\r\n\r\n{}"} {
			in := hostile.Input{Cut: true, Bytes: []byte("POST " + e.Path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nAuthorization: Bearer " + hostileKey + "\r\n" + rest)}
			said, err := talk(f.http, in)
			if err != nil || !strings.HasPrefix(string(said), "HTTP/1.1 4") {
				t.Errorf("%s, %q: %.300s, %v", e.Path, rest, said, err)
			}
		}
	}
}

// TestLeavingIsNoFailure: who goes away before the answer is not the service's
// failure, and alerts must not say so.
func TestLeavingIsNoFailure(t *testing.T) {
	t.Parallel()
	s := newSiege(t)
	for i := range 400 {
		e := hostile.Creates[i%len(hostile.Creates)]
		body := s.target.Body(e)
		conn, err := net.Dial("tcp", s.httpAddr.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: %s\r\nContent-Length: %d\r\n\r\n%s", e.Path, s.target.Authorization, len(body), body)
		if err != nil {
			t.Fatal(err)
		}
		if i%3 > 0 {
			timer := time.NewTimer(time.Duration(i) * 10 * time.Microsecond) // somewhere within the admission
			<-timer.C
		}
		_ = conn.Close()
	}
	s.settle()
	s.checkMetrics()
}

// TestEveryLineIsALogLine: whatever a client sends, standard error has nothing
// but records of the log.
func TestEveryLineIsALogLine(t *testing.T) {
	t.Parallel()
	f := newFortress(t)
	for _, header := range []string{"Content-Type: application/json; boundary", "Content-Type: /", "Tracestate: \xff", "X-Forwarded-For: \xff", "Grpc-Timeout: x", "Grpc-Metadata-X-Bin: !!"} {
		in := hostile.Input{Bytes: []byte("GET /genbus/v1/videos HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " + hostileKey + "\r\n" + header + "\r\n\r\n")}
		if _, err := talk(f.http, in); err != nil {
			t.Error(err)
		}
	}
	for _, in := range []string{hostile.Preface + "garbage that is no frame", "GET / HTTP/1.1\r\n\r\n"} {
		if _, err := talk(f.grpc, hostile.Input{Bytes: []byte(in), Cut: true}); err != nil {
			t.Error(err)
		}
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+hostileKey)
	if _, err := genbusv1.NewVideoServiceClient(f.conn).ListVideoTasks(ctx, &genbusv1.ListVideoTasksRequest{}); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(f.log.String()) {
		if !strings.HasPrefix(line, "time=") {
			t.Errorf("%q", line)
		}
	}
}

// TestLateReaders: many who read a long chat again, from its start, do not keep
// others from the broker.
func TestLateReaders(t *testing.T) {
	t.Parallel()
	f := newFortress(t)
	path := "/genbus/v1/chats/" + f.queueChat(t, "verbose") + "/events"
	if err := f.readsAll(path); err != nil {
		t.Fatal(err)
	}
	const watched = 15 * time.Second
	begin := time.Now()
	f.besiege(f.http, func(conn *net.TCPConn) error {
		if err := conn.SetReadBuffer(4 << 10); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path, hostileKey); err != nil {
			return err
		}
		hold := time.NewTimer(watched)
		defer hold.Stop()
		<-hold.C
		return nil
	})
	// A call that waited long is one that was begun before the end.
	if late := time.Since(begin) - watched; late > servedWithin/2 {
		t.Errorf("the last call of somebody else took %s", late)
	}
}

// TestLongHeadersAreTheSendersFault: the gateway hands headers on as metadata, of
// which gRPC takes less than HTTP does.
func TestLongHeadersAreTheSendersFault(t *testing.T) {
	t.Parallel()
	f := newFortress(t)
	for _, name := range []string{"Idempotency-Key", "Genbus-Labels", "Tracestate", "Traceparent", "Authorization"} {
		for _, request := range []string{"GET /genbus/v1/videos HTTP/1.1\r\n", "POST /genbus/v1/videos HTTP/1.1\r\nContent-Length: 2\r\n"} {
			key := "Authorization: Bearer " + hostileKey + "\r\n"
			if name == "Authorization" {
				key = ""
			}
			in := hostile.Input{Bytes: []byte(request + "Host: x\r\nConnection: close\r\n" + key + name + ": " + strings.Repeat("k", 100_000) + "\r\n\r\n{}")}
			said, err := talk(f.http, in)
			if err != nil || bytes.HasPrefix(said, []byte("HTTP/1.1 5")) {
				t.Errorf("%s, %.20s: %.400s, %v", name, request, said, err)
			}
		}
	}
}
