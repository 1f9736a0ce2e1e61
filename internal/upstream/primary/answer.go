package primary

import (
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// answer is a 2xx answer to a create or poll. The documented form is flat. The common
// implementation wraps the task in an envelope {"code":"success", "message":"","data":{task}} and
// puts the vendor's answer into the task's "data".
type answer struct {
	task
	Data lax.Object[wrapped] `json:"data"`
}

// wrapped is the task inside an envelope.
type wrapped struct {
	task
	Data lax.Object[vendor] `json:"data"`
}

// task holds the fields of a task that genbus reads, in either form.
type task struct {
	TaskID     lax.Word         `json:"task_id"`
	ID         lax.ID           `json:"id"`
	PollingURL lax.Text         `json:"polling_url"`
	Status     lax.Status       `json:"status"`
	Progress   lax.Percent      `json:"progress"`
	FailReason lax.Text         `json:"fail_reason"`
	Error      upstream.Problem `json:"error"`
	Code       lax.Word         `json:"code"`
	Message    lax.Text         `json:"message"`

	URL          lax.Text                `json:"url"`
	ResultURL    lax.Text                `json:"result_url"`
	VideoURL     lax.Text                `json:"video_url"`
	Content      links                   `json:"content"`
	Output       links                   `json:"output"`
	Outputs      links                   `json:"outputs"`
	UnsignedURLs lax.List[upstream.Clip] `json:"unsigned_urls"`
	Videos       lax.List[upstream.Clip] `json:"videos"`

	upstream.About
	Metadata lax.RawObject `json:"metadata"`
	Usage    lax.RawObject `json:"usage"`
}

// vendor is the answer from the vendor behind the gateway. It holds only the fields that may
// contain a result or a reason that appears nowhere else.
type vendor struct {
	Code       lax.Word               `json:"code"`
	Message    lax.Text               `json:"message"`
	Error      upstream.Problem       `json:"error"`
	StatusText lax.Text               `json:"task_status_msg"`
	TaskResult lax.Object[taskResult] `json:"task_result"`
	Data       lax.Object[vendorData] `json:"data"`
}

type vendorData struct {
	VideoURL   lax.Text               `json:"video_url"`
	StatusText lax.Text               `json:"task_status_msg"`
	TaskResult lax.Object[taskResult] `json:"task_result"`
}

type taskResult struct {
	Videos lax.List[upstream.Clip] `json:"videos"`
}

// links is an object with result URLs. Other JSON types are skipped.
type links struct{ ResultURL, VideoURL lax.Text }

func (l *links) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var o lax.Object[struct {
		ResultURL lax.Text `json:"result_url"`
		VideoURL  lax.Text `json:"video_url"`
	}]
	err := o.UnmarshalJSONFrom(dec)
	*l = links(o.Value)
	return err
}

// taskID returns the ID for polling the task, or "".
func (a *answer) taskID() string {
	inner := &a.Data.Value
	return lax.First(a.TaskID, a.ID.Word, inner.TaskID, inner.ID.Text())
}

// names reports whether the answer has the task's ID, or the envelope of a success around the task.
func (a *answer) names(id string) bool {
	inner := &a.Data.Value
	return a.Code != "" && upstream.Meaningful(string(a.Code)) == "" && inner.Status.Set || slices.Contains([]lax.Word{a.TaskID, a.ID.Word, inner.TaskID, inner.ID.Text()}, lax.Word(id))
}

// pollingID returns the ID from an answer that has only a polling_url. The ID is the last segment
// of that URL's path. from is the URL of the create. A polling_url on another host belongs to
// another service, and a polling_url with the same path as from names no task.
func (a *answer) pollingID(from *url.URL) string {
	u, err := from.Parse(lax.First(a.PollingURL, a.Data.Value.PollingURL))
	if err != nil || !strings.EqualFold(u.Hostname(), from.Hostname()) {
		return ""
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	if path == strings.TrimRight(from.EscapedPath(), "/") {
		return ""
	}
	id, err := url.PathUnescape(path[strings.LastIndexByte(path, '/')+1:])
	if err != nil {
		return ""
	}
	return strings.TrimSpace(id)
}

// current returns the level that holds the task: the answer, or the envelope's data if only that
// has a status. The status of an envelope without an ID is about the call.
func (a *answer) current() *task {
	inner := &a.Data.Value.task
	named := a.TaskID != "" || a.ID.Word != ""
	if a.Data.Set && (!a.Status.Set || inner.Status.Set && !named) {
		return inner
	}
	return &a.task
}
