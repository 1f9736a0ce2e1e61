package httpapi

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
)

// linked returns the task with result URLs that the caller can use. If a result has no such URL,
// for example because the upstream's URL needs the upstream key, it gets the URL of its content on
// genbus, which needs the caller's key.
func (x *exchange) linked(t *genbusv1.VideoTask) *genbusv1.VideoTask {
	if t.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		return t
	}
	out := proto.CloneOf(t)
	if len(out.GetVideos()) == 0 {
		out.Videos = []*genbusv1.Video{{}}
	}
	for i, v := range out.GetVideos() {
		if x.works(t, v) {
			continue
		}
		if v.Url, v.ExpiresAt = x.contentURL(t.GetId()), nil; i > 0 {
			v.Url += "?index=" + strconv.Itoa(i)
		}
	}
	x.linkMetadata(t, out)
	return out
}

// works reports whether a result's URL can be used without a key. An expired URL counts as unusable
// only if genbus has archived a copy.
func (x *exchange) works(t *genbusv1.VideoTask, v *genbusv1.Video) bool {
	replaced := v.GetArchived() != nil && v.GetExpiresAt() != nil && time.Now().After(v.GetExpiresAt().AsTime())
	return v.GetUrl() != "" && !replaced && !x.h.routeTable.NeedsKey(t, v.GetUrl())
}

// linkMetadata replaces the URL that some gateways put into a task's metadata. If that URL equals a
// result's URL, as it usually does, it gets the same replacement.
func (x *exchange) linkMetadata(t, out *genbusv1.VideoTask) {
	metadata := body.Trusted(t.GetMetadataJson())
	url := metadata.Text("url")
	if url == "" {
		return
	}
	link := url
	if x.h.routeTable.NeedsKey(t, url) {
		link = x.contentURL(t.GetId())
	}
	if i := slices.IndexFunc(t.GetVideos(), func(v *genbusv1.Video) bool { return v.GetUrl() == url }); i >= 0 {
		link = out.GetVideos()[i].GetUrl()
	}
	if link != url {
		out.MetadataJson = metadata.WithText("url", link).Bytes()
	}
}

func (x *exchange) contentURL(id string) string {
	base := strings.TrimRight(x.h.cfg.Now().HTTP.PublicURL, "/")
	if base == "" {
		scheme := "http://"
		if x.r.TLS != nil {
			scheme = "https://"
		}
		base = scheme + x.r.Host
	}
	return base + "/v1/videos/" + id + "/content"
}
