package api

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// linked is the task as an answer shows it: where a result has no URL that
// works, as when it is only read by the task's id, it gets that of its content
// here, which needs the caller's own key.
func (x *exchange) linked(t *genbusv1.VideoTask) *genbusv1.VideoTask {
	if t.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || usable(t.GetVideos(), time.Now()) {
		return t
	}
	out := proto.CloneOf(t)
	if len(out.GetVideos()) == 0 {
		out.Videos = []*genbusv1.Video{{}}
	}
	for i, v := range out.GetVideos() {
		if works(v, time.Now()) {
			continue
		}
		if v.Url, v.ExpiresAt = x.contentURL(t.GetId()), nil; i > 0 {
			v.Url += "?index=" + strconv.Itoa(i)
		}
	}
	return out
}

func usable(videos []*genbusv1.Video, now time.Time) bool {
	for _, v := range videos {
		if !works(v, now) {
			return false
		}
	}
	return len(videos) > 0
}

// works reports whether a result's own URL may still be used. One that has
// expired is only replaced where there is a copy.
func works(v *genbusv1.Video, now time.Time) bool {
	replaced := v.GetArchived() != nil && v.GetExpiresAt() != nil && now.After(v.GetExpiresAt().AsTime())
	return v.GetUrl() != "" && !replaced
}

func (x *exchange) contentURL(id string) string {
	base := strings.TrimRight(x.web.cfg.HTTP.PublicURL, "/")
	if base == "" {
		scheme := "http://"
		if x.r.TLS != nil {
			scheme = "https://"
		}
		base = scheme + x.r.Host
	}
	return base + "/v1/videos/" + id + "/content"
}
