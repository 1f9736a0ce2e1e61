package sandbox

import (
	"cmp"
	"encoding/json"
	"net/http"
)

// Jimeng codes that the sandbox uses.
const (
	codeJimengSuccess = "10000"
	codeInvalidInput  = "50215"
	codeAccessDenied  = "50400"
	codeTextRisk      = "50413"
)

// jimengAnswer is the vendor's envelope. Status repeats the code.
type jimengAnswer struct {
	Code        json.RawMessage `json:"code"`
	Data        any             `json:"data"`
	Message     string          `json:"message"`
	RequestID   string          `json:"request_id"`
	Status      json.RawMessage `json:"status"`
	TimeElapsed string          `json:"time_elapsed"`
}

type jimengTask struct {
	TaskID string `json:"task_id,omitempty"`
}

// jimengResult is the data of the answer to a query.
type jimengResult struct {
	AIGCMetaTagged   bool     `json:"aigc_meta_tagged"`
	BinaryDataBase64 []string `json:"binary_data_base64"`
	ImageURLs        []string `json:"image_urls"`
	RespData         string   `json:"resp_data"`
	Status           string   `json:"status"`
	VideoURL         string   `json:"video_url"`
}

func newJimengAnswer(code, message string, data any) jimengAnswer {
	number := appendCode(nil, code)
	return jimengAnswer{Code: number, Data: data, Message: message, RequestID: newID(""), Status: number, TimeElapsed: "1.0ms"}
}

func createdJimeng(_ *Sandbox, _ *http.Request, t *task, b Behaviour) []byte {
	data := jimengTask{TaskID: t.id}
	if b.NoID {
		data.TaskID = ""
	}
	return marshal(newJimengAnswer(codeJimengSuccess, "Success", data))
}

func writeJimeng(w http.ResponseWriter, data jimengResult) {
	writeAny(w, http.StatusOK, newJimengAnswer(codeJimengSuccess, "Success", data))
}

// refuseJimeng is the vendor's refuser. Numeric codes belong to the vendor's API. Other codes
// belong to its front end, which uses a different envelope.
func refuseJimeng(w http.ResponseWriter, status int, code, message string) {
	code = cmp.Or(code, jimengCode(status))
	if isInteger(code) {
		writeAny(w, status, newJimengAnswer(code, message, nil))
		return
	}
	writeVolcError(w, volcMetadata{}, volcProblem{status: status, code: code, message: message})
}

func jimengCode(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return noSignature.code
	case status == http.StatusForbidden:
		return wrongSignature.code
	case status == http.StatusTooManyRequests:
		return "50429"
	case status >= 500:
		return "50500"
	default:
		return codeInvalidInput
	}
}

// volcMetadata is the envelope of the front end.
type volcMetadata struct {
	RequestID string    `json:"RequestId"`
	Action    string    `json:"Action,omitempty"`
	Version   string    `json:"Version,omitempty"`
	Service   string    `json:"Service"`
	Region    string    `json:"Region"`
	Error     volcError `json:"Error"`
}

type volcError struct {
	CodeN   int    `json:"CodeN,omitempty"`
	Code    string `json:"Code"`
	Message string `json:"Message"`
}

func writeVolcProblem(w http.ResponseWriter, r *http.Request, p volcProblem) {
	query := r.URL.Query()
	writeVolcError(w, volcMetadata{Action: query.Get("Action"), Version: query.Get("Version")}, p)
}

func writeVolcError(w http.ResponseWriter, m volcMetadata, p volcProblem) {
	m.RequestID, m.Service, m.Region = newID(""), "cv", "cn-north-1"
	m.Error = volcError{CodeN: p.number, Code: p.code, Message: p.message}
	writeAny(w, p.status, struct {
		ResponseMetadata volcMetadata
	}{m})
}
