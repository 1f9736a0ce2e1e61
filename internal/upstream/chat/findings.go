package chat

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// finding is the kind of a JSON object in an answer.
type finding int

const (
	aChunk  finding = iota // a chunk or a whole reply
	anError                // the upstream reports a failure
	another                // an event to skip, such as {"type":"ping"}
)

var (
	// notReasons are words in the finish_reason of a choice that has not finished. DashScope sends
	// "null".
	notReasons = []string{"", "null", "none"}
	// failedReasons are words in the finish_reason of a choice that was not generated to its end, as
	// documented by OpenRouter, watsonx and vLLM (error), Z.ai (network_error), DeepSeek
	// (insufficient_system_resource), and vLLM and SGLang (abort). All other words mean that the
	// choice has finished.
	failedReasons = []string{"error", "network_error", "insufficient_system_resource", "abort", "aborted"}
)

// findings collects what a JSON object contains.
type findings struct {
	members  int
	named    bool // a member that chunks and replies have
	choice   bool // at least one choice
	finished bool // a choice with a finish_reason
	typed    bool // a type, as events have that are not chunks
	message  bool // the text of a bare error
	failed   bool // an error in a place that upstream.ParseErrorBody reads
	// reason is the body of the error that a finish_reason reports, or nil.
	reason []byte
}

func (f *findings) kind() finding {
	switch {
	// A bare {"code":..,"message":..} is an error, too.
	case f.failed, f.reason != nil, f.message && !f.named && !f.choice:
		return anError
	case f.members == 0, f.typed && !f.named && !f.choice:
		return another
	default:
		return aChunk
	}
}

// errorIn returns the body of the error in block. An error object says more than a finish_reason.
func (f *findings) errorIn(block []byte) []byte {
	if f.failed || f.reason == nil {
		return block
	}
	return f.reason
}

// lookAtReason reports whether v is a finish_reason, and finds those that mean a failure.
func (f *findings) lookAtReason(v []byte) bool {
	if !isString(v) {
		return false
	}
	word := bytes.TrimSpace(v[1 : len(v)-1])
	like := func(other string) bool { return strings.EqualFold(string(word), other) }
	if slices.ContainsFunc(failedReasons, like) {
		f.reason = fmt.Appendf(nil, `{"error":{"type":"finish_reason","code":%s,"message":"the upstream ended the reply with finish_reason %s"}}`, v, word)
		return false
	}
	return !slices.ContainsFunc(notReasons, like)
}
