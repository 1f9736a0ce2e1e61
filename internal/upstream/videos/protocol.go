package videos

import (
	"fmt"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/protocol"
	"github.com/genbus/genbus/internal/upstream"
)

// Protocol returns the protocol's entry in the registry.
func Protocol() upstream.Protocol {
	return upstream.Protocol{
		Info: protocol.Videos, CreatePath: "POST " + createPath, Bodies: bodies{}, Outcomes: outcomes,
		New: func(ep *upstream.Endpoint, opts upstream.Options) upstream.VideoClient { return newClient(ep, opts) },
	}
}

// bodies handles the create bodies as JSON objects. FromMultipart converts a form to one.
type bodies struct{}

var (
	textRules = append([]body.Rule{modelRule, {Name: "prompt", Required: true, Wrong: body.IsText}}, optionalRules...)
	// imageRules applies to a video that begins with an image. Whether it also needs a prompt
	// depends on the model.
	imageRules = append([]body.Rule{modelRule, {Name: "prompt", Wrong: body.IsString}}, optionalRules...)
)

var modelRule = body.Rule{Name: "model", Required: true, Wrong: body.IsModel}

// optionalRules does not check which durations and sizes a model supports. The upstream does.
var optionalRules = []body.Rule{
	{Name: "seconds", Wrong: body.IsSeconds},
	{Name: "size", Wrong: isSize},
	{Name: inputReference, Wrong: isReference},
	{Name: "metadata", Wrong: body.IsObjectOrText},
}

func (bodies) ModelMember() string { return "model" }

func (bodies) Check(d body.Document) []body.Violation {
	if reference := d.Member(inputReference); reference != nil && string(reference) != "null" {
		return d.Check(imageRules)
	}
	return d.Check(textRules)
}

func (bodies) Asked(d body.Document) upstream.Asked {
	return upstream.Asked{Size: d.Text("size"), Seconds: d.Number("seconds")}
}

// isSize requires "1280x720", "16:9" or another short word, because gateways define their own.
func isSize(value []byte) string {
	const maxSize = 32
	if wrong := body.IsString(value); wrong != "" {
		return wrong
	}
	switch n := len(body.Text(value)); {
	case n == 0:
		return `is empty; omit it, or set it like "1280x720"`
	case n > maxSize:
		return fmt.Sprintf(`has %d bytes; a size such as "1280x720" has at most %d`, n, maxSize)
	}
	return ""
}

// isReference requires a string, or an object with a string in image_url or file_id.
func isReference(value []byte) string {
	if value[0] == '"' {
		return wrongURL(value)
	}
	if value[0] != '{' {
		return `must be a string, or an object with image_url or file_id`
	}
	found, wrong := false, ""
	for name, member := range body.Trusted(value).Members() {
		if name != "image_url" && name != "file_id" || member[0] == 'n' || wrong != "" {
			continue
		}
		found = true
		if wrong = body.IsString(member); wrong == "" {
			wrong = wrongURL(member)
		}
		if wrong != "" {
			wrong = "holds a member " + name + " that " + wrong
		}
	}
	if !found {
		return "contains neither image_url nor file_id; set one of them"
	}
	return wrong
}

// wrongURL describes the problem with a string that may be a data: URL, or returns "".
func wrongURL(quoted []byte) string {
	switch s := body.Text(quoted); {
	case s == "":
		return "is empty; omit it, or fill it in"
	case isDataURL(s):
		return checkDataURL(s)
	default:
		return ""
	}
}
