// Code generated from internal/errcode/code.go by go test ./internal/errcode -update. DO NOT EDIT.

package client

// Errors of requests.
const (
	// ErrInvalidRequest means that a request field is missing or invalid, or the body is too deeply
	// nested or has too many values.
	ErrInvalidRequest Code = "invalid_request"
	// ErrInvalidJSON means that the body is not a single JSON object.
	ErrInvalidJSON Code = "invalid_json"
	// ErrBodyTooLarge means that the body exceeds the size limit.
	ErrBodyTooLarge Code = "body_too_large"
	// ErrUnsupportedMedia means that the path does not accept this content type or content encoding.
	ErrUnsupportedMedia Code = "unsupported_media_type"
	// ErrInvalidAPIKey means that the API key is missing, unknown or expired, or an operator key was sent
	// to a tenant method.
	ErrInvalidAPIKey Code = "invalid_api_key"
	// ErrOriginNotAllowed means that a web page whose origin is not in `http.cors.origins` sent a
	// preflight, or, without `api_keys`, a request that may change something.
	ErrOriginNotAllowed Code = "origin_not_allowed"
	// ErrModelNotFound means that no route serves the model, or its route is draining.
	ErrModelNotFound Code = "model_not_found"
	// ErrWrongProtocol means that the model's route uses a different protocol from the path.
	ErrWrongProtocol Code = "wrong_protocol"
	// ErrTaskNotFound means that the tenant has no video task with this ID.
	ErrTaskNotFound Code = "task_not_found"
	// ErrChatNotFound means that the tenant has no chat with this ID.
	ErrChatNotFound Code = "chat_not_found"
	// ErrNotFound means that the path does not exist or, in operator calls, no job has the ID.
	ErrNotFound Code = "not_found"
	// ErrMethodNotAllowed means that the path does not support this method.
	ErrMethodNotAllowed Code = "method_not_allowed"
	// ErrIdempotencyKeyReused means that the request_id was already used with a different body.
	ErrIdempotencyKeyReused Code = "idempotency_key_reused"
	// ErrInvalidPageToken means that the page token does not belong to this list.
	ErrInvalidPageToken Code = "invalid_page_token"
	// ErrResumeExpired means that the position to resume from is no longer stored.
	ErrResumeExpired Code = "resume_expired"
	// ErrSlowReader means that the reader fell more than 1 MiB behind and was disconnected.
	ErrSlowReader Code = "slow_reader"
	// ErrStillHeld means that a replica still holds the cancelled job or still serves the route, so
	// nothing was erased, resubmitted or ended.
	ErrStillHeld Code = "still_held"
	// ErrCallerGone means that the caller disconnected before the reply was complete.
	ErrCallerGone Code = "caller_gone"
	// ErrCallerDeadline means that the caller's own deadline passed before the answer; an accepted job
	// continues.
	ErrCallerDeadline Code = "caller_deadline"
	// ErrNotTerminal means that the job has not ended, so it was not erased or resubmitted.
	ErrNotTerminal Code = "not_terminal"
)

// Errors of the operator's methods.
const (
	// ErrOperatorRequired means that the method needs an operator key that may act, but the key belongs
	// to a tenant or is read-only, or no operator key is configured.
	ErrOperatorRequired Code = "operator_required"
	// ErrRouteNotFound means that no route of this kind has this name.
	ErrRouteNotFound Code = "route_not_found"
	// ErrDeadLetterNotFound means that the dead letter does not exist or was already removed.
	ErrDeadLetterNotFound Code = "letter_not_found"
	// ErrDeadLetterUnusable means that the dead letter lacks the data that the action needs, or does
	// not support it.
	ErrDeadLetterUnusable Code = "letter_unusable"
	// ErrDeadLetterResolved means that another job was already made from this dead letter or another
	// one of its job, or the job has completed after all.
	ErrDeadLetterResolved Code = "letter_resolved"
	// ErrDeadLetterUnresolved means that the job has a dead letter, so its upstream has or may have
	// its task, and a retry could be charged twice.
	ErrDeadLetterUnresolved Code = "letter_unresolved"
	// ErrRequestNotKept means that the job's request is no longer stored.
	ErrRequestNotKept Code = "request_not_kept"
	// ErrBodiesPrivate means that operators may not read request and reply bodies.
	ErrBodiesPrivate Code = "bodies_private"
)

// Errors of genbus and its broker.
const (
	// ErrQueueFull means that the route's queue or the whole queue is full.
	ErrQueueFull Code = "queue_full"
	// ErrRateLimited means that the tenant exceeded its request rate.
	ErrRateLimited Code = "rate_limited"
	// ErrTenantFull means that the tenant has reached its limit of unfinished jobs; nothing was accepted.
	ErrTenantFull Code = "tenant_full"
	// ErrStreamEnded means that the stream reached its maximum lifetime (`limits.stream_time`); the job
	// continues.
	ErrStreamEnded Code = "stream_ended"
	// ErrRoutePaused means that an operator paused the route, and this chat cannot wait for it on its
	// connection.
	ErrRoutePaused Code = "route_paused"
	// ErrStorageFull means that 80 % of the task log is used or reserved, the tenant's object store is
	// full, NATS has no storage left, or its account allows no more streams.
	ErrStorageFull Code = "storage_full"
	// ErrDeadLettersFull means that the tenant has reached its limit of dead letters, or their stream is
	// nearly full, so the video was not submitted.
	ErrDeadLettersFull Code = "dead_letters_full"
	// ErrBrokerUnavailable means that JetStream is unreachable and nothing was accepted; an accepted chat
	// with a request_id continues.
	ErrBrokerUnavailable Code = "broker_unavailable"
	// ErrClockWrong means that the replica's clock is wrong or not yet compared with the broker's;
	// nothing was accepted.
	ErrClockWrong Code = "clock_wrong"
	// ErrIndexCatchingUp means that no replica has the job index ready, which lists need; jobs keep
	// running.
	ErrIndexCatchingUp Code = "index_catching_up"
	// ErrAcceptanceUnknown means that JetStream did not confirm the request, which may have been
	// accepted.
	ErrAcceptanceUnknown Code = "acceptance_unknown"
	// ErrShuttingDown means that the replica is shutting down and accepted nothing; an accepted chat with
	// a request_id continues, and an interrupted chat without one may be charged.
	ErrShuttingDown Code = "shutting_down"
	// ErrInternal means that genbus has a bug.
	ErrInternal Code = "internal"
)

// Errors of jobs and their upstreams.
const (
	// ErrSubmissionUnknown means that the upstream may have accepted the submission, so genbus did not
	// repeat it.
	ErrSubmissionUnknown Code = "submission_outcome_unknown"
	// ErrOrphanedSubmission means that the upstream has a task that its job could no longer record; only
	// dead letters have this code.
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
	// ErrLogLost means that the work item outlived the job's log, so the job's past is unknown and it was
	// not submitted.
	ErrLogLost Code = "log_lost"
	// ErrNotEnqueued means that the job lost its work item while it was accepted, because it was erased
	// or the queue was lost, and does not run.
	ErrNotEnqueued Code = "not_enqueued"
	// ErrInputLost means that the stored request body is missing or damaged.
	ErrInputLost Code = "input_lost"
	// ErrContentNotReady means that the video has not completed, so it has no content.
	ErrContentNotReady Code = "content_not_ready"
	// ErrContentExpired means that the upstream no longer has the content, or its URL expired.
	ErrContentExpired Code = "content_expired"
	// ErrContentBlocked means that genbus does not fetch content from this address, which is private or
	// neither http nor https.
	ErrContentBlocked Code = "content_blocked"
	// ErrContentUnavailable means that the content could not be read from the upstream.
	ErrContentUnavailable Code = "content_unavailable"
	// ErrArchiveFailed means that the result could not be copied, although the task completed; only a
	// task's archive field has this code.
	ErrArchiveFailed Code = "archive_failed"
	// ErrUpstreamFailed means that the upstream reported that the job failed.
	ErrUpstreamFailed Code = "upstream_failed"
	// ErrUpstreamRefused means that the upstream rejected the request permanently, or its reply exceeds
	// the size limit.
	ErrUpstreamRefused Code = "upstream_refused"
	// ErrUpstreamKeyRefused means that the upstream refused genbus's key or its permissions, such as with
	// 401 or 403.
	ErrUpstreamKeyRefused Code = "upstream_key_refused"
	// ErrUpstreamQuota means that genbus's quota or balance at the upstream is used up, such as after 402.
	ErrUpstreamQuota Code = "upstream_quota"
	// ErrUpstreamRemoved means that the job's route or upstream is no longer configured.
	ErrUpstreamRemoved Code = "upstream_removed"
	// ErrUpstreamUnavailable means that the upstream could not be reached or returned an error.
	ErrUpstreamUnavailable Code = "upstream_unavailable"
	// ErrUpstreamRateLimited means that the upstream asked genbus to slow down.
	ErrUpstreamRateLimited Code = "upstream_rate_limited"
	// ErrUpstreamTimeout means that the upstream did not answer, or stopped sending, within the timeout
	// of the route or of a gateway.
	ErrUpstreamTimeout Code = "upstream_timeout"
	// ErrStreamTruncated means that the upstream ended the stream early.
	ErrStreamTruncated Code = "stream_truncated"
	// ErrChatAttemptsExhausted means that every attempt at the chat was interrupted.
	ErrChatAttemptsExhausted Code = "chat_attempts_exhausted"
	// ErrReplyNotStored means that the upstream replied to the chat, but a NATS server or account limit
	// is too small to store the reply.
	ErrReplyNotStored Code = "reply_not_stored"
)
