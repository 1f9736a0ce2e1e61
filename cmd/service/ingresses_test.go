package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// world is a running service with all kinds of clients.
type world struct {
	*service.Service
	nc   *nats.Conn
	js   jetstream.JetStream
	grpc *grpc.ClientConn
	base string
	// terminate stops the service like a SIGTERM.
	terminate context.CancelFunc
}

func newWorld(t *testing.T) *world {
	t.Helper()
	up := startSandbox(t, sandbox.Options{VideoDuration: 700 * time.Millisecond, ChunkInterval: 2 * time.Millisecond})
	var polled sync.Map // the first poll of each task returns in progress
	first := func(id string) bool {
		_, again := polled.LoadOrStore(id, true)
		return !again
	}
	return startService(t, frontOf(t, up.URL(), first))
}

// last returns the newest message of a stream on a subject.
func (w *world) last(ctx context.Context, stream, subj string) (*jetstream.RawStreamMsg, error) {
	s, err := w.js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	return s.GetLastMsgForSubject(ctx, subj)
}

// post sends JSON and decodes the JSON answer. Under the race detector it retries while JetStream
// is unavailable.
func (w *world) post(t *testing.T, path, body string, header ...string) (status int, answer map[string]any) {
	t.Helper()
	await(t, "an answer of a service that is there", func() bool {
		status, answer = w.postOnce(t, path, body, header...)
		return status != http.StatusServiceUnavailable || !tooSlow || !strings.Contains(fmt.Sprint(answer), "nothing was accepted: JetStream")
	})
	return status, answer
}

func (w *world) postOnce(t *testing.T, path, body string, header ...string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return resp.StatusCode, out
}

// fill publishes a request without an ID to the inbox.
func (w *world) fill(t *testing.T, kind subject.Kind, m proto.Message) {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.js.Publish(t.Context(), w.Names().Request(kind, "default"), data); err != nil {
		t.Fatal(err)
	}
}

// call sends a JSON request and returns the ID of the accepted job.
func (w *world) call(t *testing.T, kind subject.Kind, body string) string {
	t.Helper()
	m := nats.NewMsg(w.Names().Call(kind, "default"))
	m.Header.Set(subject.HeaderContentType, subject.ContentTypeJSON)
	m.Data = []byte(body)
	reply, err := w.nc.RequestMsgWithContext(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if e := reply.Header.Get("Nats-Service-Error"); e != "" {
		t.Fatal(e)
	}
	return reply.Header.Get(subject.HeaderJobID)
}

func videoOf(model string) *genbusv1.VideoRequest {
	return &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{Model: model, Prompt: "a cat"}}}
}

// TestAVideoByEveryIngress proves that a task from each ingress completes, appears once in the
// feed, and is visible to a watcher and a durable consumer.
func TestAVideoByEveryIngress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	durable, err := w.js.CreateConsumer(ctx, w.Names().Tasks(), jetstream.ConsumerConfig{
		Durable: "watcher", FilterSubject: "genbus.task.video.default.*", AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	feed, err := w.js.OrderedConsumer(ctx, w.Names().Tasks(), jetstream.OrderedConsumerConfig{FilterSubjects: []string{"genbus.done.video.*.completed.*"}})
	if err != nil {
		t.Fatal(err)
	}

	w.fill(t, subject.Video, videoOf("sandbox-video"))
	ids := map[string]string{w.call(t, subject.Video, `{"model":"sandbox-video","prompt":"a cat"}`): "call"}
	created, err := genbusv1grpc.NewVideoServiceClient(w.grpc).CreateVideoTask(ctx, &genbusv1.CreateVideoTaskRequest{Request: videoOf("sandbox-video-enveloped")})
	if err != nil {
		t.Fatal(err)
	}
	ids[created.GetTask().GetId()] = "grpc"
	status, answer := w.post(t, "/v1/video/generations", `{"model":"sandbox-video","prompt":"a cat"}`)
	if status != http.StatusOK || answer["status"] != "queued" || answer["task_id"] != answer["id"] || answer["object"] != "video" {
		t.Errorf("%d %v", status, answer)
	}
	ids[fmt.Sprint(answer["id"])] = "http"

	seen := map[string][]string{}
	for ended := 0; ended < 4; {
		m, err := durable.Next(jetstream.FetchContext(ctx))
		if err != nil {
			t.Fatalf("%v; seen %v", err, seen)
		}
		e, err := publisher.DecodeEvent(subject.Video, m.Headers(), m.Data())
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
		id, word := e.Job.GetId(), task.StatusWord(e.Job.GetStatus())
		if history := seen[id]; len(history) == 0 || history[len(history)-1] != word {
			seen[id] = append(history, word)
		}
		if e.Terminal() {
			ended++
		}
	}
	for id, words := range seen {
		if got := strings.Join(words, " "); got != "queued in_progress completed" {
			t.Errorf("%s (%s) went %s", id, ids[id], got)
		}
		w.checkFollowed(ctx, t, id)
	}
	w.checkFeed(ctx, t, feed, seen)
	if len(seen) != 4 || len(ids) != 3 {
		t.Errorf("seen %d tasks, of which %d were answered", len(seen), len(ids))
	}
}

func (w *world) checkFollowed(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	stream, err := genbusv1grpc.NewVideoServiceClient(w.grpc).WatchVideoTask(ctx, &genbusv1.WatchVideoTaskRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	var version uint64
	for {
		r, err := stream.Recv()
		if err != nil {
			if !isEnd(err) {
				t.Errorf("watch %s: %v", id, err)
			}
			break
		}
		if version++; r.GetEvent().GetVersion() != version {
			t.Errorf("watch %s: version %d at place %d", id, r.GetEvent().GetVersion(), version)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+"/v1/video/generations/"+id, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	url, _ := got["url"].(string)
	if got["status"] != "completed" || !strings.HasSuffix(url, ".mp4") || got["completed_at"] == nil || got["error"] != nil {
		t.Errorf("GET %s: %v", id, got)
	}
}

func isEnd(err error) bool { return err == io.EOF }

// checkFeed checks that the feed contains each task once.
func (w *world) checkFeed(ctx context.Context, t *testing.T, feed jetstream.Consumer, want map[string][]string) {
	t.Helper()
	counts := map[string]int{}
	for range len(want) {
		m, err := feed.Next(jetstream.FetchContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		n, err := w.Names().ParseDone(m.Subject())
		if err != nil {
			t.Fatal(err)
		}
		counts[n.ID]++
	}
	for id := range want {
		if counts[id] != 1 {
			t.Errorf("%s stands %d times in the feed", id, counts[id])
		}
	}
	info, err := w.js.Stream(ctx, w.Names().Tasks())
	if err != nil {
		t.Fatal(err)
	}
	state, err := info.Info(ctx, jetstream.WithSubjectFilter("genbus.done.>"))
	if err != nil || len(state.State.Subjects) != len(want) {
		t.Errorf("the feed has %d entries, %v", len(state.State.Subjects), err)
	}
}

// TestAChatByEveryIngress proves that chats from each ingress complete, streamed or not.
func TestAChatByEveryIngress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const messages = `"messages":[{"role":"user","content":"tell me of the sea"}]`
	t.Run("stream and call", func(t *testing.T) {
		want := map[string]bool{}
		for _, stream := range []bool{false, true} {
			w.fill(t, subject.Chat, &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_RawJson{RawJson: fmt.Appendf(nil, `{"model":"sandbox-chat","stream":%t,%s}`, stream, messages)}})
			want[w.call(t, subject.Chat, fmt.Sprintf(`{"model":"sandbox-chat","stream":%t,%s}`, stream, messages))] = true
		}
		feed, err := w.js.OrderedConsumer(ctx, w.Names().Tasks(), jetstream.OrderedConsumerConfig{FilterSubjects: []string{"genbus.done.chat.*.completed.*"}})
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			m, err := feed.Next(jetstream.FetchContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			e, err := publisher.DecodeEvent(subject.Chat, m.Headers(), m.Data())
			if err != nil {
				t.Fatal(err)
			}
			c, _ := e.Job.(*genbusv1.Chat)
			delete(want, c.GetId())
			if !strings.Contains(string(c.GetReplyJson()), "You wrote 5 words") {
				t.Errorf("reply %s", c.GetReplyJson())
			}
		}
		if len(want) != 0 {
			t.Errorf("not in the feed: %v", want)
		}
	})
	t.Run("grpc", func(t *testing.T) {
		client := genbusv1grpc.NewChatServiceClient(w.grpc)
		request := &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Chat{Chat: &genbusv1.ChatCompletionBody{
			Model: "sandbox-chat", Messages: []*genbusv1.ChatMessage{{Role: "user", Content: &genbusv1.ChatMessage_Text{Text: "tell me of the sea"}}},
		}}}
		whole, err := client.CreateChatCompletion(ctx, &genbusv1.CreateChatCompletionRequest{Request: request})
		if err != nil || !strings.Contains(whole.GetCompletion().GetChoices()[0].GetMessage().GetText(), "You wrote 5 words") {
			t.Errorf("%v, %v", whole, err)
		}
		stream, err := client.StreamChatCompletion(ctx, &genbusv1.StreamChatCompletionRequest{Request: request})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for {
			r, err := stream.Recv()
			if err != nil {
				if !isEnd(err) {
					t.Error(err)
				}
				break
			}
			for _, c := range r.GetChunk().GetChoices() {
				text.WriteString(c.GetDelta().GetText())
			}
		}
		if text.String() != whole.GetCompletion().GetChoices()[0].GetMessage().GetText() {
			t.Errorf("streamed %q", text.String())
		}
	})
	t.Run("http", func(t *testing.T) {
		if whole := w.postText(t, `{"model":"sandbox-chat",`+messages+`}`); !strings.Contains(whole, "You wrote 5 words") {
			t.Errorf("got %s", whole)
		}
		if streamed := w.postText(t, `{"model":"sandbox-chat","stream":true,`+messages+`}`); !strings.HasSuffix(streamed, "data: [DONE]\n\n") {
			t.Errorf("streamed %s", streamed)
		}
	})
}
