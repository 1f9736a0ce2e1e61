package videos

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// files returns the results of a completed video from the first place with a usable URL. It is
// empty if there is none, which is normal: the protocol reads content by ID.
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

type details struct {
	upstream.About
	URL links `json:"url"`
}

// details decodes the metadata object, which is kept raw because only completed videos need it.
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

// complete adds the video object's details to each file.
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

// dimensions parses "1280x720". It returns 0 and 0 for any other text, such as "16:9".
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
