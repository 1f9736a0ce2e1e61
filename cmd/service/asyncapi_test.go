package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/contract"
	"github.com/genbus/genbus/internal/contract/contracttest"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
)

// TestEveryMessageIsAsTheDocumentSays proves that every message below the prefix matches the
// AsyncAPI document: its channel, headers and payload, in both encodings, for jobs that complete
// and that fail.
func TestEveryMessageIsAsTheDocumentSays(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"protobuf", "json"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			w := newClientWorld(t, sandbox.Options{VideoDuration: 50 * time.Millisecond, ChunkInterval: time.Millisecond}, func(c *config.Config) {
				c.NATS.Prefix, c.Events.Encoding = "team.video", encoding
				for i := range c.Routes {
					if c.Routes[i].Kind == config.KindVideo {
						c.Routes[i].Poll.Interval = 20 * time.Millisecond
					}
				}
			})
			raw, err := contract.AsyncAPI(w.Names())
			if err != nil {
				t.Fatal(err)
			}
			d, err := contracttest.Load(raw)
			if err != nil {
				t.Fatal(err)
			}
			seen := w.listen(t)
			w.sendAll(t)
			w.checkReplies(t, d)
			w.checkAnswers(t, d)
			w.checkSeen(t, d, seen)
		})
	}
}

// listen subscribes to all subjects below the prefix.
func (w *world) listen(t *testing.T) *nats.Subscription {
	t.Helper()
	sub, err := w.nc.SubscribeSync(w.Names().Prefix() + ".>")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return sub
}

// sendAll publishes videos that complete, fail and leave a dead letter, a streamed chat, and an
// invalid request.
func (w *world) sendAll(t *testing.T) {
	t.Helper()
	stream := true
	w.fill(t, subject.Video, videoOf("sandbox-video"))
	w.fill(t, subject.Video, videoOf("sandbox-video:fail=no"))
	w.fill(t, subject.Video, videoOf("sandbox-video:drop=after_create"))
	w.fill(t, subject.Chat, &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Chat{Chat: &genbusv1.ChatCompletionBody{
		Model: "sandbox-chat", Stream: &stream,
		Messages: []*genbusv1.ChatMessage{{Role: "user", Content: &genbusv1.ChatMessage_Text{Text: "hello"}}},
	}}})
	w.fill(t, subject.Video, &genbusv1.VideoRequest{})
	m := nats.NewMsg(w.Names().Request(subject.Video, "default"))
	m.Header[subject.HeaderContentType] = []string{subject.ContentTypeJSON}
	m.Header[subject.HeaderRequestID] = []string{"order-1"}
	m.Header[subject.HeaderLabels] = []string{"team=film"}
	m.Header[subject.HeaderTraceParent] = []string{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	m.Data = []byte(`{"model_name":"sandbox-kling","prompt":"a cat","duration":"5"}`)
	if _, err := w.js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// checkReplies sends valid and invalid calls, as JSON and as Protobuf, and checks their replies.
func (w *world) checkReplies(t *testing.T, d *contracttest.Document) {
	t.Helper()
	const video, chat = `{"model":"sandbox-video","prompt":"a cat"}`, `{"model":"sandbox-chat","messages":[{"role":"user","content":"hello"}]}`
	for _, row := range []struct {
		kind        subject.Kind
		media, data string
	}{
		{subject.Video, subject.ContentTypeJSON, video},
		{subject.Video, subject.ContentTypeJSON, `{"prompt":"a cat"}`},
		{subject.Video, subject.ContentTypeProtobuf, "\x1a" + string(rune(len(video))) + video}, // raw_json
		{subject.Video, subject.ContentTypeProtobuf, ""},
		{subject.Chat, subject.ContentTypeJSON, chat},
		{subject.Chat, subject.ContentTypeProtobuf, "\x1a" + string(rune(len(chat))) + chat},
	} {
		m := nats.NewMsg(w.Names().Call(row.kind, "default"))
		m.Header[subject.HeaderContentType], m.Data = []string{row.media}, []byte(row.data)
		reply, err := w.nc.RequestMsgWithContext(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.CheckReply(string(row.kind)+"Call", contracttest.Message{Header: reply.Header, Data: reply.Data}); err != nil {
			t.Errorf("reply to %q: %v", row.data, err)
		}
	}
}

// checkAnswers sends requests about jobs and models, as JSON and as Protobuf, and checks their
// replies.
func (w *world) checkAnswers(t *testing.T, d *contracttest.Document) {
	t.Helper()
	n := w.Names()
	job := func(kind subject.Kind, data string) string {
		m := nats.NewMsg(n.Call(kind, "default"))
		m.Header[subject.HeaderContentType], m.Data = []string{subject.ContentTypeJSON}, []byte(data)
		reply, err := w.nc.RequestMsgWithContext(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		return reply.Header.Get(subject.HeaderJobID)
	}
	ids := map[subject.Kind]string{
		subject.Video: job(subject.Video, `{"model":"sandbox-video","prompt":"a cat"}`),
		subject.Chat:  job(subject.Chat, `{"model":"sandbox-chat","messages":[{"role":"user","content":"hello"}]}`),
	}
	for _, kind := range subject.Kinds {
		id := ids[kind]
		for channel, row := range map[string]struct{ subject, json, protobuf string }{
			string(kind) + "Get":    {n.Get(kind, "default"), `{"id":"` + id + `"}`, "\n" + string(rune(len(id))) + id},
			string(kind) + "Cancel": {n.Cancel(kind, "default"), `{"id":"` + id + `"}`, "\n" + string(rune(len(id))) + id},
			string(kind) + "List":   {n.List(kind, "default"), `{"page_size":2}`, ""},
			"models":                {n.Models("default"), `{}`, ""},
		} {
			for media, data := range map[string]string{subject.ContentTypeJSON: row.json, subject.ContentTypeProtobuf: row.protobuf} {
				m := nats.NewMsg(row.subject)
				m.Header[subject.HeaderContentType], m.Data = []string{media}, []byte(data)
				reply, err := w.nc.RequestMsgWithContext(t.Context(), m)
				if err != nil {
					t.Fatal(err)
				}
				if err := d.CheckReply(channel, contracttest.Message{Header: reply.Header, Data: reply.Data}); err != nil {
					t.Errorf("reply to %q on %s: %v", data, row.subject, err)
				}
				if code := reply.Header.Get(subject.HeaderErrorCode); code != "" {
					t.Errorf("%s is answered with %s", row.subject, code)
				}
			}
		}
	}
}

// checkSeen checks messages against the document until all messages caused by sendAll have arrived.
func (w *world) checkSeen(t *testing.T, d *contracttest.Document, seen *nats.Subscription) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	wanted := map[string]int{
		"videoRequest": 5, "chatRequest": 1, "videoCall": 4, "chatCall": 2, "work": 8, "videoTask": 6, "videoLive": 6, "videoDone": 5,
		"chatTask": 3, "chatLive": 3, "chatDone": 3, "chunk": 1, "liveChunk": 1, "usage": 9, "dead": 1, "rejected": 1,
	}
	count := map[string]int{}
	for {
		missing := slices.DeleteFunc(slices.Collect(maps.Keys(wanted)), func(id string) bool { return count[id] >= wanted[id] })
		if len(missing) == 0 {
			return
		}
		m, err := seen.NextMsgWithContext(ctx)
		if err != nil {
			t.Fatalf("%v; still missing are %v of %v", err, missing, count)
		}
		if strings.HasPrefix(m.Subject, w.Names().Prefix()+".internal.") {
			continue // between replicas, such as the notice of a cancellation
		}
		id, err := d.CheckMessage(contracttest.Message{Subject: m.Subject, Header: m.Header, Data: m.Data})
		if err != nil && !strings.HasSuffix(id, "Call") { // one call is invalid on purpose
			t.Error(err)
		}
		count[id]++
	}
}
