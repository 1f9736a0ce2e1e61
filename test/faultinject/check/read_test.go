package check

import (
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// ended returns the only event of a chat that failed at once, and its feed copy, as stored.
func ended(t *testing.T, encoding publisher.Encoding) (event, feedCopy Stored) {
	t.Helper()
	item := &genbusv1.WorkItem{Id: talk, Kind: "chat", Tenant: "acme", Route: "chat", Labels: map[string]string{MarkLabel: "m1"}, AcceptedAt: timestamppb.New(s(0))}
	e := task.FailedAtOnce(item, s(1), &genbusv1.TaskError{Code: "expired"}).By("one", 1)
	e.Nonce = "n"
	c := publisher.Encoder{Names: subject.Default(), Encoding: encoding}
	m, err := c.Event(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.Done(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return stored(m), stored(d)
}

func stored(m *nats.Msg) Stored {
	return Stored{Subject: m.Subject, Seq: 7, Header: m.Header, Data: m.Data}
}

func TestStoredMessagesAreRead(t *testing.T) {
	t.Parallel()
	for _, encoding := range []publisher.Encoding{publisher.Protobuf, publisher.JSON} {
		event, feedCopy := ended(t, encoding)
		c, err := publisher.Encoder{Names: subject.Default(), Encoding: encoding}.Chunk(t.Context(), "acme",
			&genbusv1.ChatChunk{Id: talk, Attempt: 2, Index: 5, Blocks: [][]byte{[]byte(block("a"))}})
		if err != nil {
			t.Fatal(err)
		}
		letter, err := proto.Marshal(&genbusv1.DeadLetter{Id: film, Error: &genbusv1.TaskError{Code: codeUnknown}, Data: []byte(`{"prompt":"mark=m-2_x."}`), UpstreamTaskId: "task_1"})
		if err != nil {
			t.Fatal(err)
		}
		var h History
		for _, m := range []Stored{event, feedCopy, stored(c), {Subject: "genbus.dead.video.acme." + film, Data: letter}} {
			h.Add(subject.Default(), m)
		}
		if len(h.Unreadable) > 0 {
			t.Fatal(h.Unreadable)
		}
		if e := h.Events[0]; e.Job != talk || e.Version != 1 || e.Status != "failed" || e.Code != "expired" || e.Marker != "m1" || e.Writer != "one" || !e.Created.Equal(s(0)) || !e.terminal() {
			t.Errorf("event %+v", e)
		}
		if h.FeedCopies[0].ID != h.Events[0].ID || h.FeedCopies[0].Sum != h.Events[0].Sum {
			t.Errorf("feed copy %+v", h.FeedCopies[0])
		}
		if got := h.Chunks[0]; got.Attempt != 2 || got.Index != 5 || content(got.Blocks[0]) != "a" {
			t.Errorf("chunk %+v", got)
		}
		if got := h.DeadLetters[0]; got.Marker != "m-2_x" || got.Code != codeUnknown || got.UpstreamID != "task_1" {
			t.Errorf("dead letter %+v", got)
		}
	}
}

// TestObjectsAreRead proves that a body in the object store counts like one in the message, and
// that a missing one is recorded.
func TestObjectsAreRead(t *testing.T) {
	t.Parallel()
	reply := []byte(`{"choices":[{"message":{"content":"ab"}}]}`)
	ref := func(name string, data []byte) *genbusv1.BlobRef {
		sum := sha256.Sum256(data)
		return &genbusv1.BlobRef{Bucket: "B", Name: name, Size: uint64(len(data)), Sha256: sum[:]}
	}
	item := &genbusv1.WorkItem{Id: talk, Kind: "chat", Tenant: "acme", Route: "chat", AcceptedAt: timestamppb.New(s(0))}
	e := task.FailedAtOnce(item, s(1), &genbusv1.TaskError{Code: "expired"}).By("one", 1)
	e.Job.(*genbusv1.Chat).ReplyRef = ref("reply", reply) //nolint:forcetypeassert // a chat's event
	m, err := publisher.Encoder{Names: subject.Default(), Encoding: publisher.Protobuf}.Event(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	letter, err := proto.Marshal(&genbusv1.DeadLetter{Id: film, DataRef: ref("letter", []byte("{}"))})
	if err != nil {
		t.Fatal(err)
	}
	named, err := proto.Marshal(&genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Stored{Stored: ref("upload", []byte("mark=m7."))}})
	if err != nil {
		t.Fatal(err)
	}
	uploaded, err := proto.Marshal(&genbusv1.DeadLetter{Id: talk, Kind: "chat", Data: named})
	if err != nil {
		t.Fatal(err)
	}
	c, err := publisher.Encoder{Names: subject.Default(), Encoding: publisher.Protobuf}.Chunk(t.Context(), "acme",
		&genbusv1.ChatChunk{Id: talk, Attempt: 1, BlocksRef: ref("chunk", []byte(block("a")))})
	if err != nil {
		t.Fatal(err)
	}
	var h History
	for _, m := range []Stored{stored(m), stored(c), {Subject: "genbus.dead.video.acme." + film, Data: letter}, {Subject: "genbus.dead.chat.acme." + talk, Data: uploaded}, {Subject: "genbus.usage.video.acme." + film}} {
		h.Add(subject.Default(), m)
	}
	h.ReadObjects(func(o Object) ([]byte, error) {
		switch o.Name {
		case "reply":
			return reply, nil
		case "chunk":
			return []byte(block("b")), nil
		case "upload":
			return []byte("mark=m7."), nil
		default:
			return nil, errors.New("not found")
		}
	})
	if e := h.Events[0]; e.Text != "ab" || !e.Replied || e.Reply.Lost != "" {
		t.Errorf("event %+v, reply %+v", e, e.Reply)
	}
	if l := h.DeadLetters[0]; l.Data.Lost != "not found" {
		t.Errorf("dead letter %+v", l.Data)
	}
	if l := h.DeadLetters[1]; l.Marker != "m7" || l.Upload.Lost != "" {
		t.Errorf("dead letter %+v", l)
	}
	if c := h.Chunks[0]; len(c.Blocks) > 0 || !strings.Contains(c.Block.Lost, "another") {
		t.Errorf("chunk %+v, %+v", c, c.Block)
	}
	if !slices.Equal(h.Usage, []string{film}) {
		t.Errorf("usage %v", h.Usage)
	}
}

func TestContradictionsAreUnreadable(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Stored){
		"version":    func(m *Stored) { m.Header.Set(subject.HeaderVersion, "2") },
		"status":     func(m *Stored) { m.Header.Set(subject.HeaderStatus, "completed") },
		"job":        func(m *Stored) { m.Subject = strings.Replace(m.Subject, talk, "chat_other", 1) },
		"tenant":     func(m *Stored) { m.Subject = strings.Replace(m.Subject, "acme", "other", 1) },
		"payload":    func(m *Stored) { m.Data = []byte("no event") },
		"ce-id":      func(m *Stored) { m.Header.Set(subject.HeaderCEID, "x") },
		"the writer": func(m *Stored) { m.Header.Set(subject.HeaderWriter, "two") },
	} {
		event, _ := ended(t, publisher.Protobuf)
		change(&event)
		var h History
		h.Add(subject.Default(), event)
		if len(h.Unreadable) != 1 {
			t.Errorf("%s: unreadable %v", name, h.Unreadable)
		}
	}
	_, feedCopy := ended(t, publisher.Protobuf)
	feedCopy.Subject = strings.Replace(feedCopy.Subject, ".failed.", ".completed.", 1)
	var h History
	if h.Add(subject.Default(), feedCopy); len(h.Unreadable) != 1 {
		t.Errorf("a feed copy under another status: unreadable %v", h.Unreadable)
	}
}
