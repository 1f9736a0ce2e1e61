package primary

import (
	"github.com/go-json-experiment/json"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// videos gives the results of a completed task: the list of videos when there
// is one, else the first place that holds a usable URL. It is empty when the
// answer names none, as servers do whose content is only read by id.
func (a *answer) videos() []upstream.VideoFile {
	outer, inner := &a.task, &a.Data.Value.task
	if files := firstFiles(outer.Videos, inner.Videos); files != nil {
		return fill(files, a.current())
	}
	v := a.Data.Value.Data.Value
	candidates := []lax.Text{
		outer.URL, outer.ResultURL, outer.VideoURL,
		inner.ResultURL, inner.URL,
		inner.FailReason, // where older servers put the URL of a success
		outer.Content.ResultURL, outer.Content.VideoURL, outer.metadata().URL,
		outer.Output.VideoURL, outer.Outputs.VideoURL,
		inner.VideoURL, inner.Content.ResultURL, inner.Content.VideoURL, inner.metadata().URL,
		inner.Output.VideoURL, inner.Outputs.VideoURL,
	}
	for _, c := range candidates {
		if upstream.IsResultURL(string(c)) {
			return fill([]upstream.VideoFile{{URL: string(c)}}, a.current())
		}
	}
	if files := firstFiles(asClips(outer.UnsignedURLs), asClips(inner.UnsignedURLs),
		v.TaskResult.Value.Videos, v.Data.Value.TaskResult.Value.Videos,
		lax.List[clip]{{URL: v.Data.Value.VideoURL}}); files != nil {
		return fill(files, a.current())
	}
	return nil
}

// firstFiles gives the usable entries of the first list that has any.
func firstFiles(lists ...lax.List[clip]) []upstream.VideoFile {
	for _, clips := range lists {
		var files []upstream.VideoFile
		for _, c := range clips {
			if upstream.IsResultURL(string(c.URL)) {
				files = append(files, c.file())
			}
		}
		if files != nil {
			return files
		}
	}
	return nil
}

func asClips(urls lax.List[lax.Text]) lax.List[clip] {
	clips := make(lax.List[clip], 0, len(urls))
	for _, u := range urls {
		clips = append(clips, clip{URL: u})
	}
	return clips
}

func (c clip) file() upstream.VideoFile {
	return upstream.VideoFile{
		URL: string(c.URL), Format: upstream.CutWord(string(c.Format)), Duration: lax.Positive(c.Duration, c.DurationSeconds),
		Width: lax.Pixels(c.Width), Height: lax.Pixels(c.Height), ExpiresAt: c.ExpiresAt.Time,
	}
}

// details is what a metadata object says about the result.
type details struct {
	URL      lax.Text   `json:"url"`
	Format   lax.Text   `json:"format"`
	Duration lax.Number `json:"duration"`
	Width    lax.Number `json:"width"`
	Height   lax.Number `json:"height"`
}

// metadata reads the metadata object. Only a completed task needs it, which is
// why the object is kept raw until then.
func (t *task) metadata() details {
	var d details
	if t.Metadata == nil {
		return d
	}
	if err := json.Unmarshal(t.Metadata, &d, lax.Options); err != nil {
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
			f.Format = upstream.CutWord(lax.First(t.Format, d.Format))
		}
		if f.Duration == 0 {
			f.Duration = lax.Positive(d.Duration, t.Duration, t.Seconds)
		}
		// Width and height belong together: one of each source would be a lie.
		if f.Width == 0 && f.Height == 0 {
			f.Width, f.Height = lax.Pixels(d.Width), lax.Pixels(d.Height)
		}
		if f.Width == 0 && f.Height == 0 {
			f.Width, f.Height = lax.Pixels(t.Width), lax.Pixels(t.Height)
		}
		if f.ExpiresAt.IsZero() {
			f.ExpiresAt = t.ExpiresAt.Time
		}
	}
	return files
}
