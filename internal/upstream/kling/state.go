package kling

import (
	"cmp"
	"net/http"
	"time"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// resultLife is how long the vendor keeps a result.
const resultLife = 30 * 24 * time.Hour

// report is the content of an answer about a task, whatever its form.
type report struct {
	status   lax.Status
	progress lax.Percent
	// reason and code explain why the task failed.
	reason string
	code   string
	// vendor is the task in the vendor's format, possibly incomplete.
	vendor task
	// urls are the values of the fields in which gateways may put the result's URL.
	urls      []lax.Text
	requestID lax.Text
}

// report reads the fields that are valid for the answer's form.
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

// report combines a gateway's task with the vendor's answer inside it.
func (r *relayed) report(v *vendorAnswer) report {
	vendor := v.task
	if v.Data.Set {
		vendor = v.Data.Value
	}
	rep := report{
		status: r.Status, progress: r.Progress, vendor: vendor, requestID: v.RequestID,
		urls: []lax.Text{r.ResultURL, r.URL, r.Metadata.Value.URL, r.FailReason}, // older gateways put the URL of a result into FailReason
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

// state returns the task's state, or false if the answer has no status. Only the status decides: a
// result URL does not complete a task, and an error object does not fail it.
func (a *answer) state(resp *http.Response) (upstream.VideoState, bool) {
	r := a.report()
	state, ok := upstream.StateOf(r.status, r.progress)
	if !ok {
		return state, false
	}
	state.Usage = r.usage()
	if state.Progression == upstream.Completed {
		state.Videos = r.videos()
	}
	if state.Progression == upstream.Failed {
		state.Err = r.failure()
		state.Err.HTTPStatus, state.Err.RequestID = resp.StatusCode, a.requestID(resp)
	}
	return state, true
}

// failure returns the error of a failed task. Final is true if the upstream rejected the request
// itself.
func (r *report) failure() *upstream.Error {
	status := upstream.NormaliseStatus(r.status.Word)
	word := r.code
	if word == "" && upstream.Unjudged(status) {
		word = status
	}
	return &upstream.Error{
		Op: upstream.OpPoll, Code: upstream.CutWord(word), Reported: true, Written: true,
		Message: upstream.CutMessage(cmp.Or(r.reason, "the upstream gave no reason")),
		Final:   upstream.ProgressionOf(status) == upstream.Failed && !upstream.Unjudged(status),
	}
}

// videos returns the usable results in the vendor's list. If there are none, it returns the first
// usable URL from a gateway, or nil.
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

// expiry returns when the vendor's URLs expire, or zero if unknown.
func (r *report) expiry() time.Time {
	if r.vendor.UpdatedAt.IsZero() {
		return time.Time{}
	}
	return r.vendor.UpdatedAt.Add(resultLife)
}

// usage returns the price of the task, or nil.
func (r *report) usage() []byte {
	if r.vendor.Deduction == nil {
		return nil
	}
	var o body.Object
	o.Set(deductionMember, r.vendor.Deduction)
	return o.JSON()
}

// requestID returns the upstream's ID for the call. Only gateways send it in a header; the vendor
// sends it in the body.
func (a *answer) requestID(resp *http.Response) string {
	return cmp.Or(upstream.RequestID(resp.Header), upstream.CutWord(lax.First(a.report().requestID, a.RequestID)))
}
