package upstream

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/upstream/lax"
)

// This file has the parts that the answers of several video protocols have
// in common.

// Problem is an error object, or an error text alone.
type Problem struct {
	Code    lax.Word                 `json:"code"`
	Type    lax.Text                 `json:"type"`
	Param   lax.Text                 `json:"param"`
	Message lax.Text                 `json:"message"`
	Headers lax.Object[retryHeaders] `json:"headers"`
}

// retryHeaders are those headers of the failed call that newer servers hand on.
type retryHeaders struct {
	RetryAfter   lax.Text `json:"retry-after,case:ignore"`
	RetryAfterMS lax.Text `json:"retry-after-ms,case:ignore"`
}

// UnmarshalJSONFrom is for the decoder.
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

// Failure is why a task failed whose status is that word: the problem's own
// details, and the code and the message that the protocol found for it. Where
// there is no code, a word that judges nothing takes its place.
func (p *Problem) Failure(status string, code lax.Word, message string) *Error {
	status = NormaliseStatus(status)
	if code == "" && Unjudged(status) {
		code = lax.Word(status)
	}
	return &Error{
		Op: OpPoll, Code: CutWord(string(code)), Type: CutWord(string(p.Type)), Param: CutWord(string(p.Param)),
		Message: CutMessage(message), RetryAfter: p.Headers.Value.wait(), Said: true, Written: true, Final: !Unjudged(status),
	}
}

// wait is what the headers ask for, or 0.
func (r retryHeaders) wait() time.Duration {
	h := http.Header{}
	h.Set("Retry-After", string(r.RetryAfter))
	h.Set("Retry-After-Ms", string(r.RetryAfterMS))
	return RetryAfter(h)
}

// Clip is one result: an object, or the URL alone.
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

// UnmarshalJSONFrom is for the decoder.
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

// Address is the URL of the result, whether or not it can be used; empty for
// none.
func (c *Clip) Address() string { return lax.First(c.URL, c.ResultURL, c.VideoURL) }

// UsableClips gives the results of the first list that has any whose URL can be
// fetched; nil when none has.
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

// About is what an answer, or its metadata, says of a result next to it.
type About struct {
	Format    lax.Text   `json:"format"`
	Duration  lax.Number `json:"duration"`
	Seconds   lax.Number `json:"seconds"`
	Width     lax.Number `json:"width"`
	Height    lax.Number `json:"height"`
	ExpiresAt lax.Moment `json:"expires_at"`
}

// Complete adds to each file what it does not say itself: from the task, and from
// its metadata, which knows more of the size and the length.
func (a *About) Complete(files []VideoFile, metadata *About) {
	for i := range files {
		f := &files[i]
		if f.Format == "" {
			f.Format = CutWord(lax.First(a.Format, metadata.Format))
		}
		if f.Duration == 0 {
			f.Duration = lax.Positive(metadata.Duration, a.Duration, a.Seconds)
		}
		// Width and height belong together: one of each source would be a lie.
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

// Dimensions are the size and the length of a task's video as texts, such as "1280x720"
// and "5"; empty where nothing is said of them.
func (a *About) Dimensions() (size, seconds string) {
	if w, h := lax.Pixels(a.Width), lax.Pixels(a.Height); w > 0 && h > 0 {
		size = strconv.Itoa(w) + "x" + strconv.Itoa(h)
	}
	if length := lax.Positive(a.Duration, a.Seconds); length > 0 {
		seconds = strconv.FormatFloat(length, 'f', -1, 64)
	}
	return size, seconds
}

// StateOf is the state that a status word and a progress stand for, before any
// result or failure. It is false without a status: the answer then says nothing.
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

// FailureText is what a text says of a failure; empty for one that says nothing of it. Some
// servers put the reason into result_url, where others have a URL, and some put the word of
// the vendor's envelope, such as SUCCEED, where the reason should be.
func FailureText(text lax.Text) lax.Text {
	if IsResultURL(string(text)) || Meaningful(strings.TrimSpace(string(text))) == "" {
		return ""
	}
	return text
}
