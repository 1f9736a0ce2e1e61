package sandbox

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// Kling codes that the sandbox uses.
const (
	codeBadParameter = "1201"
	codeNoResource   = "1203"
)

// klingAnswer is the vendor's envelope.
type klingAnswer struct {
	Code      json.RawMessage `json:"code"`
	Message   string          `json:"message"`
	RequestID string          `json:"request_id"`
	Data      any             `json:"data,omitempty"`
}

// klingTask is a task in the envelope. Times are in milliseconds.
type klingTask struct {
	TaskID             string       `json:"task_id,omitempty"`
	TaskStatus         string       `json:"task_status"`
	TaskStatusMsg      *string      `json:"task_status_msg,omitempty"`
	TaskInfo           klingInfo    `json:"task_info"`
	TaskResult         *klingResult `json:"task_result,omitempty"`
	FinalUnitDeduction string       `json:"final_unit_deduction,omitempty"`
	CreatedAt          int64        `json:"created_at"`
	UpdatedAt          int64        `json:"updated_at"`
}

type klingInfo struct {
	ExternalTaskID string `json:"external_task_id,omitempty"`
}

type klingResult struct {
	Videos []klingVideo `json:"videos,omitempty"`
}

type klingVideo struct {
	ID       string `json:"id"`
	URL      string `json:"url"`
	Duration string `json:"duration"`
}

// klingTask returns t in the form of the vendor's answer to a query. A failed task is not an error.
func (s *Sandbox) klingTask(r *http.Request, t *task) klingTask {
	st := t.at(time.Since(s.start), &t.dialect.words)
	k := s.newKlingTask(t, st)
	k.TaskStatusMsg, k.TaskResult = new(string), &klingResult{}
	switch st.outcome {
	case completed:
		k.TaskResult.Videos = []klingVideo{{ID: t.id + "1", URL: s.baseURL(r) + t.filePath(0), Duration: measured(t.seconds)}}
		k.FinalUnitDeduction = strconv.Itoa(int(t.seconds))
	case failed:
		_, *k.TaskStatusMsg = t.failure()
	default: // still running
	}
	return k
}

func (s *Sandbox) newKlingTask(t *task, st state) klingTask {
	return klingTask{
		TaskID: t.id, TaskStatus: st.word, TaskInfo: klingInfo{t.external},
		CreatedAt: s.start.Add(t.created).UnixMilli(), UpdatedAt: s.start.Add(t.changed(st.outcome)).UnixMilli(),
	}
}

func createdKling(s *Sandbox, _ *http.Request, t *task, b Behaviour) []byte {
	k := s.newKlingTask(t, state{word: klingWords[waiting]})
	if b.NoID {
		k.TaskID = ""
	}
	return marshal(klingSuccess(k))
}

func klingSuccess(data any) klingAnswer {
	return klingAnswer{Code: json.RawMessage(`0`), Message: "SUCCEED", RequestID: newID(""), Data: data}
}

func writeKling(w http.ResponseWriter, data any) { writeAny(w, http.StatusOK, klingSuccess(data)) }

// refuseKling is the vendor's refuser. Its codes are integers.
func refuseKling(w http.ResponseWriter, status int, code, message string) {
	writeAny(w, status, klingAnswer{
		Code:    appendCode(nil, cmp.Or(code, klingCode(status))),
		Message: message, RequestID: newID(""),
	})
}

func klingCode(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "1000"
	case http.StatusForbidden:
		return "1103"
	case http.StatusNotFound:
		return codeNoResource
	case http.StatusTooManyRequests:
		return "1302"
	case http.StatusInternalServerError:
		return "5000"
	case http.StatusServiceUnavailable:
		return "5001"
	case http.StatusGatewayTimeout:
		return "5002"
	default:
		if status >= 500 {
			return "5000"
		}
		return codeBadParameter
	}
}

// badParameter returns the code of an invalid request.
func (d *dialect) badParameter() string {
	if d.gateway {
		return "" // the gateway's default code
	}
	return codeBadParameter
}
