package chat

import (
	"path"
	"slices"
	"strconv"

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

// outcome is a row of the table below. It judges one kind of failure.
type outcome struct {
	// code and kind are path.Match patterns for the error's code and type. "" matches anything.
	code, kind string
	from, to   int // HTTP status, both inclusive
	final      bool
	scope      upstream.Scope
}

// Values of outcome.final.
const (
	final   = true
	passing = false
)

// outcomes decides for every failed call whether the same request would fail again, and what the
// failure applies to. The first matching row wins. Codes come first, because real servers answer
// 503 for an unknown model, 500 for an empty list of messages and 429 for an exhausted quota. Most
// error types come after the statuses of refusals, because servers call almost everything an
// invalid_request_error.
var outcomes = []outcome{
	// Detected by this package.
	byCode(CodeTooLarge, final, upstream.ScopeRequest),
	byCode(CodeTotalTimeout, passing, upstream.ScopeRequest), // the call used all its time
	byCode(CodeCancelled, passing, upstream.ScopeRequest),
	byCode(CodeFirstByteTimeout, passing, upstream.ScopeUpstream),
	byCode(CodeIdleTimeout, passing, upstream.ScopeUpstream),
	byCode(CodeStreamTruncated, passing, upstream.ScopeUpstream),
	byCode(CodeUnreadable, passing, upstream.ScopeUpstream),

	byCode("account_deactivated", final, upstream.ScopeKey),
	byCode("authentication_error", final, upstream.ScopeKey),
	byCode("billing_*", final, upstream.ScopeKey),
	byCode("insufficient_quota", final, upstream.ScopeKey),
	byCode("insufficient_user_quota", final, upstream.ScopeKey),
	byCode("invalid_api_key", final, upstream.ScopeKey),
	byCode("permission_*", final, upstream.ScopeKey),
	byCode("pre_consume_token_quota_failed", final, upstream.ScopeKey),
	byCode("rate_limit_error", passing, upstream.ScopeKey),
	byCode("rate_limit_exceeded", passing, upstream.ScopeKey),

	byCode("model_not_found", final, upstream.ScopeUpstream),
	byCode("model_not_supported", final, upstream.ScopeUpstream),
	byCode("NotFoundError", final, upstream.ScopeUpstream),
	byCode("not_found_error", final, upstream.ScopeUpstream),
	byCode("engine_overloaded", passing, upstream.ScopeUpstream),
	byCode("internal_server_error", passing, upstream.ScopeUpstream),
	byCode("overloaded_error", passing, upstream.ScopeUpstream),
	byCode("server_error", passing, upstream.ScopeUpstream),
	byCode("service_unavailable", passing, upstream.ScopeUpstream),
	byCode("system_*_overloaded", passing, upstream.ScopeUpstream), // cpu, memory, disk

	byCode("BadRequestError", final, upstream.ScopeRequest),
	byCode("content_filter", final, upstream.ScopeRequest),
	byCode("content_policy_violation", final, upstream.ScopeRequest),
	byCode("context_length_exceeded", final, upstream.ScopeRequest),
	byCode("invalid_prompt", final, upstream.ScopeRequest),
	byCode("invalid_request*", final, upstream.ScopeRequest),
	byCode("invalid_type", final, upstream.ScopeRequest),
	byCode("invalid_value", final, upstream.ScopeRequest),
	byCode("missing_required_parameter", final, upstream.ScopeRequest),
	byCode("string_above_max_length", final, upstream.ScopeRequest),
	byCode("unsupported_parameter", final, upstream.ScopeRequest),
	byCode("unsupported_value", final, upstream.ScopeRequest),

	// Some servers leave the code empty and put these words into the type. Status 429 alone would
	// mean a rate limit.
	byType("billing_*", final, upstream.ScopeKey),
	byType("insufficient_quota", final, upstream.ScopeKey),
	byType("insufficient_user_quota", final, upstream.ScopeKey),

	// MiniMax, platform.minimax.io/docs/api-reference/errorcode.md. Its codes come with status 200,
	// and mean something else at other vendors.
	byBaseResp("1002", passing, upstream.ScopeKey),   // rate limit
	byBaseResp("1004", final, upstream.ScopeKey),     // not authorized
	byBaseResp("1008", final, upstream.ScopeKey),     // insufficient balance
	byBaseResp("1039", passing, upstream.ScopeKey),   // token limit
	byBaseResp("1041", passing, upstream.ScopeKey),   // connection limit
	byBaseResp("2045", passing, upstream.ScopeKey),   // rate growth limit
	byBaseResp("2049", final, upstream.ScopeKey),     // invalid API key
	byBaseResp("2056", final, upstream.ScopeKey),     // usage limit of a 5-hour window
	byBaseResp("1026", final, upstream.ScopeRequest), // sensitive input
	byBaseResp("1027", final, upstream.ScopeRequest), // sensitive output
	byBaseResp("1042", final, upstream.ScopeRequest), // invisible characters
	byBaseResp("2013", final, upstream.ScopeRequest), // invalid parameters

	byStatus(300, 399, final, upstream.ScopeUpstream), // redirects are never followed
	byStatus(401, 403, final, upstream.ScopeKey),      // key, payment, permission
	byStatus(404, 405, final, upstream.ScopeUpstream), // unknown model, path or method
	byStatus(408, 408, passing, upstream.ScopeUpstream),
	// The upstream is already working on the job, so no other upstream key may repeat it.
	byStatus(409, 409, passing, upstream.ScopeRequest),
	byStatus(410, 410, final, upstream.ScopeUpstream), // the model was removed
	byStatus(425, 425, passing, upstream.ScopeUpstream),
	byStatus(429, 429, passing, upstream.ScopeKey),
	byStatus(400, 499, final, upstream.ScopeRequest),

	byType("authentication_error", final, upstream.ScopeKey),
	byType("permission_*", final, upstream.ScopeKey),
	byType("rate_limit_*", passing, upstream.ScopeKey),
	byType("NotFoundError", final, upstream.ScopeUpstream),
	byType("not_found_error", final, upstream.ScopeUpstream),
	byType("BadRequestError", final, upstream.ScopeRequest),
	byType("invalid_request*", final, upstream.ScopeRequest),

	// No answer, a truncated answer, an error inside a success answer, or 5xx.
	byStatus(0, maxStatus, passing, upstream.ScopeUpstream),
}

const maxStatus = 999

func byCode(pattern string, isFinal bool, s upstream.Scope) outcome {
	return outcome{code: pattern, to: maxStatus, final: isFinal, scope: s}
}

func byType(pattern string, isFinal bool, s upstream.Scope) outcome {
	return outcome{kind: pattern, to: maxStatus, final: isFinal, scope: s}
}

func byBaseResp(code string, isFinal bool, s upstream.Scope) outcome {
	return outcome{code: code, kind: typeBaseResp, to: maxStatus, final: isFinal, scope: s}
}

func byStatus(from, to int, isFinal bool, s upstream.Scope) outcome {
	return outcome{from: from, to: to, final: isFinal, scope: s}
}

func judge(e *upstream.Error) *upstream.Error {
	o := outcomes[find(e)]
	e.Final, e.Scope = o.final, o.scope
	return e
}

// find returns the index of the first matching row. The last row matches everything.
func find(e *upstream.Error) int {
	status := statusOf(e)
	return slices.IndexFunc(outcomes, func(o outcome) bool {
		return o.from <= status && status <= o.to && matches(o.code, e.Code) && matches(o.kind, e.Type)
	})
}

func matches(pattern, word string) bool {
	if pattern == "" {
		return true
	}
	// The error can only be a bad pattern, which the tests would catch.
	ok, _ := path.Match(pattern, word)
	return ok
}

// statusOf returns the status to judge by. A numeric code is the HTTP status of a server further
// upstream. It counts only in an answer that started with a success status.
func statusOf(e *upstream.Error) int {
	if n, err := strconv.Atoi(e.Code); err == nil && n >= 400 && n <= 599 && e.HTTPStatus < 300 {
		return n
	}
	return e.HTTPStatus
}
