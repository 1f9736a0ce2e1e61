package client

// docs/errors.md lists what to do about each code.

// Codes of refused requests.
const (
	// ErrInvalidRequest means that a field is missing or invalid.
	ErrInvalidRequest Code = "invalid_request"
	// ErrInvalidJSON means that the body is not a single JSON object.
	ErrInvalidJSON Code = "invalid_json"
	// ErrBodyTooLarge means that the body exceeds a limit.
	ErrBodyTooLarge Code = "body_too_large"
	// ErrUnsupportedMedia means that the content type is not supported.
	ErrUnsupportedMedia Code = "unsupported_media_type"
	// ErrInvalidAPIKey means that the API key is missing, unknown or expired.
	ErrInvalidAPIKey Code = "invalid_api_key"
	// ErrModelNotFound means that no route serves the model, or the route is draining.
	ErrModelNotFound Code = "model_not_found"
	// ErrWrongProtocol means that the model's route does not speak this protocol.
	ErrWrongProtocol Code = "wrong_protocol"
	// ErrTaskNotFound means that the tenant has no video task with this ID.
	ErrTaskNotFound Code = "task_not_found"
	// ErrChatNotFound means that the tenant has no chat with this ID.
	ErrChatNotFound Code = "chat_not_found"
	// ErrNotFound means that the path, or the job that an operator looked up, does not exist.
	ErrNotFound Code = "not_found"
	// ErrMethodNotAllowed means that the path does not support this HTTP method.
	ErrMethodNotAllowed Code = "method_not_allowed"
	// ErrIdempotencyKeyReused means that the RequestId was used before with another body.
	ErrIdempotencyKeyReused Code = "idempotency_key_reused"
	// ErrInvalidPageToken means that the page token belongs to another list.
	ErrInvalidPageToken Code = "invalid_page_token"
	// ErrResumeExpired means that the position to resume from is no longer kept.
	ErrResumeExpired Code = "resume_expired"
	// ErrSlowReader means that the reader fell more than 1 MiB behind and was disconnected.
	ErrSlowReader Code = "slow_reader"
	// ErrStillHeld means that a replica still holds the job, or jobs of the route.
	ErrStillHeld Code = "still_held"
	// ErrCallerGone means that the caller disconnected before the reply was complete.
	ErrCallerGone Code = "caller_gone"
	// ErrCallerDeadline means that the caller's deadline passed before the answer. An accepted job
	// continues.
	ErrCallerDeadline Code = "caller_deadline"
	// ErrNotTerminal means that the job has not ended.
	ErrNotTerminal Code = "not_terminal"
)

// Codes of operator methods.
const (
	// ErrOperatorRequired means that the method needs an operator key that is not read-only.
	ErrOperatorRequired Code = "operator_required"
	// ErrRouteNotFound means that no route of this kind has this name.
	ErrRouteNotFound Code = "route_not_found"
	// ErrLetterNotFound means that the dead letter was not found, or was already removed.
	ErrLetterNotFound Code = "letter_not_found"
	// ErrLetterUnusable means that the dead letter lacks the data this action needs, or does not
	// support it.
	ErrLetterUnusable Code = "letter_unusable"
	// ErrLetterResolved means that another job already replaces the dead letter's job, or the job
	// has completed.
	ErrLetterResolved Code = "letter_resolved"
	// ErrLetterUnresolved means that the job has a dead letter, so retrying it might be charged
	// twice.
	ErrLetterUnresolved Code = "letter_unresolved"
	// ErrRequestNotKept means that the job's request is no longer stored.
	ErrRequestNotKept Code = "request_not_kept"
	// ErrBodiesPrivate means that operators may not read requests and replies on this genbus.
	ErrBodiesPrivate Code = "bodies_private"
)

// Codes of genbus and its broker.
const (
	// ErrQueueFull means that the route's queue, or the whole queue, is full.
	ErrQueueFull Code = "queue_full"
	// ErrRateLimited means that the tenant exceeds its requests per second.
	ErrRateLimited Code = "rate_limited"
	// ErrTenantFull means that the tenant has reached its limit of unfinished jobs.
	ErrTenantFull Code = "tenant_full"
	// ErrDeadLettersFull means that the tenant has reached its limit of dead letters, or their
	// stream is nearly full.
	ErrDeadLettersFull Code = "dead_letters_full"
	// ErrStreamEnded means that the stream has reached its maximum lifetime. The job continues.
	ErrStreamEnded Code = "stream_ended"
	// ErrRoutePaused means that an operator has paused the route, and the chat cannot wait on its
	// connection.
	ErrRoutePaused Code = "route_paused"
	// ErrStorageFull means that genbus or NATS has no storage left.
	ErrStorageFull Code = "storage_full"
	// ErrBrokerUnavailable means that JetStream or genbus could not be reached.
	ErrBrokerUnavailable Code = "broker_unavailable"
	// ErrAcceptanceUnknown means that the request may have been accepted. Retry it with the same
	// RequestId.
	ErrAcceptanceUnknown Code = "acceptance_unknown"
	// ErrClockWrong means that the replica's clock is wrong or was not compared with the broker's
	// yet.
	ErrClockWrong Code = "clock_wrong"
	// ErrIndexCatchingUp means that no replica has the index of jobs ready.
	ErrIndexCatchingUp Code = "index_catching_up"
	// ErrShuttingDown means that the replica is shutting down.
	ErrShuttingDown Code = "shutting_down"
	// ErrInternal means that genbus has a bug.
	ErrInternal Code = "internal"
)

// Codes of jobs and their upstreams.
const (
	// ErrSubmissionUnknown means that the upstream may have accepted the submission, so it was not
	// repeated.
	ErrSubmissionUnknown Code = "submission_outcome_unknown"
	// ErrOrphanedSubmission means that the upstream has a task that its job could not record. Only
	// in dead letters.
	ErrOrphanedSubmission Code = "orphaned_submission"
	// ErrQueueTimeout means that the job was not submitted within the route's queue timeout.
	ErrQueueTimeout Code = "queue_timeout"
	// ErrDeadlineExceeded means that the upstream did not finish within the route's deadline.
	ErrDeadlineExceeded Code = "deadline_exceeded"
	// ErrExpired means that the job's expires_at passed before it was submitted.
	ErrExpired Code = "expired"
	// ErrCancelled means that the job was cancelled.
	ErrCancelled Code = "cancelled"
	// ErrPoisoned means that the job was delivered more than 10 times without progress.
	ErrPoisoned Code = "poisoned"
	// ErrLogLost means that the job's log is lost, so the job was not submitted.
	ErrLogLost Code = "log_lost"
	// ErrNotEnqueued means that the job's work item was lost during acceptance, so the job does not
	// run.
	ErrNotEnqueued Code = "not_enqueued"
	// ErrInputLost means that the request's stored body is missing or damaged.
	ErrInputLost Code = "input_lost"
	// ErrContentNotReady means that the video has not completed.
	ErrContentNotReady Code = "content_not_ready"
	// ErrContentExpired means that the upstream no longer has the content, or its URL has expired.
	ErrContentExpired Code = "content_expired"
	// ErrContentBlocked means that genbus does not read from the content's address.
	ErrContentBlocked Code = "content_blocked"
	// ErrContentUnavailable means that the content could not be read from the upstream.
	ErrContentUnavailable Code = "content_unavailable"
	// ErrArchiveFailed means that the result could not be archived. The task has completed.
	ErrArchiveFailed Code = "archive_failed"
	// ErrUpstreamFailed means that the upstream reports that the job failed.
	ErrUpstreamFailed Code = "upstream_failed"
	// ErrUpstreamRefused means that the upstream refused the request for good, or its reply is too
	// long.
	ErrUpstreamRefused Code = "upstream_refused"
	// ErrUpstreamRemoved means that the job's route or upstream is no longer configured.
	ErrUpstreamRemoved Code = "upstream_removed"
	// ErrUpstreamUnavailable means that the upstream could not be reached, or failed.
	ErrUpstreamUnavailable Code = "upstream_unavailable"
	// ErrUpstreamRateLimited means that the upstream asks to slow down.
	ErrUpstreamRateLimited Code = "upstream_rate_limited"
	// ErrUpstreamTimeout means that the upstream did not answer within the route's timeout.
	ErrUpstreamTimeout Code = "upstream_timeout"
	// ErrStreamTruncated means that the upstream ended the stream early.
	ErrStreamTruncated Code = "stream_truncated"
	// ErrChatAttemptsExhausted means that every attempt at the chat was cut off.
	ErrChatAttemptsExhausted Code = "chat_attempts_exhausted"
	// ErrReplyNotStored means that a NATS limit is too small to store the chat's reply.
	ErrReplyNotStored Code = "reply_not_stored"
)
