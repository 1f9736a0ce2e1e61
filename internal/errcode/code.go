// Package errcode defines the error codes of genbus and maps each, in one table, to its gRPC code,
// its HTTP status and whether to retry. To add context to an error, use fmt.Errorf with %w.
package errcode

import (
	"cmp"
	"net/http"
)

// Code identifies an error in answers, events, dead letters and NATS replies. Codes are never
// renamed.
type Code string

// Errors of requests.
const (
	// InvalidRequest means that a request field is missing or invalid, or the body is too deeply
	// nested or has too many values.
	InvalidRequest Code = "invalid_request"
	// InvalidJSON means that the body is not a single JSON object.
	InvalidJSON Code = "invalid_json"
	// BodyTooLarge means that the body exceeds the size limit.
	BodyTooLarge Code = "body_too_large"
	// UnsupportedMedia means that the path does not accept this content type or content encoding.
	UnsupportedMedia Code = "unsupported_media_type"
	// InvalidAPIKey means that the API key is missing, unknown or expired, or an operator key was sent
	// to a tenant method.
	InvalidAPIKey Code = "invalid_api_key"
	// OriginNotAllowed means that a web page whose origin is not in `http.cors.origins` sent a
	// preflight, or, without `api_keys`, a request that may change something.
	OriginNotAllowed Code = "origin_not_allowed"
	// ModelNotFound means that no route serves the model, or its route is draining.
	ModelNotFound Code = "model_not_found"
	// WrongProtocol means that the model's route uses a different protocol from the path.
	WrongProtocol Code = "wrong_protocol"
	// TaskNotFound means that the tenant has no video task with this ID.
	TaskNotFound Code = "task_not_found"
	// ChatNotFound means that the tenant has no chat with this ID.
	ChatNotFound Code = "chat_not_found"
	// NotFound means that the path does not exist or, in operator calls, no job has the ID.
	NotFound Code = "not_found"
	// MethodNotAllowed means that the path does not support this method.
	MethodNotAllowed Code = "method_not_allowed"
	// IdempotencyKeyReused means that the request_id was already used with a different body.
	IdempotencyKeyReused Code = "idempotency_key_reused"
	// InvalidPageToken means that the page token does not belong to this list.
	InvalidPageToken Code = "invalid_page_token"
	// ResumeExpired means that the position to resume from is no longer stored.
	ResumeExpired Code = "resume_expired"
	// SlowReader means that the reader fell more than 1 MiB behind and was disconnected.
	SlowReader Code = "slow_reader"
	// StillHeld means that a replica still holds the cancelled job or still serves the route, so
	// nothing was erased, resubmitted or ended.
	StillHeld Code = "still_held"
	// CallerGone means that the caller disconnected before the reply was complete.
	CallerGone Code = "caller_gone"
	// CallerDeadline means that the caller's own deadline passed before the answer; an accepted job
	// continues.
	CallerDeadline Code = "caller_deadline"
	// NotTerminal means that the job has not ended, so it was not erased or resubmitted.
	NotTerminal Code = "not_terminal"
)

// Errors of the operator's methods.
const (
	// OperatorRequired means that the method needs an operator key that may act, but the key belongs
	// to a tenant or is read-only, or no operator key is configured.
	OperatorRequired Code = "operator_required"
	// RouteNotFound means that no route of this kind has this name.
	RouteNotFound Code = "route_not_found"
	// DeadLetterNotFound means that the dead letter does not exist or was already removed.
	DeadLetterNotFound Code = "letter_not_found"
	// DeadLetterUnusable means that the dead letter lacks the data that the action needs, or does
	// not support it.
	DeadLetterUnusable Code = "letter_unusable"
	// DeadLetterResolved means that another job was already made from this dead letter or another
	// one of its job, or the job has completed after all.
	DeadLetterResolved Code = "letter_resolved"
	// DeadLetterUnresolved means that the job has a dead letter, so its upstream has or may have
	// its task, and a retry could be charged twice.
	DeadLetterUnresolved Code = "letter_unresolved"
	// RequestNotKept means that the job's request is no longer stored.
	RequestNotKept Code = "request_not_kept"
	// BodiesPrivate means that operators may not read request and reply bodies.
	BodiesPrivate Code = "bodies_private"
)

// Errors of genbus and its broker.
const (
	// QueueFull means that the route's queue or the whole queue is full.
	QueueFull Code = "queue_full"
	// RateLimited means that the tenant exceeded its request rate.
	RateLimited Code = "rate_limited"
	// TenantFull means that the tenant has reached its limit of unfinished jobs; nothing was accepted.
	TenantFull Code = "tenant_full"
	// StreamEnded means that the stream reached its maximum lifetime (`limits.stream_time`); the job
	// continues.
	StreamEnded Code = "stream_ended"
	// RoutePaused means that an operator paused the route, and this chat cannot wait for it on its
	// connection.
	RoutePaused Code = "route_paused"
	// StorageFull means that 80 % of the task log is used or reserved, the tenant's object store is
	// full, NATS has no storage left, or its account allows no more streams.
	StorageFull Code = "storage_full"
	// DeadLettersFull means that the tenant has reached its limit of dead letters, or their stream is
	// nearly full, so the video was not submitted.
	DeadLettersFull Code = "dead_letters_full"
	// BrokerUnavailable means that JetStream is unreachable and nothing was accepted; an accepted chat
	// with a request_id continues.
	BrokerUnavailable Code = "broker_unavailable"
	// ClockWrong means that the replica's clock is wrong or not yet compared with the broker's;
	// nothing was accepted.
	ClockWrong Code = "clock_wrong"
	// IndexCatchingUp means that no replica has the job index ready, which lists need; jobs keep
	// running.
	IndexCatchingUp Code = "index_catching_up"
	// AcceptanceUnknown means that JetStream did not confirm the request, which may have been
	// accepted.
	AcceptanceUnknown Code = "acceptance_unknown"
	// ShuttingDown means that the replica is shutting down and accepted nothing; an accepted chat with
	// a request_id continues, and an interrupted chat without one may be charged.
	ShuttingDown Code = "shutting_down"
	// Internal means that genbus has a bug.
	Internal Code = "internal"
)

// Errors of jobs and their upstreams.
const (
	// SubmissionUnknown means that the upstream may have accepted the submission, so genbus did not
	// repeat it.
	SubmissionUnknown Code = "submission_outcome_unknown"
	// OrphanedSubmission means that the upstream has a task that its job could no longer record; only
	// dead letters have this code.
	OrphanedSubmission Code = "orphaned_submission"
	// QueueTimeout means that the job was not submitted within the route's queue timeout.
	QueueTimeout Code = "queue_timeout"
	// DeadlineExceeded means that the upstream did not finish within the route's deadline.
	DeadlineExceeded Code = "deadline_exceeded"
	// Expired means that the job's expires_at passed before it was submitted.
	Expired Code = "expired"
	// Cancelled means that the job was cancelled.
	Cancelled Code = "cancelled"
	// Poisoned means that the job was delivered more than 10 times without progress.
	Poisoned Code = "poisoned"
	// LogLost means that the work item outlived the job's log, so the job's past is unknown and it was
	// not submitted.
	LogLost Code = "log_lost"
	// NotEnqueued means that the job lost its work item while it was accepted, because it was erased
	// or the queue was lost, and does not run.
	NotEnqueued Code = "not_enqueued"
	// InputLost means that the stored request body is missing or damaged.
	InputLost Code = "input_lost"
	// ContentNotReady means that the video has not completed, so it has no content.
	ContentNotReady Code = "content_not_ready"
	// ContentExpired means that the upstream no longer has the content, or its URL expired.
	ContentExpired Code = "content_expired"
	// ContentBlocked means that genbus does not fetch content from this address, which is private or
	// neither http nor https.
	ContentBlocked Code = "content_blocked"
	// ContentUnavailable means that the content could not be read from the upstream.
	ContentUnavailable Code = "content_unavailable"
	// ArchiveFailed means that the result could not be copied, although the task completed; only a
	// task's archive field has this code.
	ArchiveFailed Code = "archive_failed"
	// UpstreamFailed means that the upstream reported that the job failed.
	UpstreamFailed Code = "upstream_failed"
	// UpstreamRefused means that the upstream rejected the request permanently, or its reply exceeds
	// the size limit.
	UpstreamRefused Code = "upstream_refused"
	// UpstreamKeyRefused means that the upstream refused genbus's key or its permissions, such as with
	// 401 or 403.
	UpstreamKeyRefused Code = "upstream_key_refused"
	// UpstreamQuota means that genbus's quota or balance at the upstream is used up, such as after 402.
	UpstreamQuota Code = "upstream_quota"
	// UpstreamRemoved means that the job's route or upstream is no longer configured.
	UpstreamRemoved Code = "upstream_removed"
	// UpstreamUnavailable means that the upstream could not be reached or returned an error.
	UpstreamUnavailable Code = "upstream_unavailable"
	// UpstreamRateLimited means that the upstream asked genbus to slow down.
	UpstreamRateLimited Code = "upstream_rate_limited"
	// UpstreamTimeout means that the upstream did not answer, or stopped sending, within the timeout
	// of the route or of a gateway.
	UpstreamTimeout Code = "upstream_timeout"
	// StreamTruncated means that the upstream ended the stream early.
	StreamTruncated Code = "stream_truncated"
	// ChatAttemptsExhausted means that every attempt at the chat was interrupted.
	ChatAttemptsExhausted Code = "chat_attempts_exhausted"
	// ReplyNotStored means that the upstream replied to the chat, but a NATS server or account limit
	// is too small to store the reply.
	ReplyNotStored Code = "reply_not_stored"
)

// Meaning is a row of the table.
type Meaning struct {
	Code Code
	// GRPC is the gRPC status code.
	GRPC GRPCCode
	// HTTP is the HTTP status.
	HTTP int
	// Type is the "type" of the OpenAI error envelope.
	Type string
	// Retry is true if the same request may succeed later.
	Retry bool
	// Do says what the caller can do about it.
	Do string
	// Operate says what an operator can do about it; empty where Do holds for operators too.
	Operate string
}

// Means says what happened, in the sentence of the code's declaration.
func (m Meaning) Means() string { return means[m.Code] }

// ForOperators says what an operator can do about it.
func (m Meaning) ForOperators() string { return cmp.Or(m.Operate, m.Do) }

// GRPCCode is a status code of gRPC. The package codes is not used, so that package client does not
// link gRPC.
type GRPCCode uint32

// Status codes of gRPC.
const (
	grpcCanceled           GRPCCode = 1
	grpcUnknown            GRPCCode = 2
	grpcInvalidArgument    GRPCCode = 3
	grpcDeadlineExceeded   GRPCCode = 4
	grpcNotFound           GRPCCode = 5
	grpcPermissionDenied   GRPCCode = 7
	grpcResourceExhausted  GRPCCode = 8
	grpcFailedPrecondition GRPCCode = 9
	grpcAborted            GRPCCode = 10
	grpcOutOfRange         GRPCCode = 11
	grpcUnimplemented      GRPCCode = 12
	grpcInternal           GRPCCode = 13
	grpcUnavailable        GRPCCode = 14
	grpcDataLoss           GRPCCode = 15
	grpcUnauthenticated    GRPCCode = 16
)

const (
	typeRequest = "invalid_request_error"
	typeAuth    = "authentication_error"
	typeLimit   = "rate_limit_error"
	typeServer  = "server_error"
)

// table is in the order of docs/errors.md.
var table = []Meaning{
	{InvalidRequest, grpcInvalidArgument, http.StatusBadRequest, typeRequest, false, "Correct the field that the message names.", ""},
	{InvalidJSON, grpcInvalidArgument, http.StatusBadRequest, typeRequest, false, "Send one valid JSON object without duplicate names.", ""},
	{BodyTooLarge, grpcResourceExhausted, http.StatusRequestEntityTooLarge, typeRequest, false, "Send a URL instead of inline data.", "Raise the limit if the message names one."},
	{UnsupportedMedia, grpcInvalidArgument, http.StatusUnsupportedMediaType, typeRequest, false, "Send application/json, without a content encoding or with gzip.", ""},
	{InvalidAPIKey, grpcUnauthenticated, http.StatusUnauthorized, typeAuth, false, "Send `Authorization: Bearer <key>` with a tenant key, or with an operator key for operator methods.", "Check the key and its not_after in api_keys or operator_keys."},
	{OriginNotAllowed, grpcPermissionDenied, http.StatusForbidden, typeAuth, false, "Ask the operator to allow the page's origin.", "Add the origin to http.cors.origins."},
	{ModelNotFound, grpcNotFound, http.StatusNotFound, typeRequest, false, "Choose a model from GET /v1/models.", "Add a route for the model."},
	{WrongProtocol, grpcFailedPrecondition, http.StatusBadRequest, typeRequest, false, "Use the path that the message names.", ""},
	{TaskNotFound, grpcNotFound, http.StatusNotFound, typeRequest, false, "Check the ID and the key; genbus keeps tasks for nats.streams.tasks.max_age.", ""},
	{ChatNotFound, grpcNotFound, http.StatusNotFound, typeRequest, false, "Check the ID and the key; genbus keeps chats for nats.streams.tasks.max_age.", ""},
	{NotFound, grpcNotFound, http.StatusNotFound, typeRequest, false, "Look up the path in the OpenAPI document.", "List the jobs to find the ID."},
	{MethodNotAllowed, grpcUnimplemented, http.StatusMethodNotAllowed, typeRequest, false, "Use a method from the Allow header.", ""},
	{IdempotencyKeyReused, grpcInvalidArgument, http.StatusUnprocessableEntity, typeRequest, false, "Use a new request_id for a new body.", ""},
	{InvalidPageToken, grpcInvalidArgument, http.StatusBadRequest, typeRequest, false, "List again without a page token.", ""},
	{ResumeExpired, grpcOutOfRange, http.StatusGone, typeRequest, false, "Continue from the current state, which follows this error.", ""},
	{SlowReader, grpcResourceExhausted, http.StatusTooManyRequests, typeLimit, true, "Resume after the last event you handled.", ""},
	{StillHeld, grpcUnavailable, http.StatusServiceUnavailable, typeServer, true, "Send the same request again; after a crash this can take up to the route's ack_wait.", ""},
	{CallerGone, grpcCanceled, 499, typeRequest, false, "Nothing; genbus cancelled the upstream call.", ""},
	{CallerDeadline, grpcDeadlineExceeded, http.StatusGatewayTimeout, typeServer, true, "Send the same request with a longer deadline; with its request_id it attaches to the job.", ""},
	{NotTerminal, grpcFailedPrecondition, http.StatusConflict, typeRequest, false, "Cancel the job, or wait until it ends.", ""},

	{OperatorRequired, grpcPermissionDenied, http.StatusForbidden, typeAuth, false, "Send an operator key without read_only.", "Configure a key with operator_keys or GENBUS_OPERATOR_KEY."},
	{RouteNotFound, grpcNotFound, http.StatusNotFound, typeRequest, false, "Choose a route from the list of routes.", ""},
	{DeadLetterNotFound, grpcNotFound, http.StatusNotFound, typeRequest, false, "List the dead letters again; a redriven or attached one became a job whose retry_of names the old job.", ""},
	{DeadLetterUnusable, grpcFailedPrecondition, http.StatusConflict, typeRequest, false, "See the message; drop the dead letter if it cannot be recovered.", ""},
	{DeadLetterResolved, grpcFailedPrecondition, http.StatusConflict, typeRequest, false, "Check the job that the message names, then drop the dead letter.", ""},
	{DeadLetterUnresolved, grpcFailedPrecondition, http.StatusConflict, typeRequest, false, "Redrive, attach or drop the dead letter that the message names.", ""},
	{RequestNotKept, grpcFailedPrecondition, http.StatusConflict, typeRequest, false, "Provide the whole request, or ask the caller to send it again.", "Set keep_requests on the route to keep the requests of later jobs."},
	{BodiesPrivate, grpcPermissionDenied, http.StatusForbidden, typeAuth, false, "Set operators_read_bodies to allow it.", ""},

	{QueueFull, grpcResourceExhausted, http.StatusTooManyRequests, typeLimit, true, "Wait for Retry-After, then send the same request.", "Raise max_queued on the route, or its max_in_flight if the upstream has capacity."},
	{RateLimited, grpcResourceExhausted, http.StatusTooManyRequests, typeLimit, true, "Wait for Retry-After, then send the same request.", "Raise requests_per_second for the tenant."},
	{TenantFull, grpcResourceExhausted, http.StatusTooManyRequests, typeLimit, true, "Wait until some jobs end, then send the same request.", "Raise max_jobs for the tenant."},
	{StreamEnded, grpcUnavailable, http.StatusServiceUnavailable, typeServer, true, "Resume after the last event you handled, or send the same request again; with its request_id it attaches to the job.", ""},
	{RoutePaused, grpcUnavailable, http.StatusServiceUnavailable, typeServer, true, "Wait for Retry-After, or send the chat with a request_id to queue it.", "Resume the route."},
	{StorageFull, grpcUnavailable, http.StatusServiceUnavailable, typeServer, true, "Wait, then send the same request.", "Raise the limit that the message names: nats.streams.tasks.max_bytes, limits.bodies_bytes, limits.bodies_messages, or a NATS limit."},
	{DeadLettersFull, grpcUnavailable, http.StatusServiceUnavailable, typeServer, true, "Send the same request later, with a new request_id if its job failed.", "Resolve dead letters (operator dead list), or raise max_dead_letters or nats.streams.dead.max_bytes."},
	{BrokerUnavailable, grpcUnavailable, http.StatusServiceUnavailable, typeServer, true, "Send the same request again.", "Check the NATS servers and the connections to them."},
	{ClockWrong, grpcUnavailable, http.StatusServiceUnavailable, typeServer, true, "Send the same request again; other replicas can accept it.", "Synchronize the clocks of the replica and the NATS servers."},
	{IndexCatchingUp, grpcUnavailable, http.StatusServiceUnavailable, typeServer, true, "Wait for Retry-After, then list again; a single job can be read by its ID.", ""},
	{AcceptanceUnknown, grpcUnknown, http.StatusInternalServerError, typeServer, false, "With a request_id, send it again: it attaches to the job. Without one, do not repeat it blindly.", ""},
	{ShuttingDown, grpcUnavailable, http.StatusServiceUnavailable, typeServer, true, "Send the same request again.", ""},
	{Internal, grpcInternal, http.StatusInternalServerError, typeServer, false, "Report it with the X-Request-Id.", "Find the X-Request-Id in the logs, and report the bug."},

	{SubmissionUnknown, grpcAborted, http.StatusBadGateway, typeServer, false, "Ask the operator whether the upstream has the task, then send a new request with retry_of.", "Check the upstream's task list, then attach, redrive or drop the dead letter (operator dead list)."},
	{OrphanedSubmission, grpcAborted, http.StatusBadGateway, typeServer, false, "Nothing; an operator resolves the dead letter.", "Attach the task to a new job, or cancel it at the upstream, by the ID in the dead letter."},
	{QueueTimeout, grpcDeadlineExceeded, http.StatusGatewayTimeout, typeServer, true, "Send it again as a new job.", "Raise max_in_flight or timeouts.queue on the route."},
	{DeadlineExceeded, grpcDeadlineExceeded, http.StatusGatewayTimeout, typeServer, false, "Look up the task at the upstream by its upstream ID.", "Look up the task at the upstream by its upstream ID; raise timeouts.deadline if the upstream is slow."},
	{Expired, grpcDeadlineExceeded, http.StatusGatewayTimeout, typeServer, false, "Send it again with a later expires_at.", "Raise max_in_flight on the route if its jobs wait too long."},
	{Cancelled, grpcCanceled, http.StatusConflict, typeRequest, false, "Nothing; the message says whether the upstream may charge for the job.", ""},
	{Poisoned, grpcInternal, http.StatusInternalServerError, typeServer, false, "Ask the operator, who has the dead letter.", "Read the dead letter, and the logs of the replicas that held the job."},
	{LogLost, grpcDataLoss, http.StatusInternalServerError, typeServer, false, "Check the upstream's task list, then send it again as a new job.", "Check the upstream's task list, and why NATS lost the log; the caller must send the job again."},
	{NotEnqueued, grpcAborted, http.StatusInternalServerError, typeServer, false, "Send it again as a new job, unless you erased it.", "Check the NATS logs, unless the job was erased; the caller must send the job again."},
	{InputLost, grpcDataLoss, http.StatusInternalServerError, typeServer, false, "Send it again as a new job.", "Check the tenant's object store in NATS; the caller must send the job again."},
	{ContentNotReady, grpcFailedPrecondition, http.StatusBadRequest, typeRequest, false, "Poll the task until it ends; a failed or cancelled task has no content.", ""},
	{ContentExpired, grpcNotFound, http.StatusNotFound, typeRequest, false, "Send a new request if you still need the video.", "Set `archive: true` on the route to keep the results of later tasks."},
	{ContentBlocked, grpcPermissionDenied, http.StatusForbidden, typeRequest, false, "Ask the operator to allow the address.", "Set private_results on the upstream if the address is trusted."},
	{ContentUnavailable, grpcUnavailable, http.StatusBadGateway, typeServer, true, "Try again.", ""},
	{ArchiveFailed, grpcAborted, http.StatusBadGateway, typeServer, true, "Download the content from the upstream before its URL expires.", ""},
	{UpstreamFailed, grpcAborted, http.StatusBadGateway, typeServer, true, "See upstream_code and the message.", "See upstream_code and the message; retry the job (operator jobs retry) if its request is not at fault."},
	{UpstreamRefused, grpcFailedPrecondition, http.StatusBadGateway, typeRequest, false, "See upstream_code and the message, then correct the request.", "If upstream_code or the message is about a path or a model, fix the upstream or the route (operator upstreams); otherwise the caller must correct the request."},
	{UpstreamKeyRefused, grpcAborted, http.StatusBadGateway, typeServer, false, "Tell the operator; your key and the request are not at fault.", "Check the upstream key, its permissions and its allowed IP addresses (operator upstreams); for a signing key, also the replica's clock."},
	{UpstreamQuota, grpcAborted, http.StatusBadGateway, typeServer, false, "Tell the operator; your key and the request are not at fault.", "Top up the account at the upstream, or add a key of another account."},
	{UpstreamRemoved, grpcAborted, http.StatusBadGateway, typeServer, false, "Look up the task at the upstream by its upstream ID.", "Look up the task at the upstream by its upstream ID; drain a route before you remove it."},
	{UpstreamUnavailable, grpcUnavailable, http.StatusBadGateway, typeServer, true, "Try again.", "Check the upstream (operator upstreams)."},
	{UpstreamRateLimited, grpcResourceExhausted, http.StatusTooManyRequests, typeLimit, true, "Wait for Retry-After, then send the same request.", "Lower max_in_flight, or add an upstream key."},
	{UpstreamTimeout, grpcDeadlineExceeded, http.StatusGatewayTimeout, typeServer, true, "Try again; the upstream may charge for both calls.", "Raise the timeout that the message names; set retry_timeouts on the route to repeat such chats."},
	{StreamTruncated, grpcAborted, http.StatusBadGateway, typeServer, true, "Try again; the received part is incomplete.", "Check the upstream (operator upstreams)."},
	{ChatAttemptsExhausted, grpcAborted, http.StatusBadGateway, typeServer, true, "Send it again as a new job.", "Check the upstream (operator upstreams), then retry the chat (operator jobs retry)."},
	{ReplyNotStored, grpcAborted, http.StatusBadGateway, typeServer, false, "Ask the operator for the reply; sending the chat again calls the upstream again.", "Take the reply from the dead letter, and raise the limit that the message names."},
}

var byCode = func() map[Code]Meaning {
	m := make(map[Code]Meaning, len(table))
	for _, row := range table {
		m[row.Code] = row
	}
	return m
}()

// MeaningOf returns the row of a code, or the row of Internal if the code is unknown.
func MeaningOf(c Code) Meaning {
	if row, ok := byCode[c]; ok {
		return row
	}
	return byCode[Internal]
}

// Table returns a copy of the table, in the order of docs/errors.md.
func Table() []Meaning { return append([]Meaning(nil), table...) }
