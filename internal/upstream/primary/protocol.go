package primary

import (
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
)

// Name is the protocol's name.
const Name = "primary"

// Protocol is the protocol's entry in the registry.
func Protocol() upstream.Protocol {
	return upstream.Protocol{
		Name: Name, CreatePath: "POST /v1/video/generations", Bodies: bodies{},
		New: func(ep *upstream.Endpoint, _ upstream.Options) upstream.VideoClient { return &client{ep: ep} },
	}
}

// bodies are the create bodies of the interface document.
type bodies struct{}

func (bodies) ModelMember() string { return "model" }

func (bodies) Check(raw []byte) []body.Violation { return body.CheckVideo(raw) }

func (bodies) SetModel(raw []byte, model string) ([]byte, error) { return body.SetModel(raw, model) }

func (bodies) FromTyped(v *genbusv1.VideoGeneration) ([]byte, error) {
	return body.Video(&genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Video{Video: v}})
}

func (bodies) Asked(raw []byte) upstream.Asked {
	asked := upstream.Asked{Size: body.MemberText(raw, "size"), Seconds: body.NumberText(raw, "duration")}
	if asked.Seconds == "" {
		asked.Seconds = body.NumberText(raw, "seconds")
	}
	width, height := body.NumberText(raw, "width"), body.NumberText(raw, "height")
	if asked.Size == "" && width != "" && height != "" {
		asked.Size = width + "x" + height
	}
	return asked
}
