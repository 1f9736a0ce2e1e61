package primary

import (
	"math"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/genbus/genbus/internal/upstream"
)

// maxURL bounds an http or https result URL, in bytes. A data: URL is bounded
// by the answer's own limit.
const maxURL = 16 << 10

// videos gives the results of a completed task: the list of videos when there
// is one, else the first place that holds a usable URL. It is empty when the
// answer names none, as servers do whose content is only read by id.
func (a *answer) videos() []upstream.VideoFile {
	outer, inner := &a.task, &a.Data.value.task
	if files := firstFiles(outer.Videos, inner.Videos); files != nil {
		return fill(files, a.current())
	}
	v := a.Data.value.Data.value
	candidates := []text{
		outer.URL, outer.ResultURL, outer.VideoURL,
		inner.ResultURL, inner.URL,
		inner.FailReason, // where older servers put the URL of a success
		outer.Content.ResultURL, outer.Content.VideoURL, outer.metadata().URL,
		outer.Output.VideoURL, outer.Outputs.VideoURL,
		inner.VideoURL, inner.Content.ResultURL, inner.Content.VideoURL, inner.metadata().URL,
		inner.Output.VideoURL, inner.Outputs.VideoURL,
	}
	for _, c := range candidates {
		if validURL(string(c)) {
			return fill([]upstream.VideoFile{{URL: string(c)}}, a.current())
		}
	}
	if files := firstFiles(asClips(outer.UnsignedURLs), asClips(inner.UnsignedURLs),
		v.TaskResult.value.Videos, v.Data.value.TaskResult.value.Videos,
		list[clip]{{URL: v.Data.value.VideoURL}}); files != nil {
		return fill(files, a.current())
	}
	return nil
}

// firstFiles gives the usable entries of the first list that has any.
func firstFiles(lists ...list[clip]) []upstream.VideoFile {
	for _, clips := range lists {
		var files []upstream.VideoFile
		for _, c := range clips {
			if validURL(string(c.URL)) {
				files = append(files, c.file())
			}
		}
		if files != nil {
			return files
		}
	}
	return nil
}

func asClips(urls list[text]) list[clip] {
	clips := make(list[clip], 0, len(urls))
	for _, u := range urls {
		clips = append(clips, clip{URL: u})
	}
	return clips
}

func (c clip) file() upstream.VideoFile {
	return upstream.VideoFile{
		URL: string(c.URL), Format: upstream.CutWord(string(c.Format)), Duration: positive(c.Duration, c.DurationSeconds),
		Width: pixels(c.Width), Height: pixels(c.Height), ExpiresAt: c.ExpiresAt.Time,
	}
}

// details is what a metadata object says about the result.
type details struct {
	URL      text   `json:"url"`
	Format   text   `json:"format"`
	Duration number `json:"duration"`
	Width    number `json:"width"`
	Height   number `json:"height"`
}

// metadata reads the metadata object. Only a completed task needs it, which is
// why the object is kept raw until then.
func (t *task) metadata() details {
	var d details
	if t.Metadata == nil {
		return d
	}
	if err := json.Unmarshal(t.Metadata, &d, lenient); err != nil {
		return details{}
	}
	return d
}

// fill completes each file with what the task says about its result.
func fill(files []upstream.VideoFile, t *task) []upstream.VideoFile {
	d := t.metadata()
	for i := range files {
		f := &files[i]
		if f.Format == "" {
			f.Format = upstream.CutWord(firstText(t.Format, d.Format))
		}
		if f.Duration == 0 {
			f.Duration = positive(d.Duration, t.Duration, t.Seconds)
		}
		// Width and height belong together: one of each source would be a lie.
		if f.Width == 0 && f.Height == 0 {
			f.Width, f.Height = pixels(d.Width), pixels(d.Height)
		}
		if f.Width == 0 && f.Height == 0 {
			f.Width, f.Height = pixels(t.Width), pixels(t.Height)
		}
		if f.ExpiresAt.IsZero() {
			f.ExpiresAt = t.ExpiresAt.Time
		}
	}
	return files
}

// positive gives the first value above 0.
func positive(values ...number) float64 {
	for _, v := range values {
		if v > 0 {
			return float64(v)
		}
	}
	return 0
}

func pixels(n number) int {
	if n < 1 || n > math.MaxInt32 {
		return 0
	}
	return int(n)
}

// validURL reports whether s is an absolute http or https URL, or a data: URL.
func validURL(s string) bool {
	if len(s) > len("data:") && strings.EqualFold(s[:len("data:")], "data:") {
		return strings.Contains(s[:min(len(s), 256)], ",")
	}
	if len(s) > maxURL || len(s) < len("http://h") || !strings.EqualFold(s[:4], "http") {
		return false
	}
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}
