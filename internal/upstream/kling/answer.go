package kling

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// answer is a 2xx answer to a create or a poll in any of the forms.
type answer struct {
	Code      code                  `json:"code"`
	RequestID lax.Text              `json:"request_id"`
	relayed                         // where the answer is a bare task
	Data      lax.Object[enveloped] `json:"data"`
}

// enveloped is the task in an envelope: the vendor's, or a gateway's around the
// vendor's answer.
type enveloped struct {
	relayed
	Data lax.Object[vendorAnswer] `json:"data"`
}

// vendorAnswer is the vendor's answer as a gateway keeps it: whole, or only the
// task in it.
type vendorAnswer struct {
	Code      code     `json:"code"`
	Message   lax.Text `json:"message"`
	RequestID lax.Text `json:"request_id"`
	task
	Data lax.Object[task] `json:"data"`
}

// task is a task in the vendor's words.
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

// clip is one video. Its id and watermark_url are of no use to genbus.
type clip struct {
	URL      lax.Text   `json:"url"`
	Duration lax.Number `json:"duration"`
}

// relayed is a task in a gateway's words; the vendor's own are read too.
type relayed struct {
	task
	ID         lax.Text            `json:"id"` // an integer is the gateway's database key
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

// deduction is what a task has cost in units, as JSON text: a string as the
// vendor documents it, or a number; nil when not told.
type deduction jsontext.Value

func (d *deduction) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*d = nil
	if k := dec.PeekKind(); k != '"' && k != '0' {
		return dec.SkipValue()
	}
	v, err := dec.ReadValue()
	if v.Kind() == '"' {
		v, _ = jsontext.AppendQuote(nil, body.Text(v)) // replaces what is not UTF-8
	}
	*d = deduction(v.Clone())
	return err
}

// form is the form of an answer, which its code tells.
type form int

const (
	// refusal: any code that is none of those below.
	refusal form = iota
	// vendorForm: the integer 0.
	vendorForm
	// gatewayForm: the string "success".
	gatewayForm
	// bareForm: no code.
	bareForm
)

// code is an answer's code.
type code struct {
	word string // as a string has it, or an integer as written
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
	case c.kind == '0' && c.word == "0":
		return vendorForm
	case c.kind == '"' && strings.EqualFold(c.word, "success"):
		return gatewayForm
	default:
		return refusal
	}
}

// taskID gives the id under which the task is polled, or "".
func (a *answer) taskID() string {
	t := &a.relayed
	if a.Code.form() != bareForm {
		t = &a.Data.Value.relayed
	}
	return lax.First(lax.Text(t.TaskID), t.ID)
}
