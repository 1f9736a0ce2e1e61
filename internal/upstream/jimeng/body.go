package jimeng

import (
	"math"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
)

// The vendor counts frames: 24 per second, plus one.
const (
	framesPerSecond = 24
	maxSeconds      = 3600
)

// maxImages is 2, for the first and the last frame.
const maxImages = 2

// rules applies to create bodies. Limits that depend on the model are left to the vendor.
var rules = []body.Rule{
	{Name: "req_key", Required: true, Wrong: body.IsModel},
	{Name: "prompt", Wrong: body.IsString},
	{Name: "seed", Wrong: body.IsInteger},
	{Name: "frames", Wrong: isFrames},
	{Name: "aspect_ratio", Wrong: body.IsString},
	{Name: "image_urls", Wrong: isTexts},
	{Name: "binary_data_base64", Wrong: isBase64Images},
}

type bodies struct{}

func (bodies) ModelMember() string { return "req_key" }

// Check applies the rules and two conditions that involve several members: a prompt is required
// unless there is an image, and there may be at most two images.
func (bodies) Check(d body.Document) []body.Violation {
	found := d.Check(rules)
	images := len(elements(d.Member("image_urls"))) + len(elements(d.Member("binary_data_base64")))
	prompt := d.Member("prompt")
	if images == 0 && (prompt == nil || string(prompt) == "null" || string(prompt) == `""`) {
		found = append(found, body.Violation{Field: "prompt", Description: "is required without image_urls or binary_data_base64"})
	}
	if images > maxImages {
		found = append(found, body.Violation{
			Field:       "image_urls",
			Description: "and binary_data_base64 have " + strconv.Itoa(images) + " images together; the limit is 2, the first and the last frame",
		})
	}
	return found
}

// Ticket returns the req_key, which a query needs in addition to the task's ID.
func (bodies) Ticket(d body.Document) string { return d.Text("req_key") }

func (bodies) Asked(d body.Document) upstream.Asked {
	asked := upstream.Asked{Size: d.Text("aspect_ratio")}
	if frames := d.Member("frames"); frames != nil {
		if seconds, ok := secondsOf(frames); ok {
			asked.Seconds = strconv.Itoa(seconds)
		}
	}
	return asked
}

func isFrames(value []byte) string {
	if _, ok := secondsOf(value); ok {
		return ""
	}
	if wrong := body.IsPositive(value); wrong != "" {
		return wrong
	}
	return "must be 24*s+1 for s whole seconds from 1 to " + strconv.Itoa(maxSeconds) + ", such as 121 for 5 seconds"
}

func secondsOf(frames []byte) (int, bool) {
	n, err := strconv.ParseFloat(string(frames), 64)
	if err != nil || n < framesPerSecond+1 || n > framesPerSecond*maxSeconds+1 || math.Mod(n-1, framesPerSecond) != 0 {
		return 0, false
	}
	return (int(n) - 1) / framesPerSecond, true
}

func isTexts(value []byte) string {
	if wrong := body.IsArray(value); wrong != "" {
		return wrong
	}
	for _, e := range elements(value) {
		if e.Kind() != '"' || len(e) == len(`""`) {
			return "must be an array of strings that are not empty"
		}
	}
	return ""
}

// isBase64Images refuses data URLs, which the vendor would report as broken Base64.
func isBase64Images(value []byte) string {
	if wrong := isTexts(value); wrong != "" {
		return wrong
	}
	for _, e := range elements(value) {
		if hasDataPrefix(string(e[1:min(len(e), 1+len(dataPrefix))])) {
			return "must be Base64 without the prefix \"data:...;base64,\""
		}
	}
	return ""
}

func elements(array []byte) []jsontext.Value {
	var list []jsontext.Value
	if len(array) == 0 || array[0] != '[' || json.Unmarshal(array, &list, jsontext.AllowInvalidUTF8(true)) != nil {
		return nil
	}
	return list
}
