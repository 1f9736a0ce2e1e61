package body

import (
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/task"
)

// Every answer below is valid JSON. Invalid UTF-8 is replaced, and values that JSON cannot
// represent are omitted. Times are Unix seconds.

// VideoCreatedJSON returns the answer to POST /v1/video/generations.
func VideoCreatedJSON(v *genbusv1.VideoTask) []byte {
	var w writer
	w.videoHead(v).close(nil)
	return w.buf
}

// VideoTaskJSON returns the answer to GET /v1/video/generations/{task_id}. url and format describe
// the first video. error is absent unless the task has one. replacedBy lists the tasks that repeat
// this one.
func VideoTaskJSON(v *genbusv1.VideoTask, replacedBy []string) []byte {
	var w writer
	w.taskAnswer(v, replacedBy)
	return w.buf
}

func (w *writer) taskAnswer(v *genbusv1.VideoTask, replacedBy []string) {
	o := w.videoHead(v)
	o.unix("completed_at", v.GetCompletedAt())
	if videos := v.GetVideos(); len(videos) > 0 {
		o.text("url", videos[0].GetUrl())
		o.text("format", videos[0].GetFormat())
		list(o, "videos", videos, (*writer).videoAnswer)
	}
	o.inline("metadata", v.GetMetadataJson())
	nest(o, "usage", v.GetUsage(), (*writer).usage)
	nest(o, "error", v.GetError(), (*writer).errorAnswer)
	o.text("request_id", v.GetRequestId())
	o.text("retry_of", v.GetRetryOf())
	o.texts("replaced_by", replacedBy)
	o.textDict("labels", v.GetLabels())
	o.close(nil)
}

func (w *writer) videoHead(v *genbusv1.VideoTask) object {
	o := w.open()
	o.always("task_id", v.GetId())
	o.always("id", v.GetId())
	o.always("object", "video")
	o.always("model", v.GetModel())
	o.always("status", task.StatusWord(v.GetStatus()))
	o.int("progress", int64(v.GetProgress()))
	o.unix("created_at", v.GetCreatedAt())
	return o
}

func (w *writer) videoAnswer(v *genbusv1.Video) {
	o := w.open()
	o.always("url", v.GetUrl())
	o.text("format", v.GetFormat())
	if v.GetDurationSeconds() != 0 {
		o.double("duration", v.GetDurationSeconds())
	}
	o.known("width", int64(v.GetWidth()))
	o.known("height", int64(v.GetHeight()))
	o.unix("expires_at", v.GetExpiresAt())
	o.close(nil)
}

func (w *writer) errorAnswer(e *genbusv1.TaskError) {
	o := w.open()
	o.always("code", e.GetCode())
	o.always("message", e.GetMessage())
	o.text("type", e.GetType())
	o.text("param", e.GetParam())
	o.bool("retryable", e.GetRetryable())
	o.text("upstream_code", e.GetUpstreamCode())
	o.close(nil)
}

// ChatJSON returns the answer to a GET for a chat by ID, and to a POST with respond-async. It
// includes reply, the upstream's JSON, byte for byte. reply is empty if the chat has not ended or
// reply_ref refers to the reply. replacedBy lists the chats that repeat this one.
func ChatJSON(chat *genbusv1.Chat, reply []byte, replacedBy []string) []byte {
	var w writer
	w.chatAnswer(chat, reply, replacedBy)
	return w.buf
}

func (w *writer) chatAnswer(chat *genbusv1.Chat, reply []byte, replacedBy []string) {
	o := w.open()
	o.always("id", chat.GetId())
	o.always("object", "chat.completion.job")
	o.always("status", task.StatusWord(chat.GetStatus()))
	o.always("model", chat.GetModel())
	o.uint("attempt", uint64(chat.GetAttempt()))
	o.unix("created_at", chat.GetCreatedAt())
	o.unix("completed_at", chat.GetCompletedAt())
	nest(o, "error", chat.GetError(), (*writer).errorAnswer)
	o.text("request_id", chat.GetRequestId())
	o.text("retry_of", chat.GetRetryOf())
	o.texts("replaced_by", replacedBy)
	o.textDict("labels", chat.GetLabels())
	if len(reply) == 0 {
		nest(o, "reply_ref", chat.GetReplyRef(), (*writer).blobRef)
	}
	o.inline("response", reply)
	o.close(nil)
}

// ModelListJSON returns the answer to GET /v1/models.
func ModelListJSON(models []*genbusv1.Model) []byte {
	var w writer
	o := w.open()
	o.always("object", "list")
	array(o, "data", "data", models, (*writer).model)
	o.close(nil)
	return w.buf
}

// ModelJSON returns the answer to GET /v1/models/{model}.
func ModelJSON(model *genbusv1.Model) []byte {
	var w writer
	w.model(model)
	return w.buf
}

func (w *writer) model(m *genbusv1.Model) {
	o := w.open()
	o.always("id", m.GetId())
	o.always("object", "model")
	o.int("created", m.GetCreated())
	o.always("owned_by", m.GetOwnedBy())
	o.text("group", m.GetGroup())
	o.text("protocol", m.GetProtocol())
	o.texts("modes", m.GetModes())
	o.close(m.GetExtraJson())
}

func (o object) unix(name string, t *timestamppb.Timestamp) {
	if t != nil {
		o.int(name, t.GetSeconds())
	}
}

// known writes a number unless it is 0, which means unknown.
func (o object) known(name string, value int64) {
	if value != 0 {
		o.int(name, value)
	}
}

// inline writes raw as a JSON value. Invalid JSON is written as a string so that it is not lost.
func (o object) inline(name string, raw []byte) {
	if len(raw) > 0 {
		o.name(name)
		o.w.inline(name, raw)
	}
}

func (w *writer) inline(field string, raw []byte) {
	if valid(raw, lenient) && utf8.Valid(raw) {
		w.buf = append(w.buf, raw...)
		return
	}
	w.string(field, string(raw))
}
