package kling

import (
	"math"
	"strconv"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/protocol"
)

// FromTyped converts a typed request to the vendor's members. A field that has no such member is an
// error, so that nothing is dropped silently. The members of metadata_json and extra_json go to the
// top level, because the vendor does not nest parameters. Errors are *body.FieldError.
func (bodies) FromTyped(v *genbusv1.VideoGeneration) (body.Document, error) {
	if err := unsupported(v); err != nil {
		return body.Document{}, err
	}
	var o body.Object
	setText(&o, modelMember, v.GetModel())
	setText(&o, "prompt", v.GetPrompt())
	for _, set := range []func(*body.Object, *genbusv1.VideoGeneration) error{setImage, setDuration, setRatio, setMetadata, setExtra} {
		if err := set(&o, v); err != nil {
			return body.Document{}, err
		}
	}
	return o.Document()
}

func setText(o *body.Object, name, value string) {
	if value != "" {
		o.SetText(name, value)
	}
}

// unsupported refuses fields that the vendor does not have.
func unsupported(v *genbusv1.VideoGeneration) error {
	switch {
	case v.Fps != nil:
		return body.Errorf("video.fps", "is not supported: protocol %s has no frame rate; leave it out", protocol.Kling.Name)
	case v.Seed != nil:
		return body.Errorf("video.seed", "is not supported: protocol %s has no seed; leave it out", protocol.Kling.Name)
	case v.N != nil && v.GetN() != 1:
		return body.Errorf("video.n", "must be 1: protocol %s makes one video for each task", protocol.Kling.Name)
	}
	return nil
}

// setImage sets a URL unchanged, and Base64 data without its data: prefix.
func setImage(o *body.Object, v *genbusv1.VideoGeneration) error {
	image := v.GetImage()
	if hasDataPrefix(image) {
		head, data, found := strings.Cut(image, ",")
		if !found || !strings.HasSuffix(strings.ToLower(head), ";base64") {
			return body.Errorf("video.image", "is a data: URL without Base64; the vendor takes a URL or Base64 data")
		}
		image = data
	}
	setText(o, "image", image)
	return nil
}

// setDuration sets the duration as a string, as the vendor expects.
func setDuration(o *body.Object, v *genbusv1.VideoGeneration) error {
	if v.Duration == nil {
		return nil
	}
	seconds := v.GetDuration()
	if seconds != math.Trunc(seconds) || seconds < minSeconds || seconds > maxSeconds {
		return body.Errorf("video.duration", "must be a whole number of seconds from %d to %d", minSeconds, maxSeconds)
	}
	o.SetText("duration", strconv.Itoa(int(seconds)))
	return nil
}

var ratios = []struct {
	width, height int64
	name          string
}{{16, 9, "16:9"}, {9, 16, "9:16"}, {1, 1, "1:1"}}

// setRatio sets the size as an aspect ratio, because the model determines the pixels.
func setRatio(o *body.Object, v *genbusv1.VideoGeneration) error {
	if v.Width == nil && v.Height == nil {
		return nil
	}
	width, height := int64(v.GetWidth()), int64(v.GetHeight())
	if width <= 0 {
		return body.Errorf("video.width", "must be an integer above 0, as height; the two make the aspect ratio")
	}
	if height <= 0 {
		return body.Errorf("video.height", "must be an integer above 0, as width; the two make the aspect ratio")
	}
	for _, r := range ratios {
		if width*r.height == height*r.width {
			o.SetText("aspect_ratio", r.name)
			return nil
		}
	}
	return body.Errorf("video.width", "and height do not form one of the vendor's aspect ratios 16:9, 9:16 and 1:1")
}

func setMetadata(o *body.Object, v *genbusv1.VideoGeneration) error {
	return o.Add("video.metadata_json", v.GetMetadataJson())
}

func setExtra(o *body.Object, v *genbusv1.VideoGeneration) error {
	return o.Add("video.extra_json", v.GetExtraJson())
}
