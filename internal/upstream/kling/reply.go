package kling

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// reply is the vendor's envelope for tasks and errors.
type reply struct {
	Code      int    `json:"code"`
	Message   string `json:"message"`
	RequestID string `json:"request_id"`
	Data      any    `json:"data,omitzero"`
}

// replyTask is a task in the vendor's format. Times are in milliseconds.
type replyTask struct {
	TaskID     string      `json:"task_id"`
	Status     string      `json:"task_status"`
	StatusText string      `json:"task_status_msg"`
	Info       replyInfo   `json:"task_info"`
	CreatedAt  int64       `json:"created_at"`
	UpdatedAt  int64       `json:"updated_at"`
	Result     replyResult `json:"task_result"`
	Deduction  string      `json:"final_unit_deduction,omitzero"`
}

type replyInfo struct {
	ExternalTaskID string `json:"external_task_id,omitzero"`
}

type replyResult struct {
	Videos []replyVideo `json:"videos,omitzero"`
}

type replyVideo struct {
	ID  string `json:"id"`
	URL string `json:"url"`
	// Duration is in seconds, absent if unknown.
	Duration string `json:"duration,omitzero"`
}

// Task returns an answer with the task. The status is 200 even for a failed task.
func (surface) Task(_ upstream.Call, t *genbusv1.VideoTask, requestID string) (status int, answer []byte) {
	return http.StatusOK, write(reply{Message: "SUCCEED", RequestID: requestID, Data: taskOf(t)})
}

// Tasks returns an answer with the tasks of the page.
func (surface) Tasks(_ upstream.Call, list []*genbusv1.VideoTask, requestID string) []byte {
	data := make([]replyTask, 0, len(list))
	for _, t := range list {
		data = append(data, taskOf(t))
	}
	return write(reply{Message: "SUCCEED", RequestID: requestID, Data: data})
}

// Refuse returns an answer with the vendor's code that best matches the error.
func (surface) Refuse(f *errcode.Error, requestID string) (status int, answer []byte) {
	status, code := refusalOf(f.Code)
	if e, ok := errors.AsType[*tokenError](f); ok {
		status, code = http.StatusUnauthorized, e.code
	}
	return status, write(reply{Code: code, Message: f.Message, RequestID: requestID})
}

func refusalOf(c errcode.Code) (status, code int) {
	switch c {
	case errcode.InvalidAPIKey:
		return http.StatusUnauthorized, 1000
	case errcode.WrongProtocol:
		return http.StatusBadRequest, 1200
	case errcode.InvalidRequest, errcode.InvalidJSON, errcode.BodyTooLarge, errcode.InvalidPageToken, errcode.IdempotencyKeyReused:
		return http.StatusBadRequest, 1201
	case errcode.UnsupportedMedia:
		return http.StatusUnsupportedMediaType, 1201
	case errcode.MethodNotAllowed:
		return http.StatusNotFound, 1202
	case errcode.OriginNotAllowed:
		return http.StatusForbidden, 1103 // the vendor's code for a missing permission
	case errcode.ModelNotFound, errcode.TaskNotFound, errcode.NotFound:
		return http.StatusNotFound, 1203
	case errcode.QueueFull, errcode.UpstreamRateLimited, errcode.RateLimited:
		return http.StatusTooManyRequests, 1302
	case errcode.TenantFull:
		return http.StatusTooManyRequests, 1303
	case errcode.StorageFull, errcode.BrokerUnavailable, errcode.ClockWrong, errcode.IndexCatchingUp, errcode.DeadLettersFull, errcode.ShuttingDown:
		return http.StatusServiceUnavailable, 5001
	case errcode.AcceptanceUnknown:
		// The create may have been accepted. The vendor's clients assume this for any 5xx.
		return http.StatusGatewayTimeout, 5002
	default:
		return http.StatusInternalServerError, 5000
	}
}

func taskOf(t *genbusv1.VideoTask) replyTask {
	status, text := statusOf(t)
	external, found := strings.CutPrefix(t.GetRequestId(), externalPrefix)
	if !found {
		external = "" // another kind of request ID
	}
	return replyTask{
		TaskID: t.GetId(), Status: status, StatusText: text, Info: replyInfo{external},
		CreatedAt: millis(t.GetCreatedAt()), UpdatedAt: millis(t.GetUpdatedAt()),
		Result: replyResult{videosOf(t)}, Deduction: deductionOf(t),
	}
}

// statusOf returns the vendor's status word, and the reason if the task failed.
func statusOf(t *genbusv1.VideoTask) (status, text string) {
	switch t.GetStatus() {
	case genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS:
		return "processing", ""
	case genbusv1.JobStatus_JOB_STATUS_COMPLETED:
		return "succeed", ""
	case genbusv1.JobStatus_JOB_STATUS_FAILED:
		return "failed", cmp.Or(t.GetError().GetMessage(), t.GetError().GetCode())
	case genbusv1.JobStatus_JOB_STATUS_CANCELLED:
		return "failed", "cancelled"
	default:
		return "submitted", ""
	}
}

func videosOf(t *genbusv1.VideoTask) []replyVideo {
	var list []replyVideo
	for i, v := range t.GetVideos() {
		video := replyVideo{ID: t.GetId() + "-" + strconv.Itoa(i), URL: v.GetUrl()}
		if seconds := v.GetDurationSeconds(); seconds > 0 {
			video.Duration = strconv.FormatFloat(seconds, 'f', -1, 64)
		}
		list = append(list, video)
	}
	return list
}

// deductionOf returns the price of the task, or "" if the upstream did not report it.
func deductionOf(t *genbusv1.VideoTask) string {
	extra := body.Trusted(t.GetUsage().GetExtraJson())
	return cmp.Or(extra.Text(deductionMember), extra.Number(deductionMember))
}

func millis(t *timestamppb.Timestamp) int64 { return t.AsTime().UnixMilli() }

// write encodes the reply as JSON. Invalid UTF-8 is replaced.
func write(r reply) []byte {
	// Only invalid UTF-8 could fail, and lax.Options allows it.
	answer, _ := json.Marshal(r, lax.Options)
	return answer
}
