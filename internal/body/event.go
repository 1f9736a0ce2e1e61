package body

import (
	"encoding/base64"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/task"
)

// EventJSON returns a *VideoTaskEvent, *ChatEvent, *ChatChunk or *UsageEvent as one line of JSON.
// Any other message is an error. Members have the names of the Protobuf fields. Times are in RFC
// 3339, a status is its lower-case word, numbers are JSON numbers, and bytes are Base64. JSON in a
// bytes field is inlined: metadata_json as metadata, reply_json as reply, blocks as an array of
// values, extra_json as members. Empty fields and the execution are omitted. Values that JSON
// cannot represent are omitted too, so that no event is lost because of one field.
func EventJSON(event proto.Message) ([]byte, error) {
	w := writer{buf: make([]byte, 0, 1024), names: make([]string, 0, 32)} // enough for most events
	switch e := event.(type) {
	case *genbusv1.VideoTaskEvent:
		w.videoTaskEvent(e)
	case *genbusv1.ChatEvent:
		w.chatEvent(e)
	case *genbusv1.ChatChunk:
		w.chatChunk(e)
	case *genbusv1.UsageEvent:
		w.usageEvent(e)
	default:
		return nil, fmt.Errorf("writing an event as JSON: %T is not an event", event)
	}
	return oneLine(w.buf), nil
}

// oneLine replaces line breaks with spaces. Valid JSON has line breaks only between tokens. Here
// they can only come from inlined JSON.
func oneLine(text []byte) []byte {
	for i, b := range text {
		if b == '\n' || b == '\r' {
			text[i] = ' '
		}
	}
	return text
}

func (w *writer) videoTaskEvent(e *genbusv1.VideoTaskEvent) {
	o := w.open()
	o.eventHead(e.GetId(), e.GetVersion(), e.GetTime(), e.GetPreviousStatus())
	nest(o, "task", e.GetTask(), (*writer).videoTask)
	o.close(nil)
}

func (w *writer) chatEvent(e *genbusv1.ChatEvent) {
	o := w.open()
	o.eventHead(e.GetId(), e.GetVersion(), e.GetTime(), e.GetPreviousStatus())
	nest(o, "chat", e.GetChat(), (*writer).chatJob)
	o.close(nil)
}

func (o object) eventHead(id string, version uint64, at *timestamppb.Timestamp, previous genbusv1.JobStatus) {
	o.always("id", id)
	o.uint("version", version)
	o.time("time", at)
	if previous != genbusv1.JobStatus_JOB_STATUS_UNSPECIFIED {
		o.always("previous_status", task.StatusWord(previous))
	}
}

func (w *writer) chatChunk(c *genbusv1.ChatChunk) {
	o := w.open()
	o.always("id", c.GetId())
	o.uint("attempt", uint64(c.GetAttempt()))
	o.uint("index", c.GetIndex())
	if len(c.GetBlocks()) > 0 {
		o.name("blocks")
		w.buf = append(w.buf, '[')
		for _, block := range c.GetBlocks() {
			w.comma()
			w.inline("blocks", block)
		}
		w.buf = append(w.buf, ']')
	}
	o.time("time", c.GetTime())
	nest(o, "blocks_ref", c.GetBlocksRef(), (*writer).blobRef)
	o.close(nil)
}

func (w *writer) usageEvent(u *genbusv1.UsageEvent) {
	o := w.open()
	o.always("id", u.GetId())
	o.always("kind", u.GetKind())
	o.always("tenant", u.GetTenant())
	o.text("model", u.GetModel())
	o.text("route", u.GetRoute())
	o.text("upstream", u.GetUpstream())
	o.always("status", task.StatusWord(u.GetStatus()))
	o.text("code", u.GetCode())
	o.time("time", u.GetTime())
	nest(o, "usage", u.GetUsage(), (*writer).usage)
	o.optDouble("video_seconds", u.VideoSeconds)
	o.known("videos", int64(u.GetVideos()))
	o.uint("attempts", uint64(u.GetAttempts()))
	o.textDict("labels", u.GetLabels())
	o.close(nil)
}

func (w *writer) videoTask(t *genbusv1.VideoTask) {
	o := w.open()
	o.always("id", t.GetId())
	o.always("status", task.StatusWord(t.GetStatus()))
	o.text("phase", phaseWord(t.GetExecution().GetPhase()))
	o.int("progress", int64(t.GetProgress()))
	o.text("model", t.GetModel())
	list(o, "videos", t.GetVideos(), (*writer).videoFile)
	nest(o, "error", t.GetError(), (*writer).taskError)
	o.time("created_at", t.GetCreatedAt())
	o.time("updated_at", t.GetUpdatedAt())
	o.time("completed_at", t.GetCompletedAt())
	o.text("tenant", t.GetTenant())
	o.uint("version", t.GetVersion())
	o.textDict("labels", t.GetLabels())
	o.text("upstream_task_id", t.GetUpstreamTaskId())
	o.text("upstream_status", t.GetUpstreamStatus())
	o.inline("metadata", t.GetMetadataJson())
	o.text("request_id", t.GetRequestId())
	o.text("protocol", t.GetProtocol())
	o.text("retry_of", t.GetRetryOf())
	o.time("expires_at", t.GetExpiresAt())
	nest(o, "usage", t.GetUsage(), (*writer).usage)
	nest(o, "archive", t.GetArchive(), (*writer).archive)
	o.text("size", t.GetSize())
	o.text("seconds", t.GetSeconds())
	o.close(nil)
}

func (w *writer) chatJob(c *genbusv1.Chat) {
	o := w.open()
	o.always("id", c.GetId())
	o.always("status", task.StatusWord(c.GetStatus()))
	o.text("phase", phaseWord(c.GetExecution().GetPhase()))
	o.text("model", c.GetModel())
	o.inline("reply", c.GetReplyJson())
	nest(o, "reply_ref", c.GetReplyRef(), (*writer).blobRef)
	nest(o, "error", c.GetError(), (*writer).taskError)
	o.time("created_at", c.GetCreatedAt())
	o.time("updated_at", c.GetUpdatedAt())
	o.time("completed_at", c.GetCompletedAt())
	o.text("tenant", c.GetTenant())
	o.uint("version", c.GetVersion())
	o.textDict("labels", c.GetLabels())
	o.uint("attempt", uint64(c.GetAttempt()))
	if c.GetChunkCount() != 0 {
		o.uint("chunk_count", c.GetChunkCount())
	}
	nest(o, "usage", c.GetUsage(), (*writer).usage)
	o.text("request_id", c.GetRequestId())
	o.text("retry_of", c.GetRetryOf())
	o.time("expires_at", c.GetExpiresAt())
	o.bool("inline", c.GetInline())
	o.close(nil)
}

func (w *writer) videoFile(v *genbusv1.Video) {
	o := w.open()
	o.text("url", v.GetUrl())
	o.text("format", v.GetFormat())
	if v.GetDurationSeconds() != 0 {
		o.double("duration_seconds", v.GetDurationSeconds())
	}
	o.known("width", int64(v.GetWidth()))
	o.known("height", int64(v.GetHeight()))
	o.time("expires_at", v.GetExpiresAt())
	nest(o, "archived", v.GetArchived(), (*writer).blobRef)
	o.close(nil)
}

func (w *writer) taskError(e *genbusv1.TaskError) {
	o := w.open()
	o.always("code", e.GetCode())
	o.always("message", e.GetMessage())
	o.bool("retryable", e.GetRetryable())
	o.text("upstream_code", e.GetUpstreamCode())
	o.known("upstream_http_status", int64(e.GetUpstreamHttpStatus()))
	o.text("upstream_request_id", e.GetUpstreamRequestId())
	o.text("type", e.GetType())
	o.text("param", e.GetParam())
	if e.GetRetryAfterSeconds() != 0 {
		o.double("retry_after_seconds", e.GetRetryAfterSeconds())
	}
	o.close(nil)
}

func (w *writer) archive(a *genbusv1.Archive) {
	o := w.open()
	list(o, "files", a.GetFiles(), (*writer).blobRef)
	nest(o, "error", a.GetError(), (*writer).taskError)
	o.close(nil)
}

func (w *writer) blobRef(b *genbusv1.BlobRef) {
	o := w.open()
	o.text("bucket", b.GetBucket())
	o.text("name", b.GetName())
	o.uint("size", b.GetSize())
	o.text("sha256", base64.StdEncoding.EncodeToString(b.GetSha256()))
	o.text("content_type", b.GetContentType())
	o.close(nil)
}

func (o object) time(name string, t *timestamppb.Timestamp) {
	if t != nil {
		o.always(name, t.AsTime().Format(time.RFC3339Nano))
	}
}
