package chat

import (
	"path"
	"slices"
	"strconv"

	"github.com/genbus/genbus/internal/upstream"
)

// The codes that this package gives to what it found out itself (Said is
// false). They are part of genbus's error contract.
const (
	// CodeFirstByteTimeout: nothing arrived within Options.FirstByte or Answer.
	CodeFirstByteTimeout = "first_byte_timeout"
	// CodeIdleTimeout: the answer began, then nothing arrived for Options.Idle.
	CodeIdleTimeout = "idle_timeout"
	// CodeTotalTimeout: the answer was not over within Options.Total.
	CodeTotalTimeout = "total_timeout"
	// CodeStreamTruncated: the stream ended without [DONE] and before every
	// choice had a finish_reason.
	CodeStreamTruncated = "stream_truncated"
	// CodeUnreadable: a success status with something that is no chat completion.
	CodeUnreadable = "unreadable_answer"
	// CodeTooLarge: the answer is beyond MaxReply, or one event beyond MaxEvent.
	CodeTooLarge = "reply_too_large"
	// CodeCancelled: the caller's context ended; Error.Err is its cause.
	CodeCancelled = "cancelled"
)

// outcome is one row of the table below: what one kind of failure means.
type outcome struct {
	// code and kind are patterns, as of path.Match, for the code word and for the
	// error type; "" matches all.
	code, kind string
	from, to   int // HTTP status, both inclusive
	final      bool
	scope      upstream.Scope
}

// The two answers to "would the same request fail again?".
const (
	final   = true
	passing = false
)

// outcomes says for every failure of a call whether the same request would fail
// again, and whom it is about; the first row that matches decides. Code words
// come first, because real servers answer a wrong model with 503, an empty list
// of messages with 500 and a used-up quota with 429. Error types come behind the
// refusals, because servers call almost everything an invalid_request_error.
var outcomes = []outcome{
	// What this package found out itself.
	byCode(CodeTooLarge, final, upstream.ScopeRequest),
	byCode(CodeTotalTimeout, passing, upstream.ScopeRequest), // the whole call had its time
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

	// Servers that leave the code empty say these as the type; 429 alone would
	// read as "slow down".
	byType("billing_*", final, upstream.ScopeKey),
	byType("insufficient_quota", final, upstream.ScopeKey),
	byType("insufficient_user_quota", final, upstream.ScopeKey),

	byStatus(300, 399, final, upstream.ScopeUpstream), // redirects are never followed
	byStatus(401, 403, final, upstream.ScopeKey),      // key, payment, permission
	byStatus(404, 405, final, upstream.ScopeUpstream), // no such model, path or method there
	byStatus(408, 408, passing, upstream.ScopeUpstream),
	// The job is in work there already: no other upstream key should do it a second time.
	byStatus(409, 409, passing, upstream.ScopeRequest),
	byStatus(410, 410, final, upstream.ScopeUpstream), // the model is no more
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

	// No answer, an answer that broke off, an error within a good answer, 5xx.
	byStatus(0, maxStatus, passing, upstream.ScopeUpstream),
}

// maxStatus is the highest HTTP status there is.
const maxStatus = 999

func byCode(pattern string, isFinal bool, s upstream.Scope) outcome {
	return outcome{code: pattern, to: maxStatus, final: isFinal, scope: s}
}

func byType(pattern string, isFinal bool, s upstream.Scope) outcome {
	return outcome{kind: pattern, to: maxStatus, final: isFinal, scope: s}
}

func byStatus(from, to int, isFinal bool, s upstream.Scope) outcome {
	return outcome{from: from, to: to, final: isFinal, scope: s}
}

// judge sets e's Final and Scope, and returns it.
func judge(e *upstream.Error) *upstream.Error {
	o := outcomes[find(e)]
	e.Final, e.Scope = o.final, o.scope
	return e
}

// find gives the index of the row that decides; the last one matches all.
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
	// A bad pattern would be a bad row, which the tests notice.
	ok, _ := path.Match(pattern, word)
	return ok
}

// statusOf gives the status to judge by. A whole number as code is the HTTP
// status of a server further up; it counts where ours says nothing, which is an
// error within a stream that began with 200.
func statusOf(e *upstream.Error) int {
	if n, err := strconv.Atoi(e.Code); err == nil && n >= 400 && n <= 599 && e.HTTPStatus < 300 {
		return n
	}
	return e.HTTPStatus
}
