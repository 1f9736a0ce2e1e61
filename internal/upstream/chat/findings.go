package chat

import (
	"bytes"
	"slices"
	"strings"

	"github.com/genbus/genbus/internal/body"
)

// finding is the kind of a JSON object in an answer.
type finding int

const (
	aChunk  finding = iota // a chunk or a whole reply
	anError                // the upstream reports a failure
	another                // an event to skip, such as {"type":"ping"}
)

// Types of errors without a type. They name the member that reports the failure.
const (
	typeBaseResp     = "base_resp"
	typeFinishReason = "finish_reason"
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
	failed   bool // an error at the top
	// elsewhere is the body of an error that is not at the top, in a form that
	// upstream.ParseErrorBody reads.
	elsewhere []byte
}

func (f *findings) kind() finding {
	switch {
	// A bare {"code":..,"message":..} is an error, too.
	case f.failed, f.elsewhere != nil, f.message && !f.named && !f.choice:
		return anError
	case f.members == 0, f.typed && !f.named && !f.choice:
		return another
	default:
		return aChunk
	}
}

// errorIn returns the body of the error in block.
func (f *findings) errorIn(block []byte) []byte {
	if f.failed || f.elsewhere == nil {
		return block
	}
	return f.elsewhere
}

// lookAtBaseResp finds a failure of MiniMax, which answers with status 200, without a choice, and
// with a status_code other than 0.
func (f *findings) lookAtBaseResp(v []byte) {
	if code := body.FindMember(v, "status_code"); !isNothing(code) && string(code) != `"0"` {
		f.found(typeBaseResp, code, body.FindMember(v, "status_msg"))
	}
}

// lookAtChoiceError finds the error of a choice, which OpenRouter sends if a provider fails.
func (f *findings) lookAtChoiceError(v []byte) {
	if !isNothing(v) {
		f.elsewhere = append(append([]byte(`{"error":`), v...), '}')
	}
}

// lookAtReason reports whether v is a finish_reason, and finds those that mean a failure.
func (f *findings) lookAtReason(v []byte) bool {
	if !isString(v) {
		return false
	}
	word := bytes.TrimSpace(v[1 : len(v)-1])
	like := func(other string) bool { return strings.EqualFold(string(word), other) }
	if slices.ContainsFunc(failedReasons, like) {
		f.found(typeFinishReason, v, []byte(`"the upstream ended the reply with finish_reason `+string(word)+`"`))
		return false
	}
	return !slices.ContainsFunc(notReasons, like)
}

// found notes an error whose code and message are JSON values. An error object says more and takes
// precedence.
func (f *findings) found(kind string, code, message []byte) {
	if f.elsewhere != nil {
		return
	}
	b := append([]byte(`{"error":{"type":"`+kind+`","code":`), code...)
	if message != nil {
		b = append(append(b, `,"message":`...), message...)
	}
	f.elsewhere = append(b, "}}"...)
}
