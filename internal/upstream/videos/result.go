package videos

import (
	"math"
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
		if files := usable(list); files != nil {
			return t.complete(files)
		}
	}
	return nil
}

// usable gives the entries that can be fetched.
func usable(list links) []upstream.VideoFile {
	var files []upstream.VideoFile
	for _, c := range list {
		if u := c.url(); upstream.IsResultURL(u) {
			files = append(files, upstream.VideoFile{
				URL: u, Format: upstream.CutWord(string(c.Format)), Duration: positive(c.Duration, c.DurationSeconds),
				Width: pixels(c.Width), Height: pixels(c.Height), ExpiresAt: c.ExpiresAt.Time,
			})
		}
	}
	return files
}

// details is what a metadata object says about the result.
type details struct {
	URL      links      `json:"url"`
	Format   lax.Text   `json:"format"`
	Duration lax.Number `json:"duration"`
	Width    lax.Number `json:"width"`
	Height   lax.Number `json:"height"`
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
	for i := range files {
		f := &files[i]
		if f.Format == "" {
			f.Format = upstream.CutWord(firstText(v.Format, d.Format))
		}
		if f.Duration == 0 {
			f.Duration = positive(d.Duration, v.Duration, v.Seconds)
		}
		// Width and height belong together: one of each source would be a lie.
		if f.Width == 0 && f.Height == 0 {
			f.Width, f.Height = pixels(d.Width), pixels(d.Height)
		}
		if f.Width == 0 && f.Height == 0 {
			f.Width, f.Height = pixels(v.Width), pixels(v.Height)
		}
		if f.Width == 0 && f.Height == 0 {
			f.Width, f.Height = dimensions(string(v.Size))
		}
		if f.ExpiresAt.IsZero() {
			f.ExpiresAt = v.ExpiresAt.Time
		}
	}
	return files
}

// dimensions reads "1280x720" as pixels; 0 and 0 for every other text, such as
// "16:9".
func dimensions(size string) (width, height int) {
	w, h, ok := strings.Cut(strings.ToLower(strings.TrimSpace(size)), "x")
	width, badWidth := strconv.Atoi(w)
	height, badHeight := strconv.Atoi(h)
	if !ok || badWidth != nil || badHeight != nil || !sane(width) || !sane(height) {
		return 0, 0
	}
	return width, height
}

func sane(pixels int) bool { return pixels > 0 && pixels <= math.MaxInt32 }

// positive gives the first value above 0.
func positive(values ...lax.Number) float64 {
	for _, v := range values {
		if v > 0 {
			return float64(v)
		}
	}
	return 0
}

func pixels(n lax.Number) int {
	if n < 1 || n > math.MaxInt32 {
		return 0
	}
	return int(n)
}
