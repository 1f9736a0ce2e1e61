package client

import (
	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/event"
)

// DecodeVideoEvent decodes a video event from a message on genbus.task, genbus.done or
// genbus.live.task. The header says whether data is Protobuf or JSON. It fails on malformed data.
func DecodeVideoEvent(header nats.Header, data []byte) (*genbusv1.VideoTaskEvent, error) {
	e := &genbusv1.VideoTaskEvent{}
	return e, event.Decode(header, data, e)
}

// DecodeChatEvent decodes a chat event, like DecodeVideoEvent.
func DecodeChatEvent(header nats.Header, data []byte) (*genbusv1.ChatEvent, error) {
	e := &genbusv1.ChatEvent{}
	return e, event.Decode(header, data, e)
}

// DecodeChunk decodes a message on genbus.chunk or genbus.live.chunk, in Protobuf or JSON.
func DecodeChunk(header nats.Header, data []byte) (*genbusv1.ChatChunk, error) {
	c := &genbusv1.ChatChunk{}
	return c, event.Decode(header, data, c)
}

// DecodeUsage decodes a message on genbus.usage, in Protobuf or JSON.
func DecodeUsage(header nats.Header, data []byte) (*genbusv1.UsageEvent, error) {
	u := &genbusv1.UsageEvent{}
	return u, event.Decode(header, data, u)
}

// Terminal reports whether a job with this status has ended.
func Terminal(s genbusv1.JobStatus) bool {
	switch s {
	case genbusv1.JobStatus_JOB_STATUS_COMPLETED, genbusv1.JobStatus_JOB_STATUS_FAILED, genbusv1.JobStatus_JOB_STATUS_CANCELLED:
		return true
	default:
		return false
	}
}

// jobEvent is an event of a video or a chat.
type jobEvent struct {
	id      string
	version uint64
	ended   bool
	video   *genbusv1.VideoTaskEvent // or nil
	chat    *genbusv1.ChatEvent      // or nil
}

func decodeEvent(kind Kind, header nats.Header, data []byte) (jobEvent, error) {
	if kind == Chat {
		e, err := DecodeChatEvent(header, data)
		return jobEvent{id: e.GetChat().GetId(), version: e.GetVersion(), ended: Terminal(e.GetChat().GetStatus()), chat: e}, err
	}
	e, err := DecodeVideoEvent(header, data)
	return jobEvent{id: e.GetTask().GetId(), version: e.GetVersion(), ended: Terminal(e.GetTask().GetStatus()), video: e}, err
}
