package kling

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// answer is a 2xx answer to a create or poll, in any form.
type answer struct {
	Code      code                  `json:"code"`
	RequestID lax.Text              `json:"request_id"`
	relayed                         // set if the answer is a bare task
	Data      lax.Object[enveloped] `json:"data"`
}

// enveloped is the task in an envelope: the vendor's, or a gateway's around the vendor's answer.
type enveloped struct {
	relayed
	Data lax.Object[vendorAnswer] `json:"data"`
}

// vendorAnswer is the vendor's answer inside a gateway's: the whole answer, or only its task.
type vendorAnswer struct {
	Code      code     `json:"code"`
	Message   lax.Text `json:"message"`
	RequestID lax.Text `json:"request_id"`
	task
	Data lax.Object[task] `json:"data"`
}

// task is a task in the vendor's format.
type task struct {
	TaskID     lax.Word               `json:"task_id"`
	TaskStatus lax.Status             `json:"task_status"`
	StatusText lax.Text               `json:"task_status_msg"`
	Info       lax.Object[taskInfo]   `json:"task_info"`
	CreatedAt  lax.Moment             `json:"created_at"`
	UpdatedAt  lax.Moment             `json:"updated_at"`
	TaskResult lax.Object[taskResult] `json:"task_result"`
	Deduction  deduction              `json:"final_unit_deduction"`
}

type taskInfo struct {
	ExternalTaskID lax.Text `json:"external_task_id"`
}

type taskResult struct {
	Videos lax.List[lax.Object[clip]] `json:"videos"`
}

// clip is one video, without its id and watermark_url, which genbus does not need.
type clip struct {
	URL      lax.Text   `json:"url"`
	Duration lax.Number `json:"duration"`
}

// relayed is a task in a gateway's format, which may include the vendor's fields.
type relayed struct {
	task
	ID         lax.Text            `json:"id"` // lax.Text, because an integer is the gateway's database key
	Status     lax.Status          `json:"status"`
	Progress   lax.Percent         `json:"progress"`
	FailReason lax.Text            `json:"fail_reason"`
	ResultURL  lax.Text            `json:"result_url"`
	URL        lax.Text            `json:"url"`
	Error      lax.Object[problem] `json:"error"`
	Metadata   lax.Object[struct {
		URL lax.Text `json:"url"`
	}] `json:"metadata"`
}

type problem struct {
	Code    lax.Word `json:"code"`
	Message lax.Text `json:"message"`
}

// deduction is the price of a task in units, as raw JSON. The vendor documents a string, but a
// number is accepted too. It is nil if unknown.
type deduction jsontext.Value

func (d *deduction) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*d = nil
	if k := dec.PeekKind(); k != '"' && k != '0' {
		return dec.SkipValue()
	}
	v, err := dec.ReadValue()
	if v.Kind() == '"' {
		v, _ = jsontext.AppendQuote(nil, body.Text(v)) // replaces invalid UTF-8
	}
	*d = deduction(v.Clone())
	return err
}

// form is the form of an answer. The answer's code determines it.
type form int

const (
	// refusal is an answer with any other code.
	refusal form = iota
	// vendorForm is an answer with the code 0.
	vendorForm
	// gatewayForm is an answer with the string code "success".
	gatewayForm
	// bareForm is an answer without a code.
	bareForm
)

type code struct {
	word string // a string's value, or an integer as written
	kind jsontext.Kind
}

func (c *code) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*c = code{kind: dec.PeekKind()}
	if c.kind != '0' {
		return (*lax.Text)(&c.word).UnmarshalJSONFrom(dec)
	}
	v, err := dec.ReadValue()
	c.word = string(v)
	return err
}

func (c code) form() form {
	switch {
	case c.kind == 0, c.kind == 'n':
		return bareForm
	case c.word == "0":
		return vendorForm
	case c.kind == '"' && strings.EqualFold(c.word, "success"):
		return gatewayForm
	default:
		return refusal
	}
}

// taskID returns the ID for polling the task, or "".
func (a *answer) taskID() string {
	t := &a.relayed
	if a.Code.form() != bareForm {
		t = &a.Data.Value.relayed
	}
	return lax.First(lax.Text(t.TaskID), t.ID)
}

// names reports whether the answer has the task's ID, or an envelope of a success around the task.
func (a *answer) names(id string) bool {
	return a.Code.form() != bareForm || slices.Contains([]lax.Text{lax.Text(a.TaskID), a.ID}, lax.Text(id))
}
