package kling

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
)

const (
	modelMember     = "model_name"
	externalMember  = "external_task_id"
	deductionMember = "final_unit_deduction"
)

// maxExternalID is the maximum length in bytes of an external_task_id, which becomes part of an
// idempotency key.
const maxExternalID = 128

// The range of video lengths across all of the vendor's models, in seconds.
const minSeconds, maxSeconds = 3, 15

type bodies struct{}

// ModelMember returns model_name. The vendor ignores a member named "model".
func (bodies) ModelMember() string { return modelMember }

// modelRule requires the model because routing needs it, although the vendor has a default.
var modelRule = body.Rule{Name: modelMember, Required: true, Wrong: body.IsModel}

var optionalRules = []body.Rule{
	{Name: "image", Wrong: isImage},
	{Name: "image_tail", Wrong: isImage},
	{Name: "duration", Wrong: isDuration},
	{Name: "cfg_scale", Wrong: isScale},
	{Name: "mode", Wrong: body.IsString},
	{Name: "aspect_ratio", Wrong: body.IsString},
	{Name: externalMember, Wrong: isExternalID},
	{Name: "callback_url", Wrong: isNoCallback},
}

var (
	wordyRules = append([]body.Rule{modelRule, {Name: "prompt", Required: true, Wrong: body.IsText}}, optionalRules...)
	// mutedRules applies if an image or a list of shots makes the prompt optional.
	mutedRules = append([]body.Rule{modelRule, {Name: "prompt", Wrong: body.IsString}}, optionalRules...)
)

// Check refuses bodies for other kinds of tasks, and checks the members whose format the vendor
// fixes. The other members depend on the model and are left to the vendor.
func (bodies) Check(d body.Document) []body.Violation {
	if member, wrong := notServed(d); member != "" {
		return []body.Violation{{Field: member, Description: wrong}}
	}
	if kindOf(d) == imageToVideo || jsontext.Value(d.Member("multi_prompt")).Kind() == '[' {
		return d.Check(mutedRules)
	}
	return d.Check(wordyRules)
}

// Ticket returns the path segment below which the task is read.
func (bodies) Ticket(d body.Document) string { return kindOf(d) }

func (bodies) Asked(d body.Document) upstream.Asked {
	return upstream.Asked{Size: d.Text("aspect_ratio"), Seconds: d.Number("duration")}
}

// isImage requires a URL or Base64. It examines only the beginning, because images may be several
// megabytes long.
func isImage(value []byte) string {
	if wrong := body.IsString(value); wrong != "" {
		return wrong
	}
	if hasDataPrefix(string(value[1:min(len(value), 1+len(dataPrefix))])) {
		return `has a "data:" prefix; the vendor takes a URL or plain Base64`
	}
	return ""
}

const dataPrefix = "data:"

func hasDataPrefix(image string) bool {
	return len(image) >= len(dataPrefix) && strings.EqualFold(image[:len(dataPrefix)], dataPrefix)
}

func isDuration(value []byte) string {
	form := fmt.Sprintf(` with a whole number of seconds from %d to %d, such as "5"`, minSeconds, maxSeconds)
	if wrong := body.IsString(value); wrong != "" {
		return wrong + form
	}
	text := body.Text(value)
	if n, err := strconv.Atoi(text); err != nil || strconv.Itoa(n) != text || n < minSeconds || n > maxSeconds {
		return "must be a string" + form
	}
	return ""
}

func isScale(value []byte) string {
	if wrong := body.IsNumber(value); wrong != "" {
		return wrong
	}
	if v, err := strconv.ParseFloat(string(value), 64); err != nil || v < 0 || v > 1 {
		return "must be a number from 0 to 1"
	}
	return ""
}

func isExternalID(value []byte) string {
	if wrong := body.IsString(value); wrong != "" {
		return wrong
	}
	if id := body.Text(value); id != "" && !isKey(id) {
		return fmt.Sprintf("must be 1 to %d printable ASCII characters without spaces", maxExternalID)
	}
	return ""
}

// isKey reports whether an external_task_id can be part of an idempotency key.
func isKey(id string) bool {
	isGap := func(r rune) bool { return r <= ' ' || r > '~' }
	return id != "" && len(id) <= maxExternalID && !strings.ContainsFunc(id, isGap)
}

func isNoCallback(value []byte) string {
	if string(value) == `""` {
		return ""
	}
	return "is not supported: genbus publishes every change as an event instead; leave it out"
}
