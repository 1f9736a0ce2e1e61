package jimeng

import (
	"cmp"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
)

// gatewayBody returns a create body in the form that gateways expect. It copies req_key to model,
// and all other parameters except the prompt to metadata. Existing members of metadata take
// precedence. If metadata is not an object, it is left unchanged.
func gatewayBody(d body.Document) body.Document {
	reqKey, metadata := d.Member("req_key"), d.Member("metadata")
	if string(metadata) == "null" {
		metadata = nil
	}
	out := d.With("model", reqKey)
	if metadata != nil && metadata[0] != '{' {
		return out
	}
	var parameters body.Object
	for name, value := range d.Members() {
		switch name {
		case "req_key", "model", "prompt", "metadata":
		default:
			parameters.Set(name, value)
		}
	}
	parameters.Merge(body.Trusted(metadata))
	// The route chose the model, so metadata must not override it.
	for _, name := range []string{"req_key", "model"} {
		parameters.Drop(name)
	}
	return out.With("metadata", parameters.JSON())
}

// codeNoQueries is the code of a gateway that does not support queries of this protocol.
const codeNoQueries = "invalid_api_platform"

// hinted returns e. If a gateway refused a query, it replaces the error's message with advice.
func hinted(e *upstream.Error) *upstream.Error {
	if e.Code == codeNoQueries {
		e.Message = "the gateway does not answer queries of this protocol (" + codeNoQueries + "); " +
			"use protocol primary or videos for this model behind this gateway"
	}
	return e
}

// firstState returns the state in a gateway's answer to a create. The vendor's answer has none. A
// terminal status counts as running, so that the first poll decides.
func (a *answer) firstState() upstream.VideoState {
	s := running(upstream.ProgressionOf(a.Status.Word), a.Status.Word)
	if s.Progression == upstream.Completed || s.Progression == upstream.Failed {
		s.Progression = upstream.Running
	}
	if a.Progress.Set {
		s.Progress = a.Progress.Value
	}
	return s
}

// gatewayProgress reads a task in a gateway's envelope. On success fail_reason may contain the URL;
// on failure both fail_reason and result_url contain the reason.
func (c *client) gatewayProgress(a *answer) upstream.VideoState {
	d := &a.Data.Value
	word, from := d.Status.Word, &d.Vendor.Value
	var s upstream.VideoState
	switch p := upstream.ProgressionOf(word); p {
	case upstream.Completed:
		s = c.completed(word, string(d.ResultURL), string(d.FailReason), string(from.Data.Value.VideoURL))
	case upstream.Failed:
		s = failedState(word, gatewayFailure(d))
	default:
		s = running(p, word)
	}
	if d.Progress.Set {
		s.Progress = d.Progress.Value
	}
	return s
}

func gatewayFailure(d *data) *upstream.Error {
	from, status := &d.Vendor.Value, upstream.NormaliseStatus(d.Status.Word)
	code := upstream.CutWord(upstream.Meaningful(string(from.Code)))
	final, listed := failures[code]
	if !listed {
		final = !upstream.Unjudged(status)
	}
	return &upstream.Error{
		Code:    code,
		Message: cmp.Or(string(d.FailReason), string(from.Message), "the upstream gave no reason"),
		Final:   final,
	}
}
