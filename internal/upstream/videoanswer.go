package upstream

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/upstream/lax"
)

// This file holds the parts of answers that several video protocols share.

// Problem is an error object or a bare error message.
type Problem struct {
	Code    lax.Word                 `json:"code"`
	Type    lax.Text                 `json:"type"`
	Param   lax.Text                 `json:"param"`
	Message lax.Text                 `json:"message"`
	Headers lax.Object[retryHeaders] `json:"headers"`
}

// retryHeaders holds headers of the failed call that newer servers pass on.
type retryHeaders struct {
	RetryAfter   lax.Text `json:"retry-after,case:ignore"`
	RetryAfterMS lax.Text `json:"retry-after-ms,case:ignore"`
}

// UnmarshalJSONFrom accepts an object or a string and skips anything else.
func (p *Problem) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type plain Problem // without this method
	if dec.PeekKind() == '"' {
		*p = Problem{}
		return p.Message.UnmarshalJSONFrom(dec)
	}
	var o lax.Object[plain]
	err := o.UnmarshalJSONFrom(dec)
	*p = Problem(o.Value)
	return err
}

// Failure returns the error of a failed task, from its status, the problem's details, and the code
// and message that the protocol found. If code is empty and the status does not blame the request
// (see Unjudged), the status becomes the code.
func (p *Problem) Failure(status string, code lax.Word, message string) *Error {
	status = NormaliseStatus(status)
	if code == "" && Unjudged(status) {
		code = lax.Word(status)
	}
	return &Error{
		Op: OpPoll, Code: CutWord(string(code)), Type: CutWord(string(p.Type)), Param: CutWord(string(p.Param)),
		Message: CutMessage(message), RetryAfter: p.Headers.Value.wait(), Reported: true, Written: true, Final: !Unjudged(status),
	}
}

func (r retryHeaders) wait() time.Duration {
	h := http.Header{}
	h.Set("Retry-After", string(r.RetryAfter))
	h.Set("Retry-After-Ms", string(r.RetryAfterMS))
	return RetryAfter(h)
}

// Clip is one result: an object or a bare URL.
type Clip struct {
	URL             lax.Text   `json:"url"`
	ResultURL       lax.Text   `json:"result_url"`
	VideoURL        lax.Text   `json:"video_url"`
	Format          lax.Text   `json:"format"`
	Duration        lax.Number `json:"duration"`
	DurationSeconds lax.Number `json:"duration_seconds"`
	Width           lax.Number `json:"width"`
	Height          lax.Number `json:"height"`
	ExpiresAt       lax.Moment `json:"expires_at"`
}

// UnmarshalJSONFrom accepts an object or a string and skips anything else.
func (c *Clip) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type plain Clip // without this method
	if dec.PeekKind() == '"' {
		*c = Clip{}
		return c.URL.UnmarshalJSONFrom(dec)
	}
	var o lax.Object[plain]
	err := o.UnmarshalJSONFrom(dec)
	*c = Clip(o.Value)
	return err
}

// Address returns the URL of the result, even if it is unusable, or "" if there is none.
func (c *Clip) Address() string { return lax.First(c.URL, c.ResultURL, c.VideoURL) }

// UsableClips returns the results with usable URLs from the first list that has any, or nil.
func UsableClips(lists ...[]Clip) []VideoFile {
	for _, clips := range lists {
		var files []VideoFile
		for i := range clips {
			c := &clips[i]
			if u := c.Address(); IsResultURL(u) {
				files = append(files, VideoFile{
					URL: u, Format: CutWord(string(c.Format)), Duration: lax.Positive(c.Duration, c.DurationSeconds),
					Width: lax.Pixels(c.Width), Height: lax.Pixels(c.Height), ExpiresAt: c.ExpiresAt.Time,
				})
			}
		}
		if files != nil {
			return files
		}
	}
	return nil
}

// About holds details about a result from the rest of the answer or its metadata.
type About struct {
	Format    lax.Text   `json:"format"`
	Duration  lax.Number `json:"duration"`
	Seconds   lax.Number `json:"seconds"`
	Width     lax.Number `json:"width"`
	Height    lax.Number `json:"height"`
	ExpiresAt lax.Moment `json:"expires_at"`
}

// Complete fills in missing details of each file from a, the task's own fields, and from metadata.
// The metadata is more accurate for size and duration.
func (a *About) Complete(files []VideoFile, metadata *About) {
	for i := range files {
		f := &files[i]
		if f.Format == "" {
			f.Format = CutWord(lax.First(a.Format, metadata.Format))
		}
		if f.Duration == 0 {
			f.Duration = lax.Positive(metadata.Duration, a.Duration, a.Seconds)
		}
		// Width and height must come from the same source.
		if f.Width == 0 && f.Height == 0 {
			f.Width, f.Height = lax.Pixels(metadata.Width), lax.Pixels(metadata.Height)
		}
		if f.Width == 0 && f.Height == 0 {
			f.Width, f.Height = lax.Pixels(a.Width), lax.Pixels(a.Height)
		}
		if f.ExpiresAt.IsZero() {
			f.ExpiresAt = a.ExpiresAt.Time
		}
	}
}

// Dimensions returns the size and duration of a task's video as text, such as "1280x720" and "5".
// They are empty if unknown.
func (a *About) Dimensions() (size, seconds string) {
	if w, h := lax.Pixels(a.Width), lax.Pixels(a.Height); w > 0 && h > 0 {
		size = strconv.Itoa(w) + "x" + strconv.Itoa(h)
	}
	if length := lax.Positive(a.Duration, a.Seconds); length > 0 {
		seconds = strconv.FormatFloat(length, 'f', -1, 64)
	}
	return size, seconds
}

// StateOf returns the state for a status and a progress value, without results or an error. The
// bool is false if there is no status.
func StateOf(status lax.Status, progress lax.Percent) (VideoState, bool) {
	state := VideoState{Progress: -1}
	if !status.Set {
		return state, false
	}
	state.Progression, state.Status = ProgressionOf(status.Word), CutWord(status.Word)
	state.Unknown = NoSuchTask(status.Word)
	if progress.Set {
		state.Progress = progress.Value
	}
	return state, true
}

// FailureText returns text if it can be the reason for a failure, and "" otherwise. Some servers
// put the reason into result_url, where others put a URL, and some put a word such as SUCCEED where
// the reason belongs.
func FailureText(text lax.Text) lax.Text {
	if IsResultURL(string(text)) || Meaningful(strings.TrimSpace(string(text))) == "" {
		return ""
	}
	return text
}
