package jimeng

import (
	"cmp"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream"
)

// Vendor codes that genbus sends.
const (
	replyOK       = 10000
	replyInvalid  = 50215
	replyRate     = 50429
	replyLimit    = 50430
	replyInternal = 50500
)

// reply is the vendor's envelope. It omits time_elapsed, because clients do not need it and it
// would make equal answers differ.
type reply struct {
	Code int `json:"code"`
	// Data is null unless the code is 10000. Some clients trust a task's status in Data, whatever
	// the code.
	Data      any    `json:"data"`
	Message   string `json:"message"`
	RequestID string `json:"request_id"`
	Status    int    `json:"status"`
	// TaskID is set if a task failed, as in the vendor's callbacks. It distinguishes a failed task
	// from a failed query.
	TaskID string `json:"task_id,omitempty"`
}

type replyCreated struct {
	TaskID string `json:"task_id"`
}

type replyTask struct {
	Binary   []string `json:"binary_data_base64"`
	Images   []string `json:"image_urls"`
	RespData string   `json:"resp_data"`
	Status   string   `json:"status"`
	VideoURL string   `json:"video_url"`
}

// Task answers a create with the task's ID, and a query with its state. As with the vendor, the
// answer for a failed or cancelled task is an HTTP 400.
func (surface) Task(c upstream.Call, t *genbusv1.VideoTask, requestID string) (int, []byte) {
	if c.Op == upstream.CreateTask {
		return fine(replyCreated{TaskID: t.GetId()}, requestID)
	}
	state := replyTask{Status: "in_queue"}
	switch t.GetStatus() {
	case genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS:
		state.Status = "generating"
	case genbusv1.JobStatus_JOB_STATUS_COMPLETED:
		state.Status, state.VideoURL = "done", firstURL(t.GetVideos())
	case genbusv1.JobStatus_JOB_STATUS_FAILED, genbusv1.JobStatus_JOB_STATUS_CANCELLED:
		return failed(t, requestID)
	default:
	}
	return fine(state, requestID)
}

func firstURL(videos []*genbusv1.Video) string {
	for _, v := range videos {
		if v.GetUrl() != "" {
			return v.GetUrl()
		}
	}
	return ""
}

func failed(t *genbusv1.VideoTask, requestID string) (int, []byte) {
	code := failureCode(t.GetError().GetUpstreamCode())
	message := cmp.Or(t.GetError().GetMessage(), "the task failed")
	if t.GetStatus() == genbusv1.JobStatus_JOB_STATUS_CANCELLED {
		message = cmp.Or(t.GetError().GetMessage(), "the task was cancelled")
	}
	return http.StatusBadRequest, encode(reply{Code: code, Message: message, RequestID: requestID, Status: code, TaskID: t.GetId()})
}

// failureCode returns the vendor's own code if the upstream sent one. Codes for limits are
// replaced, because they would make clients query forever.
func failureCode(upstreamCode string) int {
	code, err := strconv.ParseUint(upstreamCode, 10, 32)
	if err != nil || len(upstreamCode) != 5 || code <= replyOK || aboutTheCall[upstreamCode] {
		return replyInternal
	}
	return int(code)
}

// refusal is the HTTP status and vendor code for a genbus error.
type refusal struct{ status, code int }

// refusals covers the errors that a create or query can return. All others are reported as internal
// errors.
var refusals = map[errcode.Code]refusal{
	errcode.InvalidRequest:       {http.StatusBadRequest, replyInvalid},
	errcode.InvalidJSON:          {http.StatusBadRequest, replyInvalid},
	errcode.InvalidPageToken:     {http.StatusBadRequest, replyInvalid},
	errcode.WrongProtocol:        {http.StatusBadRequest, replyInvalid},
	errcode.ModelNotFound:        {http.StatusBadRequest, replyInvalid},
	errcode.IdempotencyKeyReused: {http.StatusBadRequest, replyInvalid},
	errcode.OriginNotAllowed:     {http.StatusForbidden, replyInvalid},
	errcode.NotFound:             {http.StatusNotFound, replyInvalid},
	errcode.MethodNotAllowed:     {http.StatusMethodNotAllowed, replyInvalid},
	errcode.BodyTooLarge:         {http.StatusRequestEntityTooLarge, replyInvalid},
	errcode.UnsupportedMedia:     {http.StatusUnsupportedMediaType, replyInvalid},

	errcode.QueueFull:           {http.StatusTooManyRequests, replyLimit},
	errcode.TenantFull:          {http.StatusTooManyRequests, replyLimit},
	errcode.RateLimited:         {http.StatusTooManyRequests, replyRate},
	errcode.SlowReader:          {http.StatusTooManyRequests, replyLimit},
	errcode.UpstreamRateLimited: {http.StatusTooManyRequests, replyLimit},

	errcode.StorageFull:       {http.StatusServiceUnavailable, replyInternal},
	errcode.BrokerUnavailable: {http.StatusServiceUnavailable, replyInternal},
	errcode.ClockWrong:        {http.StatusServiceUnavailable, replyInternal},
	errcode.IndexCatchingUp:   {http.StatusServiceUnavailable, replyInternal},
	errcode.DeadLettersFull:   {http.StatusServiceUnavailable, replyInternal},
	errcode.ShuttingDown:      {http.StatusServiceUnavailable, replyInternal},
}

// Refuse returns the answer for an error. As with the vendor, an unknown task is reported as a task
// state. For a refused key or signature, the answer has the envelope of the vendor's API gateway.
func (surface) Refuse(f *errcode.Error, requestID string) (int, []byte) {
	if f.Code == errcode.TaskNotFound {
		return fine(replyTask{Status: "not_found"}, requestID)
	}
	if f.Code == errcode.InvalidAPIKey {
		return http.StatusUnauthorized, encode(unauthorized(f.Message, requestID))
	}
	r, ok := refusals[f.Code]
	if !ok {
		r = refusal{http.StatusInternalServerError, replyInternal}
	}
	return r.status, encode(reply{Code: r.code, Message: f.Message, RequestID: requestID, Status: r.code})
}

// gatewayReply is the envelope of the vendor's API gateway.
type gatewayReply struct {
	Metadata gatewayMetadata `json:"ResponseMetadata"`
}

type gatewayMetadata struct {
	RequestID string       `json:"RequestId"`
	Version   string       `json:"Version"`
	Service   string       `json:"Service"`
	Region    string       `json:"Region"`
	Error     gatewayError `json:"Error"`
}

type gatewayError struct {
	CodeN   int    `json:"CodeN"`
	Code    string `json:"Code"`
	Message string `json:"Message"`
}

func unauthorized(message, requestID string) gatewayReply {
	return gatewayReply{gatewayMetadata{
		RequestID: requestID, Version: version, Service: service, Region: region,
		Error: gatewayError{CodeN: 100024, Code: "InvalidAuthorization", Message: message},
	}}
}

func fine(data any, requestID string) (int, []byte) {
	return http.StatusOK, encode(reply{Code: replyOK, Data: data, Message: "Success", RequestID: requestID, Status: replyOK})
}

// encode returns an answer as JSON. Invalid UTF-8 is replaced, so encoding cannot fail.
func encode(v any) []byte {
	out, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true), json.FormatNilSliceAsNull(true))
	if err != nil {
		return []byte(`{"code":50500,"data":null,"message":"the answer could not be written","request_id":"","status":50500}`)
	}
	return out
}
