package videos

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// files gives the results of a completed video, from the first place that holds
// a usable URL. It is empty when there is none, which is how the protocol was
// meant: the content is then read by id.
func (a *answer) files() []upstream.VideoFile {
	t := a.current()
	outer, inner := &a.video, &a.Data.Value
	d, innerDetails := outer.details(), inner.details()
	for _, list := range []links{
		outer.Videos, inner.Videos,
		outer.URL, outer.ResultURL, outer.VideoURL, inner.ResultURL, inner.URL, inner.VideoURL,
		outer.DownloadURL, inner.DownloadURL, outer.Content, inner.Content, d.URL, innerDetails.URL,
		outer.Video, inner.Video, outer.Output, inner.Output, outer.Outputs, inner.Outputs,
		outer.UnsignedURLs, inner.UnsignedURLs,
	} {
		if files := upstream.UsableClips(list); files != nil {
			return t.complete(files)
		}
	}
	return nil
}

// details is what a metadata object says about the result.
type details struct {
	upstream.About
	URL links `json:"url"`
}

// details reads the metadata object. Only a completed video needs it, which is
// why the object is kept raw until then.
func (v *video) details() details {
	var d details
	if v.Metadata == nil {
		return d
	}
	if err := json.Unmarshal(v.Metadata, &d, lax.Options); err != nil {
		return details{}
	}
	return d
}

// complete adds to each file what the video object says about it.
func (v *video) complete(files []upstream.VideoFile) []upstream.VideoFile {
	d := v.details()
	v.Complete(files, &d.About)
	for i := range files {
		if f := &files[i]; f.Width == 0 && f.Height == 0 {
			f.Width, f.Height = dimensions(string(v.Size))
		}
	}
	return files
}

// dimensions reads "1280x720" as pixels; 0 and 0 for every other text, such as
// "16:9".
func dimensions(size string) (width, height int) {
	w, h, _ := strings.Cut(strings.ToLower(strings.TrimSpace(size)), "x")
	x, badX := strconv.Atoi(w)
	y, badY := strconv.Atoi(h)
	width, height = lax.Pixels(lax.Number(x)), lax.Pixels(lax.Number(y))
	if badX != nil || badY != nil || width == 0 || height == 0 {
		return 0, 0
	}
	return width, height
}
