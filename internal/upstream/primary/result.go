package primary

import (
	"github.com/go-json-experiment/json"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// videos returns the results of a completed task, with details from the task. It returns none if
// the answer has no URL. Some servers provide content only by task ID.
func (a *answer) videos() []upstream.VideoFile {
	files := a.files()
	t := a.current()
	d := t.metadata()
	t.Complete(files, &d.About)
	return files
}

// files returns the list of videos or, if there is none, the first usable URL.
func (a *answer) files() []upstream.VideoFile {
	outer, inner := &a.task, &a.Data.Value.task
	if files := upstream.UsableClips(outer.Videos, inner.Videos); files != nil {
		return files
	}
	v := a.Data.Value.Data.Value
	candidates := []lax.Text{
		outer.URL, outer.ResultURL, outer.VideoURL,
		inner.ResultURL, inner.URL,
		inner.FailReason, // older servers put the URL of a result here
		outer.Content.ResultURL, outer.Content.VideoURL, outer.metadata().URL,
		outer.Output.VideoURL, outer.Outputs.VideoURL,
		inner.VideoURL, inner.Content.ResultURL, inner.Content.VideoURL, inner.metadata().URL,
		inner.Output.VideoURL, inner.Outputs.VideoURL,
	}
	for _, c := range candidates {
		if upstream.IsResultURL(string(c)) {
			return []upstream.VideoFile{{URL: string(c)}}
		}
	}
	return upstream.UsableClips(outer.UnsignedURLs, inner.UnsignedURLs,
		v.TaskResult.Value.Videos, v.Data.Value.TaskResult.Value.Videos, []upstream.Clip{{URL: v.Data.Value.VideoURL}})
}

type details struct {
	upstream.About
	URL lax.Text `json:"url"`
}

// metadata decodes the metadata object, which is kept raw because only completed tasks need it.
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
