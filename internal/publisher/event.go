// Package publisher builds NATS messages: task events with CloudEvents headers, usage events and
// chat chunks. It publishes only chunks. The task log decides when to store events.
package publisher

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/event"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Encoding is the payload format of events and chunks.
type Encoding string

// Payload encodings.
const (
	Protobuf Encoding = "protobuf"
	JSON     Encoding = "json"
)

// Encoder builds messages. It is a value and safe for concurrent use.
type Encoder struct {
	Names    subject.Space
	Encoding Encoding // default: Protobuf
}

// Event returns the message for a task event. Its subject is the job's log subject. The event's
// nonce must be set.
func (c Encoder) Event(ctx context.Context, e task.Event) (*nats.Msg, error) {
	payload := Message(e)
	kind := subject.Kind(task.Kind(e.Job))
	m, h := newMessage(c.Names.Task(kind, e.Job.GetTenant(), e.Job.GetId()), eventHeaders)
	status := task.StatusWord(e.Job.GetStatus())
	attributes(h, e.ID(), kind, e.Job.GetTenant(), e.Job.GetId(), e.Time)
	h.set(subject.HeaderCEType, EventType(e))
	h.set(subject.HeaderVersion, strconv.FormatUint(e.Version(), 10))
	h.set(subject.HeaderStatus, status)
	h.set(subject.HeaderCreatedAt, rfc3339(e.Job.GetCreatedAt().AsTime()))
	if by, limited := task.StartBy(e.Job); limited {
		h.set(subject.HeaderStartBy, rfc3339(by))
	}
	if by, limited := task.EndBy(e.Job); limited {
		h.set(subject.HeaderEndBy, rfc3339(by))
	}
	h.set(subject.HeaderIndex, FactsOf(e.Job).Header())
	h.set(subject.HeaderNonce, e.Nonce)
	h.set(subject.HeaderWriter, e.Job.GetExecution().GetWriter())
	h.trace(ctx)
	return m, c.payload(m, h, payload)
}

// Done returns the feed's copy of a terminal event. It has the same ce-id.
func (c Encoder) Done(ctx context.Context, e task.Event) (*nats.Msg, error) {
	m, err := c.Event(ctx, e)
	if err != nil {
		return nil, err
	}
	kind := subject.Kind(task.Kind(e.Job))
	m.Subject = c.Names.Done(kind, e.Job.GetTenant(), task.StatusWord(e.Job.GetStatus()), e.Job.GetId())
	return m, nil
}

// EventType returns the CloudEvents type of a task event.
func EventType(e task.Event) string {
	status := task.StatusWord(e.Job.GetStatus())
	if task.Kind(e.Job) == string(subject.Chat) {
		return "genbus.chat." + status + ".v1"
	}
	return "genbus.video.task." + status + ".v1"
}

// chunkType is the CloudEvents type of a chunk.
const chunkType = "genbus.chat.chunk.v1"

// Message returns the event as a *genbusv1.VideoTaskEvent or *genbusv1.ChatEvent.
func Message(e task.Event) proto.Message {
	at := timestamppb.New(e.Time)
	switch j := any(e.Job).(type) {
	case *genbusv1.Chat:
		return &genbusv1.ChatEvent{Id: e.ID(), Version: e.Version(), Time: at, PreviousStatus: e.Previous, Chat: j}
	case *genbusv1.VideoTask:
		return &genbusv1.VideoTaskEvent{Id: e.ID(), Version: e.Version(), Time: at, PreviousStatus: e.Previous, Task: j}
	}
	return nil
}

// attributes sets the CloudEvents attributes common to all messages, in binary mode. All values are
// tokens, decimal numbers or times, so none needs percent-encoding.
func attributes(h *headers, id string, kind subject.Kind, tenant, job string, at time.Time) {
	h.set(subject.HeaderCESpecVersion, "1.0")
	h.set(subject.HeaderCEID, id)
	h.set(subject.HeaderCESource, "/genbus/"+tenant+"/"+string(kind)+"/"+job)
	h.set(subject.HeaderCESubject, job)
	h.set(subject.HeaderCETime, rfc3339(at))
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// stateMember is the member of a JSON event that holds the Protobuf event in Base64. genbus reads
// this member from the log, because the readable JSON lacks the internal fields.
const stateMember = `"protobuf":`

// schemaBase is the prefix of every dataschema. The last segment names the message and the version
// of its package. Protobuf allows type URLs without the https scheme, but CloudEvents SDKs require
// an absolute URI.
const schemaBase = "https://type.googleapis.com/"

func (c Encoder) payload(m *nats.Msg, h *headers, p proto.Message) error {
	h.set(subject.HeaderCEDataSchema, schemaBase+string(p.ProtoReflect().Descriptor().FullName()))
	data, err := proto.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode %s: %w", p.ProtoReflect().Descriptor().FullName(), err)
	}
	if c.Encoding != JSON {
		h.set(subject.HeaderCEDataContentType, subject.ContentTypeProtobuf)
		m.Data = data
		return nil
	}
	h.set(subject.HeaderCEDataContentType, subject.ContentTypeJSON)
	readable, err := body.EventJSON(p)
	if err != nil {
		return err
	}
	m.Data = withState(readable, data)
	return nil
}

// withState appends the state as the last member of a JSON object.
func withState(object, state []byte) []byte {
	out := append([]byte{}, object[:len(object)-1]...)
	if len(out) > 1 {
		out = append(out, ',')
	}
	out = append(out, stateMember...)
	out = append(out, '"')
	out = base64.StdEncoding.AppendEncode(out, state)
	return append(out, '"', '}')
}

// DecodeEvent reads a stored or republished task event of a kind.
func DecodeEvent(kind subject.Kind, header nats.Header, data []byte) (task.Event, error) {
	// Clone the value. Events are kept while their jobs are held, and the value would otherwise
	// keep the memory of all headers alive.
	nonce := strings.Clone(header.Get(subject.HeaderNonce))
	if kind == subject.Chat {
		var e genbusv1.ChatEvent
		if err := event.Decode(header, data, &e); err != nil {
			return task.Event{}, err
		}
		return checked(task.Event{Job: e.GetChat(), Previous: e.GetPreviousStatus(), Time: e.GetTime().AsTime(), Nonce: nonce}, e.GetChat() != nil)
	}
	var e genbusv1.VideoTaskEvent
	if err := event.Decode(header, data, &e); err != nil {
		return task.Event{}, err
	}
	return checked(task.Event{Job: e.GetTask(), Previous: e.GetPreviousStatus(), Time: e.GetTime().AsTime(), Nonce: nonce}, e.GetTask() != nil)
}

func checked(e task.Event, whole bool) (task.Event, error) {
	if !whole || e.Job.GetExecution() == nil || e.Version() == 0 {
		return task.Event{}, fmt.Errorf("the event has no complete job")
	}
	return e, nil
}

// Chunk returns the message for one or more blocks of a streamed chat.
func (c Encoder) Chunk(ctx context.Context, tenant string, chunk *genbusv1.ChatChunk) (*nats.Msg, error) {
	m, h := newMessage(c.Names.Chunk(tenant, chunk.GetId()), otherHeaders)
	id := chunk.GetId() + "." + strconv.FormatUint(uint64(chunk.GetAttempt()), 10) + "." + strconv.FormatUint(chunk.GetIndex(), 10)
	attributes(h, id, subject.Chat, tenant, chunk.GetId(), chunk.GetTime().AsTime())
	h.set(subject.HeaderCEType, chunkType)
	h.trace(ctx)
	return m, c.payload(m, h, chunk)
}

// DecodeChunk reads a stored or republished chunk.
func DecodeChunk(header nats.Header, data []byte) (*genbusv1.ChatChunk, error) {
	var chunk genbusv1.ChatChunk
	if err := event.Decode(header, data, &chunk); err != nil {
		return nil, err
	}
	return &chunk, nil
}
