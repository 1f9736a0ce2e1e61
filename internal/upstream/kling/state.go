package kling

import (
	"cmp"
	"net/http"
	"time"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// resultLife is how long the vendor keeps a result's URL.
const resultLife = 30 * 24 * time.Hour

// report is what an answer says about a task, whatever its form.
type report struct {
	status   lax.Status
	progress lax.Percent
	// reason and code say why the task failed.
	reason string
	code   string
	// vendor is the task in the vendor's words, as far as they are known.
	vendor task
	// urls are where a gateway may put the result.
	urls      []lax.Text
	requestID lax.Text
}

// report reads the part of the answer that its form makes the valid one.
func (a *answer) report() report {
	inner := &a.Data.Value
	switch a.Code.form() {
	case vendorForm:
		return report{status: inner.TaskStatus, reason: lax.First(inner.StatusText), vendor: inner.task, requestID: a.RequestID}
	case gatewayForm:
		return inner.report(&inner.Data.Value)
	case bareForm:
		return a.relayed.report(new(vendorAnswer))
	default:
		return report{}
	}
}

// report gives what a gateway's task says, and what the vendor's answer in it
// adds.
func (r *relayed) report(v *vendorAnswer) report {
	vendor := v.task
	if v.Data.Set {
		vendor = v.Data.Value
	}
	rep := report{
		status: r.Status, progress: r.Progress, vendor: vendor, requestID: v.RequestID,
		urls: []lax.Text{r.ResultURL, r.URL, r.Metadata.Value.URL, r.FailReason}, // older gateways put the URL of a success last
		code: string(r.Error.Value.Code),
	}
	refused := lax.Text("")
	if v.Code.form() == refusal {
		refused = v.Message
		rep.code = cmp.Or(rep.code, v.Code.word)
	}
	rep.reason = lax.First(r.Error.Value.Message, upstream.FailureText(r.FailReason), upstream.FailureText(r.ResultURL), vendor.StatusText, refused)
	return rep
}

// state gives what the answer says about the task. It is false when the answer
// has no status, and so says nothing. The status alone decides; a result URL does
// not complete a task, and an error object does not fail it.
func (a *answer) state(resp *http.Response) (upstream.VideoState, bool) {
	r := a.report()
	state, ok := upstream.StateOf(r.status, r.progress)
	if !ok {
		return state, false
	}
	state.Usage = r.usage()
	if state.Progression == upstream.Completed {
		state.Videos = r.videos()
		if state.Videos == nil {
			state.Progression, r.reason = upstream.Failed, "the upstream reported success without a video"
		}
	}
	if state.Progression == upstream.Failed {
		state.Err = r.failure()
		state.Err.HTTPStatus, state.Err.RequestID = resp.StatusCode, a.requestID(resp)
	}
	return state, true
}

// failure gives why the task failed. Final is for a failure that the upstream
// stated about the request itself.
func (r *report) failure() *upstream.Error {
	status := upstream.NormaliseStatus(r.status.Word)
	word := r.code
	if word == "" && upstream.Unjudged(status) {
		word = status
	}
	return &upstream.Error{
		Op: upstream.OpPoll, Code: upstream.CutWord(word), Said: true, Written: true,
		Message: upstream.CutMessage(cmp.Or(r.reason, "the upstream gave no reason")),
		Final:   upstream.ProgressionOf(status) == upstream.Failed && !upstream.Unjudged(status),
	}
}

// videos gives the vendor's list of results, else the first place that holds a
// usable URL; nil when there is none.
func (r *report) videos() []upstream.VideoFile {
	var files []upstream.VideoFile
	for _, c := range r.vendor.TaskResult.Value.Videos {
		if upstream.IsResultURL(string(c.Value.URL)) {
			files = append(files, upstream.VideoFile{
				URL: string(c.Value.URL), Duration: max(0, float64(c.Value.Duration)), ExpiresAt: r.expiry(),
			})
		}
	}
	if files != nil {
		return files
	}
	for _, u := range r.urls {
		if upstream.IsResultURL(string(u)) {
			return []upstream.VideoFile{{URL: string(u)}}
		}
	}
	return nil
}

// expiry is when the vendor's URLs stop working; zero when unknown.
func (r *report) expiry() time.Time {
	if r.vendor.UpdatedAt.IsZero() {
		return time.Time{}
	}
	return r.vendor.UpdatedAt.Add(resultLife)
}

// usage gives what the task has cost, or nil.
func (r *report) usage() []byte {
	if r.vendor.Deduction == nil {
		return nil
	}
	var o body.Object
	o.Set(deductionMember, r.vendor.Deduction)
	return o.JSON()
}

// requestID returns the vendor's id for the call. It is in the body; only
// gateways send a header.
func (a *answer) requestID(resp *http.Response) string {
	return cmp.Or(upstream.RequestID(resp.Header), upstream.CutWord(lax.First(a.report().requestID, a.RequestID)))
}
