package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
)

// Answers of vendorChat. They contain members that OpenAI does not define, in the reply, in its
// message and in every stream block.
const (
	vendorReply = `{"id":"c1","object":"chat.completion","created":1,"model":"vendor-chat","x_groq":{"id":"req_1","n":12345678901234567890},` +
		`"choices":[{"index":0,"message":{"role":"assistant","content":"hi","reasoning_content":"hm","mood":"calm"},"finish_reason":"stop","native_finish_reason":"eos"}],` +
		`"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"cost":0.10}}`
	vendorBlock = `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"vendor-chat","x_groq":{"id":"req_1"},` +
		`"choices":[{"index":0,"delta":{"role":"assistant","content":"hi","reasoning_content":"hm","mood":"calm"},"finish_reason":null}]}`
	vendorEnd = `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"vendor-chat",` +
		`"choices":[{"index":0,"delta":{},"finish_reason":"stop","native_finish_reason":"eos"}],"x_groq":{"usage":{"queue_time":0.02}}}`
)

// vendorChat answers every chat with vendorReply, or with vendorBlock and vendorEnd if streamed.
func vendorChat(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var request struct {
		Stream bool `json:"stream"`
	}
	if err := json.Unmarshal(raw, &request); err != nil || !request.Stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, vendorReply)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "data: "+vendorBlock+"\n\ndata: "+vendorEnd+"\n\ndata: [DONE]\n\n")
}

// TestVendorFieldsOfChatsReachEveryReader proves that vendor fields arrive unchanged over HTTP, as
// extra_json over gRPC, and in events.
func TestVendorFieldsOfChatsReachEveryReader(t *testing.T) {
	t.Parallel()
	vendor := httptest.NewServer(http.HandlerFunc(vendorChat))
	t.Cleanup(vendor.Close)
	w := newClientWorld(t, sandbox.Options{}, func(c *config.Config) {
		c.Upstreams["vendor"] = config.NewUpstream(vendor.URL)
		c.Routes = append(c.Routes, config.NewRoute("vendor", config.KindChat, "vendor", "vendor-chat"))
	})
	const body, streamed = `{"model":"vendor-chat","messages":[{"role":"user","content":"hi"}]}`, `{"model":"vendor-chat","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	t.Run("HTTP, whole", func(t *testing.T) {
		if got := w.postText(t, body); got != vendorReply {
			t.Errorf("got %s", got)
		}
	})
	t.Run("HTTP, streamed", func(t *testing.T) {
		if got := w.postText(t, streamed); got != "data: "+vendorBlock+"\n\ndata: "+vendorEnd+"\n\ndata: [DONE]\n\n" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("gRPC, whole", func(t *testing.T) {
		r, err := genbusv1grpc.NewChatServiceClient(w.grpc).CreateChatCompletion(t.Context(), &genbusv1.CreateChatCompletionRequest{Request: rawChat(body)})
		if err != nil || string(r.GetRawJson()) != vendorReply {
			t.Fatalf("%s, %v", r.GetRawJson(), err)
		}
		choice := r.GetCompletion().GetChoices()[0]
		got := []string{string(r.GetCompletion().GetExtraJson()), string(choice.GetExtraJson()), string(choice.GetMessage().GetExtraJson()),
			choice.GetMessage().GetReasoningContent(), string(r.GetCompletion().GetUsage().GetExtraJson())}
		want := []string{`{"x_groq":{"id":"req_1","n":12345678901234567890}}`, `{"native_finish_reason":"eos"}`, `{"mood":"calm"}`, "hm", `{"cost":0.10}`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("gRPC, streamed", func(t *testing.T) {
		stream, err := genbusv1grpc.NewChatServiceClient(w.grpc).StreamChatCompletion(t.Context(), &genbusv1.StreamChatCompletionRequest{Request: rawChat(streamed)})
		if err != nil {
			t.Fatal(err)
		}
		first, err := stream.Recv()
		if err != nil || string(first.GetRawJson()) != vendorBlock || string(first.GetChunk().GetExtraJson()) != `{"x_groq":{"id":"req_1"}}` ||
			first.GetChunk().GetChoices()[0].GetDelta().GetReasoningContent() != "hm" || string(first.GetChunk().GetChoices()[0].GetDelta().GetExtraJson()) != `{"mood":"calm"}` {
			t.Errorf("%v, %v", first, err)
		}
	})
	t.Run("events of a queued chat", func(t *testing.T) { w.checkVendorEvents(t, streamed) })
}

func rawChat(body string) *genbusv1.ChatRequest {
	return &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_RawJson{RawJson: []byte(body)}}
}

// postText posts a chat and returns the raw answer.
func (w *world) postText(t *testing.T, body string) string {
	t.Helper()
	resp, err := http.Post(w.base+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// checkVendorEvents checks the feed and the chunks of a queued chat: blocks are unchanged, and the
// complete reply contains the vendor's members.
func (w *world) checkVendorEvents(t *testing.T, body string) {
	id := w.call(t, subject.Chat, body)
	feed, err := w.js.OrderedConsumer(t.Context(), w.Names().Tasks(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{w.Names().Done(subject.Chat, "default", "completed", id)},
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := feed.Next()
	if err != nil {
		t.Fatal(err)
	}
	e, err := publisher.DecodeEvent(subject.Chat, m.Headers(), m.Data())
	if err != nil {
		t.Fatal(err)
	}
	chat, _ := e.Job.(*genbusv1.Chat)
	for _, member := range []string{`"x_groq"`, `"reasoning_content":"hm"`, `"mood":"calm"`, `"native_finish_reason":"eos"`} {
		if !strings.Contains(string(chat.GetReplyJson()), member) {
			t.Errorf("%s is not in the reply %s", member, chat.GetReplyJson())
		}
	}
	var blocks []string
	stream, err := genbusv1grpc.NewChatServiceClient(w.grpc).WatchChatCompletion(t.Context(), &genbusv1.WatchChatCompletionRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	for {
		r, err := stream.Recv()
		if err != nil {
			if !isEnd(err) {
				t.Error(err)
			}
			break
		}
		for _, b := range r.GetChunk().GetBlocks() {
			blocks = append(blocks, string(b))
		}
	}
	if diff := cmp.Diff([]string{vendorBlock, vendorEnd}, blocks); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
}
