// Package errcode defines the error codes of genbus and maps each, in one table, to its gRPC code,
// its HTTP status and whether to retry. To add context to an error, use fmt.Errorf with %w.
package errcode

import (
	"net/http"

	"google.golang.org/grpc/codes"
)

// Code identifies an error in answers, events, dead letters and NATS replies. Codes are never
// renamed.
type Code string

// Errors of requests.
const (
	InvalidRequest       Code = "invalid_request"
	InvalidJSON          Code = "invalid_json"
	BodyTooLarge         Code = "body_too_large"
	UnsupportedMedia     Code = "unsupported_media_type"
	InvalidAPIKey        Code = "invalid_api_key"
	ModelNotFound        Code = "model_not_found"
	WrongProtocol        Code = "wrong_protocol"
	TaskNotFound         Code = "task_not_found"
	ChatNotFound         Code = "chat_not_found"
	NotFound             Code = "not_found"
	MethodNotAllowed     Code = "method_not_allowed"
	IdempotencyKeyReused Code = "idempotency_key_reused"
	InvalidPageToken     Code = "invalid_page_token"
	ResumeExpired        Code = "resume_expired"
	SlowReader           Code = "slow_reader"
	StillHeld            Code = "still_held"
	CallerGone           Code = "caller_gone"
	CallerDeadline       Code = "caller_deadline"
	NotTerminal          Code = "not_terminal"
)

// Errors of the operator's methods.
const (
	OperatorRequired Code = "operator_required"
	RouteNotFound    Code = "route_not_found"
	LetterNotFound   Code = "letter_not_found"
	LetterUnusable   Code = "letter_unusable"
	LetterResolved   Code = "letter_resolved"
	LetterUnresolved Code = "letter_unresolved"
	RequestNotKept   Code = "request_not_kept"
	BodiesPrivate    Code = "bodies_private"
)

// Errors of genbus and its broker.
const (
	QueueFull         Code = "queue_full"
	RateLimited       Code = "rate_limited"
	TenantFull        Code = "tenant_full"
	StreamEnded       Code = "stream_ended"
	RoutePaused       Code = "route_paused"
	StorageFull       Code = "storage_full"
	DeadLettersFull   Code = "dead_letters_full"
	BrokerUnavailable Code = "broker_unavailable"
	ClockWrong        Code = "clock_wrong"
	IndexCatchingUp   Code = "index_catching_up"
	AcceptanceUnknown Code = "acceptance_unknown"
	ShuttingDown      Code = "shutting_down"
	Internal          Code = "internal"
)

// Errors of jobs and their upstreams.
const (
	SubmissionUnknown     Code = "submission_outcome_unknown"
	OrphanedSubmission    Code = "orphaned_submission"
	QueueTimeout          Code = "queue_timeout"
	DeadlineExceeded      Code = "deadline_exceeded"
	Expired               Code = "expired"
	Cancelled             Code = "cancelled"
	Poisoned              Code = "poisoned"
	LogLost               Code = "log_lost"
	NotEnqueued           Code = "not_enqueued"
	InputLost             Code = "input_lost"
	ContentNotReady       Code = "content_not_ready"
	ContentExpired        Code = "content_expired"
	ContentBlocked        Code = "content_blocked"
	ContentUnavailable    Code = "content_unavailable"
	ArchiveFailed         Code = "archive_failed"
	UpstreamFailed        Code = "upstream_failed"
	UpstreamRefused       Code = "upstream_refused"
	UpstreamRemoved       Code = "upstream_removed"
	UpstreamUnavailable   Code = "upstream_unavailable"
	UpstreamRateLimited   Code = "upstream_rate_limited"
	UpstreamTimeout       Code = "upstream_timeout"
	StreamTruncated       Code = "stream_truncated"
	ChatAttemptsExhausted Code = "chat_attempts_exhausted"
	ReplyNotStored        Code = "reply_not_stored"
)

// Meaning is a row of the table.
type Meaning struct {
	Code Code
	// GRPC is the gRPC status code.
	GRPC codes.Code
	// HTTP is the HTTP status.
	HTTP int
	// Type is the "type" of the OpenAI error envelope.
	Type string
	// Retry is true if the same request may succeed later.
	Retry bool
	// Means describes what happened.
	Means string
	// Do describes what the reader can do about it.
	Do string
}

const (
	typeRequest = "invalid_request_error"
	typeAuth    = "authentication_error"
	typeLimit   = "rate_limit_error"
	typeServer  = "server_error"
)

// table is in the order of docs/errors.md.
var table = []Meaning{
	{InvalidRequest, codes.InvalidArgument, http.StatusBadRequest, typeRequest, false, "A field of the request is missing or wrong, or the body has more levels or values than are taken.", "Correct what the message names."},
	{InvalidJSON, codes.InvalidArgument, http.StatusBadRequest, typeRequest, false, "The body is not one JSON object.", "Send valid JSON without duplicate names."},
	{BodyTooLarge, codes.ResourceExhausted, http.StatusRequestEntityTooLarge, typeRequest, false, "The body is larger than the limit.", "Send a URL instead of the data, or raise the limit."},
	{UnsupportedMedia, codes.InvalidArgument, http.StatusUnsupportedMediaType, typeRequest, false, "The content type is not one that this path reads.", "Send application/json."},
	{InvalidAPIKey, codes.Unauthenticated, http.StatusUnauthorized, typeAuth, false, "The API key is missing, unknown or no longer valid, or it is an operator's and the method is for tenants.", "Send `Authorization: Bearer <key>` with a configured key: a tenant's, or for the operator's methods an operator's."},
	{ModelNotFound, codes.NotFound, http.StatusNotFound, typeRequest, false, "No route serves the model, or the one that does is draining.", "Choose a model from GET /v1/models, or add a route."},
	{WrongProtocol, codes.FailedPrecondition, http.StatusBadRequest, typeRequest, false, "The model's route speaks another protocol than the path.", "Use the path that the message names."},
	{TaskNotFound, codes.NotFound, http.StatusNotFound, typeRequest, false, "The tenant has no video task with this id.", "Check the id and the key; tasks are kept for nats.streams.tasks.max_age."},
	{ChatNotFound, codes.NotFound, http.StatusNotFound, typeRequest, false, "The tenant has no chat with this id.", "Check the id and the key; chats are kept for nats.streams.tasks.max_age."},
	{NotFound, codes.NotFound, http.StatusNotFound, typeRequest, false, "There is no such path; to an operator, also: no job has the id that was looked for.", "See the paths in README.md, or list the jobs."},
	{MethodNotAllowed, codes.Unimplemented, http.StatusMethodNotAllowed, typeRequest, false, "The path exists, but not with this method.", "Use a method from the Allow header."},
	{IdempotencyKeyReused, codes.InvalidArgument, http.StatusUnprocessableEntity, typeRequest, false, "The request_id was used before with another body.", "Use a new request_id for a new body."},
	{InvalidPageToken, codes.InvalidArgument, http.StatusBadRequest, typeRequest, false, "The page token is not one of this list.", "Start again without a token."},
	{ResumeExpired, codes.OutOfRange, http.StatusGone, typeRequest, false, "The place to resume from is gone.", "Go on from the current state, which follows this notice."},
	{SlowReader, codes.ResourceExhausted, http.StatusTooManyRequests, typeLimit, true, "The reader was more than 1 MiB behind and was cut off.", "Resume from the last event that was handled."},
	{StillHeld, codes.Unavailable, http.StatusServiceUnavailable, typeServer, true, "A replica has not let go yet: of the job that was cancelled, so that it was not erased, or not submitted again, or of the route, so that its jobs were not touched.", "Send the same request again; after a crash it takes up to the route's ack_wait."},
	{CallerGone, codes.Canceled, 499, typeRequest, false, "The caller went away before the reply was whole.", "Nothing; the upstream call was cancelled."},
	{CallerDeadline, codes.DeadlineExceeded, http.StatusGatewayTimeout, typeServer, true, "The deadline that the caller set for its call passed before the answer; a job that was accepted goes on.", "Send the same request again, with a longer deadline: with its request_id it attaches."},
	{NotTerminal, codes.FailedPrecondition, http.StatusConflict, typeRequest, false, "The job has not ended, so it was not erased, or not submitted again.", "Cancel it, or wait for its end."},

	{OperatorRequired, codes.PermissionDenied, http.StatusForbidden, typeAuth, false, "The method is the operator's, and the key is a tenant's or only reads, or no operator key is configured.", "Send an operator's key that may do it, one without read_only; set one with GENBUS_OPERATOR_KEY, or operator_keys."},
	{RouteNotFound, codes.NotFound, http.StatusNotFound, typeRequest, false, "No route of this kind has this name.", "Choose one from the list of routes."},
	{LetterNotFound, codes.NotFound, http.StatusNotFound, typeRequest, false, "There is no dead letter of this number, or not any more.", "List the letters again; one that was redriven or attached is a job whose retry_of names the old one."},
	{LetterUnusable, codes.FailedPrecondition, http.StatusConflict, typeRequest, false, "The dead letter does not say enough for what was asked, or is not of a kind for it.", "See the message; what cannot be recovered can be dropped."},
	{LetterResolved, codes.FailedPrecondition, http.StatusConflict, typeRequest, false, "Another job was made already of the dead letter, or of another letter of its job, and this one was not removed yet; or its job has completed after all.", "Look at the job that the message names; then drop the letter."},
	{LetterUnresolved, codes.FailedPrecondition, http.StatusConflict, typeRequest, false, "The job has a dead letter: its upstream may have its task, or has it, and a retry might be paid for twice.", "Redrive, attach or drop the letter that the message names."},
	{RequestNotKept, codes.FailedPrecondition, http.StatusConflict, typeRequest, false, "The request of the job does not exist any more.", "Give the whole request, or have the caller send it again; set keep_requests on its route for later jobs."},
	{BodiesPrivate, codes.PermissionDenied, http.StatusForbidden, typeAuth, false, "Operators do not read the requests and the replies of jobs here.", "Set operators_read_bodies, if they are to."},

	{QueueFull, codes.ResourceExhausted, http.StatusTooManyRequests, typeLimit, true, "The route's queue, or the whole queue, is full.", "Wait as long as Retry-After says, then send the same request."},
	{RateLimited, codes.ResourceExhausted, http.StatusTooManyRequests, typeLimit, true, "The tenant sends more requests a second than it may.", "Wait as long as Retry-After says, then send the same request."},
	{TenantFull, codes.ResourceExhausted, http.StatusTooManyRequests, typeLimit, true, "The tenant has as many unfinished jobs as it may have; nothing was accepted.", "Wait until some have ended, then send the same request."},
	{StreamEnded, codes.Unavailable, http.StatusServiceUnavailable, typeServer, true, "The stream has reached its longest life (`limits.stream_time`); the job goes on.", "Resume after the last event that was handled, or send the same request again: with its request_id it attaches."},
	{RoutePaused, codes.Unavailable, http.StatusServiceUnavailable, typeServer, true, "An operator has paused the route, and the chat cannot wait for it on its connection.", "Wait as long as Retry-After says, or send the chat with a request_id: it is queued then."},
	{StorageFull, codes.Unavailable, http.StatusServiceUnavailable, typeServer, true, "Storage is used up: 80 % of the task log is used or reserved, the tenant's object store is full, NATS has no storage left, or its account allows no more streams.", "Wait, or raise the limit in the message: nats.streams.tasks.max_bytes, limits.bodies_bytes, limits.bodies_messages, or one of NATS."},
	{DeadLettersFull, codes.Unavailable, http.StatusServiceUnavailable, typeServer, true, "The tenant has as many dead letters as it may have, or their stream is nearly full: the video was not submitted, because its letter might have no room.", "An operator resolves letters (operator dead list), or raises max_dead_letters or nats.streams.dead.max_bytes; then send the same request, under a new request_id if its job failed."},
	{BrokerUnavailable, codes.Unavailable, http.StatusServiceUnavailable, typeServer, true, "JetStream could not be reached; nothing was accepted, except a chat with a request_id that was waited for, which goes on.", "Send the same request again."},
	{ClockWrong, codes.Unavailable, http.StatusServiceUnavailable, typeServer, true, "The clock of this replica is wrong, or was not compared with the broker's yet; nothing was accepted.", "Send the same request again: other replicas take it."},
	{IndexCatchingUp, codes.Unavailable, http.StatusServiceUnavailable, typeServer, true, "No replica has the index of jobs ready, which lists need; jobs run meanwhile.", "Send the list again after Retry-After; a single job can be read by its id."},
	{AcceptanceUnknown, codes.Unknown, http.StatusInternalServerError, typeServer, false, "JetStream did not confirm; the request may have been accepted.", "With a request_id: send it again, it attaches. Without one: do not repeat it blindly."},
	{ShuttingDown, codes.Unavailable, http.StatusServiceUnavailable, typeServer, true, "This replica is going down; nothing was accepted, except a chat with a request_id that was waited for, which goes on. A chat without one that is cut off may be charged for.", "Send the same request again."},
	{Internal, codes.Internal, http.StatusInternalServerError, typeServer, false, "A bug in genbus.", "Report it with the X-Request-Id."},

	{SubmissionUnknown, codes.Aborted, http.StatusBadGateway, typeServer, false, "It cannot be known whether the upstream accepted the submission, so it was not repeated.", "Look at the upstream's own list of tasks; then send a new request with retry_of."},
	{OrphanedSubmission, codes.Aborted, http.StatusBadGateway, typeServer, false, "Only in dead letters: the upstream has a task that its job could no longer record.", "An operator attaches it to a new job, or cancels it at the upstream, by the id in the dead letter."},
	{QueueTimeout, codes.DeadlineExceeded, http.StatusGatewayTimeout, typeServer, true, "The job was not submitted within the route's queue timeout.", "Send it again as a new job, or raise max_in_flight."},
	{DeadlineExceeded, codes.DeadlineExceeded, http.StatusGatewayTimeout, typeServer, false, "The upstream did not finish within the route's deadline.", "The upstream's id is kept in the task; ask there."},
	{Expired, codes.DeadlineExceeded, http.StatusGatewayTimeout, typeServer, false, "The job's own expires_at passed before it was submitted.", "Send it again with a later expires_at."},
	{Cancelled, codes.Canceled, http.StatusConflict, typeRequest, false, "The job was cancelled.", "Nothing; after the submission the upstream may still charge."},
	{Poisoned, codes.Internal, http.StatusInternalServerError, typeServer, false, "The job was delivered more than 10 times without any progress.", "See the dead letter, and the logs of the replicas that held it."},
	{LogLost, codes.DataLoss, http.StatusInternalServerError, typeServer, false, "The work item outlived its log, so the job's past is unknown and it was not submitted.", "Send it again as a new job after a look at the upstream's list."},
	{NotEnqueued, codes.Aborted, http.StatusInternalServerError, typeServer, false, "The job lost its work item while it was accepted: it was erased, or the queue was lost. It is not run.", "Send it again as a new job, unless you erased it."},
	{InputLost, codes.DataLoss, http.StatusInternalServerError, typeServer, false, "The request's body is gone from the object store, or damaged.", "Send it again as a new job."},
	{ContentNotReady, codes.FailedPrecondition, http.StatusBadRequest, typeRequest, false, "The video has not completed, so it has no content.", "Poll the task until it has ended; a failed or cancelled one has none."},
	{ContentExpired, codes.NotFound, http.StatusNotFound, typeRequest, false, "The upstream no longer has the content, or its URL has expired.", "Set `archive: true` in the route to keep the results of later tasks."},
	{ContentBlocked, codes.PermissionDenied, http.StatusForbidden, typeRequest, false, "The content lies at an address that genbus does not read: another scheme than http and https, or a private address.", "Allow it with private_results in the upstream, if the address is meant."},
	{ContentUnavailable, codes.Unavailable, http.StatusBadGateway, typeServer, true, "The content could not be read from the upstream.", "Try again."},
	{ArchiveFailed, codes.Aborted, http.StatusBadGateway, typeServer, true, "Only in a task's archive: the copy of the result could not be made. The task has completed all the same.", "Download the content from the upstream while its URL is valid."},
	{UpstreamFailed, codes.Aborted, http.StatusBadGateway, typeServer, true, "The upstream reports that the job failed.", "See upstream_code and the message."},
	{UpstreamRefused, codes.FailedPrecondition, http.StatusBadGateway, typeRequest, false, "The upstream refused the request for good, or its reply is longer than genbus takes.", "See upstream_code and the message, and correct the request."},
	{UpstreamRemoved, codes.Aborted, http.StatusBadGateway, typeServer, false, "The route or upstream that holds the job is no longer configured.", "The upstream's id is kept in the task; ask there."},
	{UpstreamUnavailable, codes.Unavailable, http.StatusBadGateway, typeServer, true, "The upstream could not be reached, or failed.", "Try again."},
	{UpstreamRateLimited, codes.ResourceExhausted, http.StatusTooManyRequests, typeLimit, true, "The upstream asks to slow down.", "Wait as long as Retry-After says."},
	{UpstreamTimeout, codes.DeadlineExceeded, http.StatusGatewayTimeout, typeServer, true, "The upstream did not answer, or fell silent, within the route's timeout.", "Try again, or raise the timeout that the message names."},
	{StreamTruncated, codes.Aborted, http.StatusBadGateway, typeServer, true, "The upstream ended the stream early.", "Try again; what arrived is not the whole reply."},
	{ChatAttemptsExhausted, codes.Aborted, http.StatusBadGateway, typeServer, true, "All attempts at the chat were cut off.", "Send it again as a new job."},
	{ReplyNotStored, codes.Aborted, http.StatusBadGateway, typeServer, false, "The upstream replied to the chat, but a NATS server or account limit is too small to store the reply.", "An operator takes the reply from the dead letter and raises the limit in the message. Sending the chat again calls the upstream again."},
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
