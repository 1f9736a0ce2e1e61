package primary

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// answer is a 2xx answer to a create or a poll. The documented form is flat; the
// program in the field wraps the task into an envelope {"code":"success",
// "message":"","data":{task}} and puts the vendor's own answer into the task's
// "data".
type answer struct {
	task
	Data object[wrapped] `json:"data"`
}

// wrapped is the task inside an envelope.
type wrapped struct {
	task
	Data object[vendor] `json:"data"`
}

// task is every field of a task that genbus reads, in either form.
type task struct {
	TaskID     word       `json:"task_id"`
	ID         rawID      `json:"id"`
	Status     statusText `json:"status"`
	Progress   percent    `json:"progress"`
	FailReason text       `json:"fail_reason"`
	Error      problem    `json:"error"`
	Code       word       `json:"code"`
	Message    text       `json:"message"`

	URL          text       `json:"url"`
	ResultURL    text       `json:"result_url"`
	VideoURL     text       `json:"video_url"`
	Content      links      `json:"content"`
	Output       links      `json:"output"`
	Outputs      links      `json:"outputs"`
	UnsignedURLs list[text] `json:"unsigned_urls"`
	Videos       list[clip] `json:"videos"`

	Format    text      `json:"format"`
	Duration  number    `json:"duration"`
	Seconds   number    `json:"seconds"`
	Width     number    `json:"width"`
	Height    number    `json:"height"`
	ExpiresAt moment    `json:"expires_at"`
	Metadata  rawObject `json:"metadata"`
	Usage     rawObject `json:"usage"`
}

// vendor is the answer of the vendor behind the gateway, as far as a result or
// a reason of failure may only stand there.
type vendor struct {
	Code       word               `json:"code"`
	Message    text               `json:"message"`
	Error      problem            `json:"error"`
	StatusText text               `json:"task_status_msg"`
	TaskResult object[taskResult] `json:"task_result"`
	Data       object[vendorData] `json:"data"`
}

type vendorData struct {
	VideoURL   text               `json:"video_url"`
	StatusText text               `json:"task_status_msg"`
	TaskResult object[taskResult] `json:"task_result"`
}

type taskResult struct {
	Videos list[clip] `json:"videos"`
}

// links is an object that holds result URLs; any other type is skipped.
type links struct{ ResultURL, VideoURL text }

func (l *links) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var o object[struct {
		ResultURL text `json:"result_url"`
		VideoURL  text `json:"video_url"`
	}]
	err := o.UnmarshalJSONFrom(dec)
	*l = links(o.value)
	return err
}

// clip is one entry of a list of videos: an object, or the URL alone.
type clip struct {
	URL             text   `json:"url"`
	Format          text   `json:"format"`
	Duration        number `json:"duration"`
	DurationSeconds number `json:"duration_seconds"`
	Width           number `json:"width"`
	Height          number `json:"height"`
	ExpiresAt       moment `json:"expires_at"`
}

func (c *clip) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type plain clip // without this method
	if dec.PeekKind() == '"' {
		*c = clip{}
		return c.URL.UnmarshalJSONFrom(dec)
	}
	var o object[plain]
	err := o.UnmarshalJSONFrom(dec)
	*c = clip(o.value)
	return err
}

// problem is an error object or an error text.
type problem struct {
	Code    word `json:"code"`
	Type    text `json:"type"`
	Param   text `json:"param"`
	Message text `json:"message"`
}

func (p *problem) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type plain problem // without this method
	if dec.PeekKind() == '"' {
		*p = problem{}
		return p.Message.UnmarshalJSONFrom(dec)
	}
	var o object[plain]
	err := o.UnmarshalJSONFrom(dec)
	*p = problem(o.value)
	return err
}

// rawID is an id that may be a text or an integer; inside an envelope the
// integer is a database key and not the task's id.
type rawID struct {
	value word
	isInt bool
}

func (r *rawID) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	r.isInt = dec.PeekKind() == '0'
	return r.value.UnmarshalJSONFrom(dec)
}

// decode reads an answer in one pass. The error says that it is not a JSON
// object; odd fields inside it are skipped.
func decode(body []byte) (*answer, error) {
	a := new(answer)
	err := json.Unmarshal(body, a, lenient)
	return a, err
}

// lenient reads what servers send rather than what RFC 8259 asks for.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// taskID gives the id under which the task is polled, or "".
func (a *answer) taskID() string {
	candidates := []word{a.TaskID, a.ID.value, a.Data.value.TaskID}
	if !a.Data.value.ID.isInt {
		candidates = append(candidates, a.Data.value.ID.value)
	}
	for _, id := range candidates {
		if s := strings.TrimSpace(string(id)); s != "" {
			return s
		}
	}
	return ""
}

// current gives the level that holds the task: the answer itself, or the
// envelope's data when only that has a status.
func (a *answer) current() *task {
	if !a.Status.set && a.Data.set {
		return &a.Data.value.task
	}
	return &a.task
}
