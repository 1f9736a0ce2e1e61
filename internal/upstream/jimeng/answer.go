package jimeng

import "github.com/genbus/genbus/internal/upstream/lax"

// codeOK is the vendor's code for a call that went well.
const codeOK = "10000"

// answer is an answer to either call: the vendor's envelope, or what a gateway
// says in its place.
type answer struct {
	// Code is a number from the vendor and the word "success" from a gateway.
	Code      lax.Word         `json:"code"`
	Message   lax.Text         `json:"message"`
	RequestID lax.Text         `json:"request_id"`
	Data      lax.Object[data] `json:"data"`

	// TaskID is here in some error answers, and in a gateway's answer to a
	// create.
	TaskID lax.Word `json:"task_id"`
	// ID, Status and Progress are a gateway's; the vendor's status repeats the
	// code, as a number, and so is not read.
	ID       lax.Word    `json:"id"`
	Status   lax.Status  `json:"status"`
	Progress lax.Percent `json:"progress"`
}

// data is the task: the vendor's, or the one in a gateway's envelope.
type data struct {
	TaskID   lax.Word   `json:"task_id"`
	Status   lax.Status `json:"status"`
	VideoURL lax.Text   `json:"video_url"`

	Progress   lax.Percent        `json:"progress"`
	ResultURL  lax.Text           `json:"result_url"`
	FailReason lax.Text           `json:"fail_reason"`
	Vendor     lax.Object[vendor] `json:"data"`
}

// vendor is the vendor's answer that a gateway passes on.
type vendor struct {
	Code    lax.Word           `json:"code"`
	Message lax.Text           `json:"message"`
	Data    lax.Object[result] `json:"data"`
}

type result struct {
	VideoURL lax.Text `json:"video_url"`
}

// taskID gives the id under which the task is polled, or "".
func (a *answer) taskID() string { return lax.First(a.Data.Value.TaskID, a.TaskID, a.ID) }
