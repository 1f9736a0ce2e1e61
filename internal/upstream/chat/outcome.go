package chat

import (
	"net/http"
	"strconv"
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

// finalCode says for the code words (and, where there is no such word, the
// error types) in use whether the same request would fail again. They are asked
// before the status, because real servers answer a wrong model with 503, an
// empty list of messages with 500 and a used-up quota with 429.
var finalCode = map[string]bool{
	"account_deactivated":            true,
	"authentication_error":           true,
	"BadRequestError":                true,
	"billing_hard_limit_reached":     true,
	"billing_not_active":             true,
	"content_filter":                 true,
	"content_policy_violation":       true,
	"context_length_exceeded":        true,
	"insufficient_quota":             true,
	"insufficient_user_quota":        true,
	"invalid_api_key":                true,
	"invalid_prompt":                 true,
	"invalid_request":                true,
	"invalid_request_error":          true,
	"invalid_type":                   true,
	"invalid_value":                  true,
	"missing_required_parameter":     true,
	"model_not_found":                true,
	"model_not_supported":            true,
	"NotFoundError":                  true,
	"not_found_error":                true,
	"permission_denied":              true,
	"permission_error":               true,
	"pre_consume_token_quota_failed": true,
	"string_above_max_length":        true,
	"unsupported_parameter":          true,
	"unsupported_value":              true,

	"engine_overloaded":        false,
	"internal_server_error":    false,
	"overloaded_error":         false,
	"rate_limit_error":         false,
	"rate_limit_exceeded":      false,
	"server_error":             false,
	"service_unavailable":      false,
	"system_cpu_overloaded":    false,
	"system_disk_overloaded":   false,
	"system_memory_overloaded": false,
}

// isFinal decides whether the same request would fail again. A whole number as
// code is an HTTP status of a server further up; it counts where ours says
// nothing, which is an error within a stream that began with 200.
func isFinal(status int, code, errorType string) bool {
	if final, known := finalCode[code]; known {
		return final
	}
	if n, err := strconv.Atoi(code); err == nil && n >= 400 && n <= 599 && status < 300 {
		status = n
	}
	switch {
	case isRetryable4xx(status):
		return false
	case status >= 300 && status < 500:
		return true
	}
	return finalCode[errorType]
}

func isRetryable4xx(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return false
}
