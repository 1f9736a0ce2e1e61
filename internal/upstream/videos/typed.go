package videos

import (
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
)

// FromTyped writes the duration as a string, width and height as one size, and the image as
// input_reference. The type of untyped Base64 is detected from its first bytes. fps, seed and n do
// not exist in the protocol but keep their names, for gateways that read them.
func (bodies) FromTyped(v *genbusv1.VideoGeneration) (body.Document, error) {
	var o body.Object
	if v.GetModel() != "" {
		o.SetText("model", v.GetModel())
	}
	if v.GetPrompt() != "" {
		o.SetText("prompt", v.GetPrompt())
	}
	for _, set := range []func(*body.Object, *genbusv1.VideoGeneration) error{setSeconds, setSize, setImage, setNumbers, setMetadata, setExtra} {
		if err := set(&o, v); err != nil {
			return body.Document{}, err
		}
	}
	return o.Document()
}

func setSeconds(o *body.Object, v *genbusv1.VideoGeneration) error {
	if v.Duration == nil {
		return nil
	}
	if math.IsNaN(v.GetDuration()) || math.IsInf(v.GetDuration(), 0) {
		return body.Errorf("video.duration", "is not a finite number")
	}
	o.SetText("seconds", strconv.FormatFloat(v.GetDuration(), 'f', -1, 64))
	return nil
}

func setSize(o *body.Object, v *genbusv1.VideoGeneration) error {
	switch {
	case v.Width == nil && v.Height == nil:
		return nil
	case v.Width == nil:
		return body.Errorf("video.width", "is missing; this protocol takes width and height together")
	case v.Height == nil:
		return body.Errorf("video.height", "is missing; this protocol takes width and height together")
	case v.GetWidth() <= 0:
		return body.Errorf("video.width", "must be an integer above 0")
	case v.GetHeight() <= 0:
		return body.Errorf("video.height", "must be an integer above 0")
	}
	o.SetText("size", fmt.Sprintf("%dx%d", v.GetWidth(), v.GetHeight()))
	return nil
}

func setImage(o *body.Object, v *genbusv1.VideoGeneration) error {
	if v.Image == nil {
		return nil
	}
	image := v.GetImage()
	if !isDataURL(image) && !hasHost(image) {
		media := imageType(image)
		if media == "" {
			return body.Errorf("video.image", "is neither a URL nor the Base64 of a PNG, JPEG, WebP or GIF image")
		}
		image = "data:" + media + ";base64," + image
	}
	var inner body.Object
	inner.SetText("image_url", image)
	o.Set(inputReference, inner.JSON())
	return nil
}

// imageType returns an image's media type from the first bytes of its Base64, or "".
func imageType(encoded string) string {
	const enough = 64 // characters; signatures have at most 12 bytes
	head := encoded[:min(len(encoded), enough)]
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(head, "-_") {
		encoding = base64.RawURLEncoding
	}
	first, err := encoding.DecodeString(strings.TrimRight(head, "="))
	if err != nil {
		return ""
	}
	switch media := http.DetectContentType(first); media {
	case "image/png", "image/jpeg", "image/webp", "image/gif":
		return media
	default:
		return ""
	}
}

func setNumbers(o *body.Object, v *genbusv1.VideoGeneration) error {
	if v.Fps != nil {
		o.SetInt("fps", int64(v.GetFps()))
	}
	if v.Seed != nil {
		o.SetInt("seed", v.GetSeed())
	}
	if v.N != nil {
		o.SetInt("n", int64(v.GetN()))
	}
	return nil
}

func setMetadata(o *body.Object, v *genbusv1.VideoGeneration) error {
	if len(v.GetMetadataJson()) == 0 {
		return nil
	}
	if err := new(body.Object).Add("video.metadata_json", v.GetMetadataJson()); err != nil {
		return err
	}
	o.Set("metadata", v.GetMetadataJson())
	return nil
}

func setExtra(o *body.Object, v *genbusv1.VideoGeneration) error {
	return o.Add("video.extra_json", v.GetExtraJson())
}
