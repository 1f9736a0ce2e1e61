package client

// The codes are explained in docs/errors.md; a test compares them with its table.

// Errors of requests.
const (
	ErrInvalidRequest       Code = "invalid_request"
	ErrInvalidJSON          Code = "invalid_json"
	ErrBodyTooLarge         Code = "body_too_large"
	ErrUnsupportedMedia     Code = "unsupported_media_type"
	ErrInvalidAPIKey        Code = "invalid_api_key"
	ErrModelNotFound        Code = "model_not_found"
	ErrWrongProtocol        Code = "wrong_protocol"
	ErrTaskNotFound         Code = "task_not_found"
	ErrChatNotFound         Code = "chat_not_found"
	ErrNotFound             Code = "not_found"
	ErrMethodNotAllowed     Code = "method_not_allowed"
	ErrIdempotencyKeyReused Code = "idempotency_key_reused"
	ErrInvalidPageToken     Code = "invalid_page_token"
	ErrResumeExpired        Code = "resume_expired"
	ErrSlowReader           Code = "slow_reader"
	ErrStillHeld            Code = "still_held"
	ErrCallerGone           Code = "caller_gone"
	ErrCallerDeadline       Code = "caller_deadline"
	ErrNotTerminal          Code = "not_terminal"
)

// Errors of the operator's methods.
const (
	ErrOperatorRequired Code = "operator_required"
	ErrRouteNotFound    Code = "route_not_found"
	ErrLetterNotFound   Code = "letter_not_found"
	ErrLetterUnusable   Code = "letter_unusable"
	ErrLetterResolved   Code = "letter_resolved"
	ErrLetterUnresolved Code = "letter_unresolved"
	ErrRequestNotKept   Code = "request_not_kept"
	ErrBodiesPrivate    Code = "bodies_private"
)

// Errors of genbus and its broker.
const (
	ErrQueueFull         Code = "queue_full"
	ErrRateLimited       Code = "rate_limited"
	ErrTenantFull        Code = "tenant_full"
	ErrDeadLettersFull   Code = "dead_letters_full"
	ErrStreamEnded       Code = "stream_ended"
	ErrRoutePaused       Code = "route_paused"
	ErrStorageFull       Code = "storage_full"
	ErrBrokerUnavailable Code = "broker_unavailable"
	ErrAcceptanceUnknown Code = "acceptance_unknown"
	ErrClockWrong        Code = "clock_wrong"
	ErrIndexCatchingUp   Code = "index_catching_up"
	ErrShuttingDown      Code = "shutting_down"
	ErrInternal          Code = "internal"
)

// Errors of jobs and their upstreams.
const (
	ErrSubmissionUnknown     Code = "submission_outcome_unknown"
	ErrOrphanedSubmission    Code = "orphaned_submission"
	ErrQueueTimeout          Code = "queue_timeout"
	ErrDeadlineExceeded      Code = "deadline_exceeded"
	ErrExpired               Code = "expired"
	ErrCancelled             Code = "cancelled"
	ErrPoisoned              Code = "poisoned"
	ErrLogLost               Code = "log_lost"
	ErrNotEnqueued           Code = "not_enqueued"
	ErrInputLost             Code = "input_lost"
	ErrContentNotReady       Code = "content_not_ready"
	ErrContentExpired        Code = "content_expired"
	ErrContentBlocked        Code = "content_blocked"
	ErrContentUnavailable    Code = "content_unavailable"
	ErrArchiveFailed         Code = "archive_failed"
	ErrUpstreamFailed        Code = "upstream_failed"
	ErrUpstreamRefused       Code = "upstream_refused"
	ErrUpstreamRemoved       Code = "upstream_removed"
	ErrUpstreamUnavailable   Code = "upstream_unavailable"
	ErrUpstreamRateLimited   Code = "upstream_rate_limited"
	ErrUpstreamTimeout       Code = "upstream_timeout"
	ErrStreamTruncated       Code = "stream_truncated"
	ErrChatAttemptsExhausted Code = "chat_attempts_exhausted"
	ErrReplyNotStored        Code = "reply_not_stored"
)
