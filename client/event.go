package client

import (
	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/event"
)

// DecodeVideoEvent reads an event of a video task as a subscription or a consumer of
// genbus.task, genbus.done or genbus.live.task brings it, in either encoding.
func DecodeVideoEvent(header nats.Header, data []byte) (*genbusv1.VideoTaskEvent, error) {
	e := &genbusv1.VideoTaskEvent{}
	return e, event.Decode(header, data, e)
}

// DecodeChatEvent is DecodeVideoEvent for chats.
func DecodeChatEvent(header nats.Header, data []byte) (*genbusv1.ChatEvent, error) {
	e := &genbusv1.ChatEvent{}
	return e, event.Decode(header, data, e)
}

// DecodeChunk reads a message of genbus.chunk or genbus.live.chunk, in either encoding.
func DecodeChunk(header nats.Header, data []byte) (*genbusv1.ChatChunk, error) {
	c := &genbusv1.ChatChunk{}
	return c, event.Decode(header, data, c)
}

// DecodeUsage reads a message of genbus.usage, in either encoding.
func DecodeUsage(header nats.Header, data []byte) (*genbusv1.UsageEvent, error) {
	u := &genbusv1.UsageEvent{}
	return u, event.Decode(header, data, u)
}

// Terminal reports whether a job with this status has come to its end.
func Terminal(s genbusv1.JobStatus) bool {
	switch s {
	case genbusv1.JobStatus_JOB_STATUS_COMPLETED, genbusv1.JobStatus_JOB_STATUS_FAILED, genbusv1.JobStatus_JOB_STATUS_CANCELLED:
		return true
	default:
		return false
	}
}

// jobEvent is an event of either kind.
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
