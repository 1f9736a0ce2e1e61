package primary

import (
	"cmp"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/protocol"
	"github.com/genbus/genbus/internal/upstream"
)

// Protocol returns the protocol's entry in the registry.
func Protocol() upstream.Protocol {
	return upstream.Protocol{
		Info: protocol.Primary, CreatePath: "POST /v1/video/generations", Bodies: bodies{}, Outcomes: outcomes,
		New: func(ep *upstream.Endpoint, _ upstream.Options) upstream.VideoClient { return &client{ep: ep} },
	}
}

type bodies struct{}

var rules = []body.Rule{
	{Name: "model", Required: true, Wrong: body.IsModel},
	{Name: "prompt", Wrong: body.IsString},
	{Name: "image", Wrong: body.IsString},
	{Name: "duration", Wrong: body.IsSeconds},
	{Name: "width", Wrong: body.IsPositive},
	{Name: "height", Wrong: body.IsPositive},
	{Name: "fps", Wrong: body.IsPositive},
	{Name: "seed", Wrong: body.IsInteger},
	{Name: "n", Wrong: body.IsChoices},
	{Name: "metadata", Wrong: body.IsObjectOrText},
}

func (bodies) ModelMember() string { return "model" }

func (bodies) Check(d body.Document) []body.Violation { return d.Check(rules) }

func (bodies) FromTyped(v *genbusv1.VideoGeneration) (body.Document, error) {
	return body.Video(&genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Video{Video: v}})
}

func (bodies) Asked(d body.Document) upstream.Asked {
	asked := upstream.Asked{Size: d.Text("size"), Seconds: cmp.Or(d.Number("duration"), d.Number("seconds"))}
	width, height := d.Number("width"), d.Number("height")
	if asked.Size == "" && width != "" && height != "" {
		asked.Size = width + "x" + height
	}
	return asked
}
