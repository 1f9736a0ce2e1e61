package publisher_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/test/npm"
)

// nodeTime bounds the script.
const nodeTime = time.Minute

// published returns one message of each kind of event in both encodings.
func published(t *testing.T) map[string]*nats.Msg {
	t.Helper()
	out := map[string]*nats.Msg{}
	at := time.Date(2026, 11, 1, 12, 0, 0, 1, time.UTC)
	for _, encoding := range []publisher.Encoding{publisher.Protobuf, publisher.JSON} {
		enc := publisher.Encoder{Names: subject.Default(), Encoding: encoding}
		add := func(name string, m *nats.Msg, err error) {
			t.Helper()
			if err != nil || m == nil {
				t.Fatalf("%s in %s: %v, %v", name, encoding, m, err)
			}
			out[name+" in "+string(encoding)] = m
		}
		video := task.FromWork(&genbusv1.WorkItem{
			Id: "video_aaaaaaaaaaaaaaaaaaaaaaaaaa", Kind: "video", Tenant: "acme", Route: "r", Model: "m", Protocol: "primary", AcceptedAt: timestamppb.New(at),
		})
		m, err := enc.Event(t.Context(), video)
		add("video event", m, err)
		chat := task.FromWork(&genbusv1.WorkItem{Id: "chat_aaaaaaaaaaaaaaaaaaaaaaaaaa", Kind: "chat", Tenant: "acme", Route: "r", Model: "m", AcceptedAt: timestamppb.New(at)})
		m, err = enc.Event(t.Context(), chat)
		add("chat event", m, err)
		m, err = enc.Chunk(t.Context(), "acme", &genbusv1.ChatChunk{
			Id: chat.Job.GetId(), Attempt: 1, Index: 2, Time: timestamppb.New(at), Blocks: [][]byte{[]byte(`{"a":1}`)},
		})
		add("chunk", m, err)
		v, _ := video.Job.(*genbusv1.VideoTask)
		submitting, err := task.Submitting(v, at, task.Submission{Upstream: "u", Until: at, Deadline: at.Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		m, err = enc.Usage(t.Context(), submitting)
		add("usage", m, err)
	}
	return out
}

// schemas maps kinds of events to the messages that their dataschema names.
var schemas = map[string]string{
	"video event": "genbus.v1.VideoTaskEvent", "chat event": "genbus.v1.ChatEvent", "chunk": "genbus.v1.ChatChunk", "usage": "genbus.v1.UsageEvent",
}

// TestDataSchemaIsATypeURL checks that dataschema is an absolute URI whose last segment is the full
// name of the message.
func TestDataSchemaIsATypeURL(t *testing.T) {
	t.Parallel()
	for name, m := range published(t) {
		u, err := url.Parse(m.Header.Get(subject.HeaderCEDataSchema))
		kind, _, _ := strings.Cut(name, " in ")
		if err != nil || !u.IsAbs() || u.Host == "" || u.Path != "/"+schemas[kind] {
			t.Errorf("%s: dataschema %q: %v", name, u, err)
		}
	}
}

// readByJS is an event as read by the SDK for JavaScript.
type readByJS struct {
	ID              string `json:"id"`
	Type            string `json:"type"`
	Source          string `json:"source"`
	DataSchema      string `json:"dataschema"`
	DataContentType string `json:"datacontenttype"`
}

// TestCloudEventsJavaScript checks that the SDK for JavaScript reads every event.
func TestCloudEventsJavaScript(t *testing.T) {
	t.Parallel()
	dir := npm.Project(t, "testdata/cloudevents")
	messages := published(t)
	names := slices.Sorted(maps.Keys(messages))
	var in bytes.Buffer
	var want []readByJS
	for _, name := range names {
		m := messages[name]
		headers := map[string]string{}
		for key := range m.Header {
			headers[strings.ToLower(key)] = m.Header.Get(key)
		}
		if err := json.NewEncoder(&in).Encode(map[string]any{"headers": headers, "data": m.Data}); err != nil {
			t.Fatal(err)
		}
		want = append(want, readByJS{
			ID: m.Header.Get(subject.HeaderCEID), Type: m.Header.Get(subject.HeaderCEType), Source: m.Header.Get(subject.HeaderCESource),
			DataSchema: m.Header.Get(subject.HeaderCEDataSchema), DataContentType: m.Header.Get(subject.HeaderCEDataContentType),
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), nodeTime)
	defer cancel()
	node := exec.CommandContext(ctx, "node", "read.mjs")
	var stdout, stderr bytes.Buffer
	node.Dir, node.Stdin, node.Stdout, node.Stderr = dir, &in, &stdout, &stderr
	if err := node.Run(); err != nil {
		t.Fatalf("the SDK refuses an event: %v\n%s", err, stderr.String())
	}
	var got []readByJS
	for lines := bufio.NewScanner(&stdout); lines.Scan(); {
		var one readByJS
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		got = append(got, one)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the SDK read something else (-want +got):\n%s", diff)
	}
}
