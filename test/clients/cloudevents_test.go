package clients_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
)

// TestCloudEventsGo checks that the SDK for Go accepts every event in both encodings.
func TestCloudEventsGo(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{config.EncodingProtobuf, config.EncodingJSON} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, sandbox.Options{ChunkInterval: 1}, func(c *config.Config) { c.Events.Encoding = encoding })
			served{nats: w.NATSURL(), tenant: "default"}.checkCloudEvents(t)
		})
	}
}

// checkCloudEvents checks that the SDK can read every event of a video and a chat as delivered by
// NATS.
func (s served) checkCloudEvents(t *testing.T) {
	nc, js := s.jetStream(t)
	ctx, cancel := context.WithTimeout(t.Context(), clientTime)
	defer cancel()
	names := subject.Default()
	for _, job := range []struct {
		kind       subject.Kind
		body, word string
	}{
		{subject.Video, `{"model":"sandbox-video:duration_ms=300","prompt":"a cat"}`, "genbus.video.task."},
		{subject.Chat, `{"model":"sandbox-chat","stream":true,"messages":[{"role":"user","content":"hi"}]}`, "genbus.chat."},
	} {
		request := nats.NewMsg(names.Call(job.kind, s.tenant))
		request.Header.Set(subject.HeaderContentType, subject.ContentTypeJSON)
		request.Data = []byte(job.body)
		answer, err := nc.RequestMsgWithContext(ctx, request)
		if err != nil {
			t.Fatal(err)
		}
		id := answer.Header.Get(subject.HeaderJobID)
		checkRead(ctx, t, js, id, names.Tasks(), names.Task(job.kind, s.tenant, id), job.word+"queued.v1", job.word+"completed.v1")
		checkRead(ctx, t, js, id, names.UsageStream(), names.Usage(job.kind, s.tenant, id), "genbus.job.usage.v1", "genbus.job.usage.v1")
		if job.kind == subject.Chat {
			checkRead(ctx, t, js, id, names.Chunks(), names.Chunk(s.tenant, id), "genbus.chat.chunk.v1", "genbus.chat.chunk.v1")
		}
	}
}

// checkRead reads the events of a job in a stream, from the first type to the last.
func checkRead(ctx context.Context, t *testing.T, js jetstream.JetStream, id, stream, from, first, last string) {
	t.Helper()
	consumer, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{from}})
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for !slices.Contains(types, last) {
		m, err := consumer.Next(jetstream.FetchContext(ctx))
		if err != nil {
			t.Fatalf("after %q: %v", types, err)
		}
		e, err := cloudEvent(m)
		if err != nil || e.Subject() != id {
			t.Fatalf("after %q the SDK reads %v, %v", types, e, err)
		}
		types = append(types, e.Type())
	}
	if types[0] != first {
		t.Errorf("the events begin with %q", types)
	}
}

// cloudEvent decodes a message with the SDK. The SDK has no published NATS binding, so the headers
// are converted to attributes of the JSON format.
func cloudEvent(m jetstream.Msg) (e event.Event, err error) {
	attributes := map[string]any{"data_base64": m.Data()}
	for name := range m.Headers() {
		if attribute, is := strings.CutPrefix(name, "ce-"); is {
			attributes[attribute] = m.Headers().Get(name)
		}
	}
	data, err := json.Marshal(attributes)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return e, err
	}
	return e, e.Validate()
}
