package jimeng

import "github.com/genbus/genbus/internal/upstream/lax"

// codeOK is the vendor's code for success.
const codeOK = "10000"

// answer is the answer to a create or query: the vendor's envelope or a gateway's.
type answer struct {
	// Code is a number from the vendor, or "success" from a gateway.
	Code      lax.Word         `json:"code"`
	Message   lax.Text         `json:"message"`
	RequestID lax.Text         `json:"request_id"`
	Data      lax.Object[data] `json:"data"`

	// TaskID is set in some error answers, and in a gateway's answer to a create.
	TaskID lax.Word `json:"task_id"`
	// ID, Status and Progress are set by gateways. The vendor's status is a number that repeats the
	// code, so it is ignored.
	ID       lax.Word    `json:"id"`
	Status   lax.Status  `json:"status"`
	Progress lax.Percent `json:"progress"`
}

// data is the task, from the vendor or in a gateway's envelope.
type data struct {
	TaskID   lax.Word   `json:"task_id"`
	Status   lax.Status `json:"status"`
	VideoURL lax.Text   `json:"video_url"`

	Progress   lax.Percent        `json:"progress"`
	ResultURL  lax.Text           `json:"result_url"`
	FailReason lax.Text           `json:"fail_reason"`
	Vendor     lax.Object[vendor] `json:"data"`
}

// vendor is the vendor's answer inside a gateway's.
type vendor struct {
	Code    lax.Word           `json:"code"`
	Message lax.Text           `json:"message"`
	Data    lax.Object[result] `json:"data"`
}

type result struct {
	VideoURL lax.Text `json:"video_url"`
}

// taskID returns the ID for polling the task, or "".
func (a *answer) taskID() string { return lax.First(a.Data.Value.TaskID, a.TaskID, a.ID) }
