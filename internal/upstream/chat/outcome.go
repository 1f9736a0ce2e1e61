package chat

import (
	"slices"

	"github.com/genbus/genbus/internal/upstream"
)

// Codes of the errors that this package detects itself (Reported is false). They are part of
// genbus's error contract.
const (
	// CodeFirstByteTimeout means that nothing arrived within Options.FirstByte or Answer.
	CodeFirstByteTimeout = "first_byte_timeout"
	// CodeIdleTimeout means that the answer started and then stalled for Options.Idle.
	CodeIdleTimeout = "idle_timeout"
	// CodeTotalTimeout means that the answer did not end within Options.Total.
	CodeTotalTimeout = "total_timeout"
	// CodeStreamTruncated means that the stream ended without [DONE] and without a finish_reason
	// for every choice.
	CodeStreamTruncated = "stream_truncated"
	// CodeUnreadable means that an answer with a success status is not a chat completion, or one
	// without a choice.
	CodeUnreadable = "unreadable_answer"
	// CodeTooLarge means that the answer exceeds MaxReply or an event exceeds MaxEvent.
	CodeTooLarge = "reply_too_large"
	// CodeCancelled means that the caller's context ended. Error.Err is the cause.
	CodeCancelled = "cancelled"
)

// outcomes decides for every failed call whether the same request would fail again, and what the
// failure applies to. A row's verdict is RefusedForGood if it would, and RefusedForNow otherwise.
// Codes come first, because real servers answer 503 for an unknown model, 500 for an empty list of
// messages and 429 for an exhausted quota. Words that servers send with almost any error, such as
// invalid_request_error, come after the statuses of refusals.
var outcomes = slices.Concat(upstream.Outcomes{
	// Detected by this package.
	byCode(CodeTooLarge, final, upstream.ScopeRequest),
	byCode(CodeTotalTimeout, passing, upstream.ScopeRequest), // the call used all its time
	byCode(CodeCancelled, passing, upstream.ScopeRequest),
	byCode(CodeFirstByteTimeout, passing, upstream.ScopeUpstream),
	byCode(CodeIdleTimeout, passing, upstream.ScopeUpstream),
	byCode(CodeStreamTruncated, passing, upstream.ScopeUpstream),
	byCode(CodeUnreadable, passing, upstream.ScopeUpstream),
}, upstream.WordRows, upstream.MiniMaxRows, upstream.Outcomes{
	byCode("billing_*", final, upstream.ScopeKey).Denying(upstream.QuotaDenied),
	byCode("resource_exhausted", passing, upstream.ScopeKey),

	byCode("model_not_found", final, upstream.ScopeUpstream),
	byCode("model_not_supported", final, upstream.ScopeUpstream),
	byCode("not_found*", final, upstream.ScopeUpstream),
	byCode("model_decommissioned", final, upstream.ScopeUpstream), // Groq sends it as 400

	byCode("engine_overloaded*", passing, upstream.ScopeUpstream),
	byCode("internal_server_error", passing, upstream.ScopeUpstream),
	byCode("overloaded_error", passing, upstream.ScopeUpstream),
	byCode("server_error", passing, upstream.ScopeUpstream),
	byCode("service_unavailable", passing, upstream.ScopeUpstream),
	byCode("system_*_overloaded", passing, upstream.ScopeUpstream), // cpu, memory, disk

	byCode("context_length_exceeded", final, upstream.ScopeRequest),
	byCode("invalid_prompt", final, upstream.ScopeRequest),
	byCode("invalid_type", final, upstream.ScopeRequest),
	byCode("invalid_value", final, upstream.ScopeRequest),
	byCode("missing_required_parameter", final, upstream.ScopeRequest),
	byCode("string_above_max_length", final, upstream.ScopeRequest),
	byCode("unsupported_parameter", final, upstream.ScopeRequest),
	byCode("unsupported_value", final, upstream.ScopeRequest),

	upstream.ByStatus(300, 399, final, upstream.ScopeUpstream), // redirects are never followed
	upstream.ByStatus(402, 402, final, upstream.ScopeKey).Denying(upstream.QuotaDenied),
	upstream.ByStatus(401, 403, final, upstream.ScopeKey),      // key, permission
	upstream.ByStatus(404, 405, final, upstream.ScopeUpstream), // unknown model, path or method
	upstream.ByStatus(408, 408, passing, upstream.ScopeUpstream),
	// The upstream is already working on the job, so no other upstream key may repeat it.
	upstream.ByStatus(409, 409, passing, upstream.ScopeRequest),
	upstream.ByStatus(410, 410, final, upstream.ScopeUpstream), // the model was removed
	upstream.ByStatus(425, 425, passing, upstream.ScopeUpstream),
	upstream.ByStatus(429, 429, passing, upstream.ScopeKey),
	upstream.ByStatus(400, 499, final, upstream.ScopeRequest),

	byCode("BadRequestError", final, upstream.ScopeRequest),
	byCode("invalid_request*", final, upstream.ScopeRequest),
	byCode("invalid_argument", final, upstream.ScopeRequest),

	// No answer, a truncated answer, an error inside a success answer, or 5xx.
	upstream.ByStatus(0, maxStatus, passing, upstream.ScopeUpstream),
})

// Verdicts of outcomes.
const (
	final   = upstream.RefusedForGood
	passing = upstream.RefusedForNow
)

const maxStatus = 999

func byCode(pattern string, v upstream.Verdict, s upstream.Scope) upstream.OutcomeRow {
	return upstream.ByCode(pattern, v, s).Within(0, maxStatus)
}

func judge(e *upstream.Error) *upstream.Error {
	outcomes[outcomes.Find(e)].Apply(e) // the last row matches everything
	return e
}
