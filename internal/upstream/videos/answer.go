package videos

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// answer is a 2xx answer to a create or poll: the video object, or the envelope
// {"code":"success","message":"","data":{video}} of gateways that answer every path alike.
type answer struct {
	video
	Data lax.Object[video] `json:"data"`
}

// video holds the fields of a video object that genbus reads, in any dialect. Fields that only
// people read (object, model, prompt, created_at and its variants) are left out, so that odd values
// in them do no harm.
type video struct {
	ID         lax.ID           `json:"id"`
	TaskID     lax.Word         `json:"task_id"`
	VideoID    lax.Word         `json:"video_id"`
	Status     lax.Status       `json:"status"`
	Progress   lax.Percent      `json:"progress"`
	Error      upstream.Problem `json:"error"`
	FailReason lax.Text         `json:"fail_reason"`
	Code       lax.Word         `json:"code"`
	Message    lax.Text         `json:"message"`

	URL          links `json:"url"`
	ResultURL    links `json:"result_url"`
	VideoURL     links `json:"video_url"`
	DownloadURL  links `json:"download_url"`
	Content      links `json:"content"`
	Output       links `json:"output"`
	Outputs      links `json:"outputs"`
	Video        links `json:"video"`
	Videos       links `json:"videos"`
	UnsignedURLs links `json:"unsigned_urls"`

	upstream.About
	Size     lax.Text      `json:"size"`
	Metadata lax.RawObject `json:"metadata"`
	Usage    lax.RawObject `json:"usage"`
}

// links holds results in any form that servers use: a URL, an object with one, or a list of either.
// Any other value is skipped.
type links []upstream.Clip

func (l *links) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*l = nil
	if dec.PeekKind() == '[' {
		var list lax.List[upstream.Clip]
		err := list.UnmarshalJSONFrom(dec)
		*l = links(list)
		return err
	}
	var one upstream.Clip
	err := one.UnmarshalJSONFrom(dec)
	if one.Address() != "" {
		*l = links{one}
	}
	return err
}

// taskID returns the ID for polling the task, or "".
func (a *answer) taskID() string {
	inner := &a.Data.Value
	return lax.First(a.ID.Word, a.TaskID, a.VideoID, inner.TaskID, inner.VideoID, inner.ID.Text())
}

// names reports whether the answer has the task's ID, or the envelope of a success around the task.
func (a *answer) names(id string) bool {
	inner := &a.Data.Value
	ids := []lax.Word{a.ID.Word, a.TaskID, a.VideoID, inner.TaskID, inner.VideoID, inner.ID.Text()}
	return a.Code != "" && upstream.Meaningful(string(a.Code)) == "" && inner.Status.Set || slices.Contains(ids, lax.Word(id))
}

// current returns the level that holds the video: the answer, or the envelope's data if only that
// has a status. The status of an envelope without an ID is about the call.
func (a *answer) current() *video {
	inner := &a.Data.Value
	named := a.ID.Word != "" || a.TaskID != "" || a.VideoID != ""
	if a.Data.Set && (!a.Status.Set || inner.Status.Set && !named) {
		return inner
	}
	return &a.video
}
