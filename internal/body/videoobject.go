package body

import (
	"strconv"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/task"
)

// VideoObjectJSON returns the answer to POST /v1/videos and GET /v1/videos/{id}. Clients of these
// paths know only four statuses, so cancelled becomes failed with the code cancelled. The prompt is
// null because a task does not keep it.
func VideoObjectJSON(v *genbusv1.VideoTask) []byte {
	var w writer
	w.videoObject(v)
	return w.buf
}

// VideoObjectListJSON returns the answer to GET /v1/videos.
func VideoObjectListJSON(list []*genbusv1.VideoTask, more bool) []byte {
	return pageJSON(list, (*genbusv1.VideoTask).GetId, (*writer).videoObject, more, "")
}

// VideoDeletedJSON returns the answer to DELETE /v1/videos/{id}.
func VideoDeletedJSON(id string) []byte {
	var w writer
	o := w.open()
	o.always("id", id)
	o.always("object", "video.deleted")
	o.bool("deleted", true)
	o.close(nil)
	return w.buf
}

func (w *writer) videoObject(v *genbusv1.VideoTask) {
	o := w.open()
	o.always("id", v.GetId())
	o.always("object", "video")
	o.always("model", v.GetModel())
	o.always("status", fourStatuses(v.GetStatus()))
	o.int("progress", int64(v.GetProgress()))
	o.unix("created_at", v.GetCreatedAt())
	o.unixOrNull("completed_at", completedAt(v))
	o.unixOrNull("expires_at", expiresAt(v))
	o.null("prompt")
	o.always("size", videoSize(v))
	o.always("seconds", videoSeconds(v))
	o.null("remixed_from_video_id")
	if e := v.GetError(); e != nil {
		nest(o, "error", e, (*writer).errorAnswer)
	} else {
		o.null("error")
	}
	o.resultMetadata(v)
	o.textDict("labels", v.GetLabels())
	o.close(nil)
}

// resultMetadata writes the result's URL into metadata, where gateways with these paths put it.
func (o object) resultMetadata(v *genbusv1.VideoTask) {
	switch {
	case len(v.GetMetadataJson()) > 0:
		o.inline("metadata", withURL(v))
	case len(v.GetVideos()) > 0 && v.GetVideos()[0].GetUrl() != "":
		o.name("metadata")
		inner := o.w.open()
		inner.always("url", v.GetVideos()[0].GetUrl())
		inner.close(nil)
	}
}

// withURL returns the upstream's metadata, with the result's URL added unless it already has one.
func withURL(v *genbusv1.VideoTask) []byte {
	d := Trusted(v.GetMetadataJson())
	if len(v.GetVideos()) > 0 && v.GetVideos()[0].GetUrl() != "" && d.Member("url") == nil {
		d = d.WithText("url", v.GetVideos()[0].GetUrl())
	}
	return d.Bytes()
}

func fourStatuses(s genbusv1.JobStatus) string {
	if s == genbusv1.JobStatus_JOB_STATUS_CANCELLED {
		s = genbusv1.JobStatus_JOB_STATUS_FAILED
	}
	return task.StatusWord(s)
}

func completedAt(v *genbusv1.VideoTask) *timestamppb.Timestamp {
	if v.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		return nil
	}
	return v.GetCompletedAt()
}

// expiresAt returns when the first result expires, or nil if that is unknown or there is an
// archived copy.
func expiresAt(v *genbusv1.VideoTask) *timestamppb.Timestamp {
	if videos := v.GetVideos(); len(videos) > 0 && videos[0].GetArchived() == nil {
		return videos[0].GetExpiresAt()
	}
	return nil
}

// videoSize returns the size of the result or, if that is unknown, the requested size.
func videoSize(v *genbusv1.VideoTask) string {
	if videos := v.GetVideos(); len(videos) > 0 && videos[0].GetWidth() > 0 && videos[0].GetHeight() > 0 {
		return strconv.Itoa(int(videos[0].GetWidth())) + "x" + strconv.Itoa(int(videos[0].GetHeight()))
	}
	return v.GetSize()
}

// videoSeconds returns the requested duration or, if there is none, the duration of the result.
func videoSeconds(v *genbusv1.VideoTask) string {
	if v.GetSeconds() == "" && len(v.GetVideos()) > 0 && v.GetVideos()[0].GetDurationSeconds() > 0 {
		return strconv.FormatFloat(v.GetVideos()[0].GetDurationSeconds(), 'f', -1, 64)
	}
	return v.GetSeconds()
}

func (o object) unixOrNull(name string, t *timestamppb.Timestamp) {
	if t == nil {
		o.null(name)
		return
	}
	o.unix(name, t)
}

func (o object) null(name string) {
	o.name(name)
	o.w.buf = append(o.w.buf, "null"...)
}
