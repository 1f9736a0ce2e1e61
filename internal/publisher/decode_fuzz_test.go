package publisher_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/event"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// seedsOf adds stored messages in both encodings as seeds.
func seedsOf(f *testing.F, encode func(publisher.Encoder) (*nats.Msg, error)) {
	f.Helper()
	for _, encoding := range []publisher.Encoding{publisher.Protobuf, publisher.JSON} {
		m, err := encode(publisher.Encoder{Names: subject.Default(), Encoding: encoding})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoding == publisher.JSON, m.Data)
		f.Add(encoding == publisher.JSON, m.Data[:len(m.Data)/2])
	}
	f.Add(true, []byte(`{"protobuf":7}`))
	f.Add(true, []byte(`{"protobuf":"!!!!","protobuf":""}`))
	f.Add(false, []byte("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
}

func headerOf(json bool) nats.Header {
	if json {
		return nats.Header{subject.HeaderCEDataContentType: {subject.ContentTypeJSON}}
	}
	return nil
}

// FuzzDecodeEvent checks that a decoded event has a complete job and can be encoded again.
func FuzzDecodeEvent(f *testing.F) {
	item := &genbusv1.WorkItem{Id: "video_aaaaaaaaaaaaaaaaaaaaaaaaaa", Kind: "video", Tenant: "acme", Route: "r", Model: "m", Protocol: "primary"}
	seedsOf(f, func(enc publisher.Encoder) (*nats.Msg, error) { return enc.Event(f.Context(), task.FromWork(item)) })
	f.Fuzz(func(t *testing.T, json bool, data []byte) {
		for _, kind := range subject.Kinds {
			e, err := publisher.DecodeEvent(kind, headerOf(json), data)
			if err != nil {
				continue
			}
			if e.Job.GetExecution() == nil || e.Version() == 0 || task.Kind(e.Job) != string(kind) {
				t.Fatalf("%s: not a whole job: %v", kind, e.Job)
			}
			if _, err := proto.Marshal(publisher.Message(e)); err != nil {
				t.Fatalf("%s: cannot be written again: %v", kind, err)
			}
		}
	})
}

// FuzzDecodeChunk checks that a decoded chunk can be encoded again.
func FuzzDecodeChunk(f *testing.F) {
	chunk := &genbusv1.ChatChunk{Id: "chat_aaaaaaaaaaaaaaaaaaaaaaaaaa", Attempt: 1, Index: 2, Blocks: [][]byte{[]byte(`{"a":1}`)}}
	seedsOf(f, func(enc publisher.Encoder) (*nats.Msg, error) { return enc.Chunk(f.Context(), "acme", chunk) })
	f.Fuzz(func(t *testing.T, json bool, data []byte) {
		c, err := publisher.DecodeChunk(headerOf(json), data)
		if err != nil {
			return
		}
		if _, err := proto.Marshal(c); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzDecodeUsage checks that a decoded usage event can be encoded again.
func FuzzDecodeUsage(f *testing.F) {
	item := &genbusv1.WorkItem{Id: "video_aaaaaaaaaaaaaaaaaaaaaaaaaa", Kind: "video", Tenant: "acme", Route: "r", Model: "m", Protocol: "primary"}
	seedsOf(f, func(enc publisher.Encoder) (*nats.Msg, error) {
		v, _ := task.FromWork(item).Job.(*genbusv1.VideoTask)
		next, err := task.Submitting(v, time.Now(), task.Submission{Upstream: "u", Until: time.Now(), Deadline: time.Now().Add(time.Hour)})
		if err != nil {
			return nil, err
		}
		return enc.Usage(f.Context(), next)
	})
	f.Fuzz(func(t *testing.T, json bool, data []byte) {
		u := new(genbusv1.UsageEvent)
		if err := event.Decode(headerOf(json), data, u); err != nil {
			return
		}
		if _, err := proto.Marshal(u); err != nil {
			t.Fatal(err)
		}
	})
}
