package jimeng

import (
	"math"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
)

const dataPrefix = "data:"

var ratios = []struct {
	name          string
	width, height int64
}{
	{"16:9", 16, 9}, {"4:3", 4, 3}, {"1:1", 1, 1}, {"3:4", 3, 4}, {"9:16", 9, 16}, {"21:9", 21, 9},
}

// FromTyped returns the body for a typed request. A field that the protocol cannot express is an
// error rather than being dropped, because a paid video that differs from the request is useless.
// The members of metadata_json and extra_json go to the top level.
func (bodies) FromTyped(v *genbusv1.VideoGeneration) (body.Document, error) {
	if v == nil {
		return body.Document{}, body.Errorf("video", "is missing")
	}
	o := new(body.Object)
	if v.GetModel() != "" {
		o.SetText("req_key", v.GetModel())
	}
	if v.GetPrompt() != "" {
		o.SetText("prompt", v.GetPrompt())
	}
	if v.Seed != nil {
		o.SetInt("seed", v.GetSeed())
	}
	for _, set := range []func(*body.Object, *genbusv1.VideoGeneration) error{setImage, setFrames, setRatio, refuseOthers, setExtra} {
		if err := set(o, v); err != nil {
			return body.Document{}, err
		}
	}
	return o.Document()
}

// setImage sets an image given as a URL or as Base64. The vendor has separate members for the two,
// and expects Base64 without the prefix of a data: URL.
func setImage(o *body.Object, v *genbusv1.VideoGeneration) error {
	if v.Image == nil {
		return nil
	}
	image := v.GetImage()
	if isWebURL(image) {
		o.Set("image_urls", list(image))
		return nil
	}
	if hasDataPrefix(image) {
		head, data, ok := strings.Cut(image, ",")
		if !ok || !strings.HasSuffix(strings.ToLower(head), ";base64") {
			return body.Errorf("video.image", "is a data URL without Base64; send data:<media type>;base64,<data>")
		}
		image = data
	}
	if image == "" || strings.ContainsFunc(image, notBase64) {
		return body.Errorf("video.image", "is neither an http or https URL nor Base64")
	}
	o.Set("binary_data_base64", list(image))
	return nil
}

func isWebURL(s string) bool {
	s = strings.ToLower(s[:min(len(s), len("https://"))])
	return strings.HasPrefix(s, "http://") || s == "https://"
}

func hasDataPrefix(s string) bool {
	return len(s) >= len(dataPrefix) && strings.EqualFold(s[:len(dataPrefix)], dataPrefix)
}

func notBase64(r rune) bool {
	return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '+' && r != '/' && r != '='
}

func list(text string) []byte {
	quoted, _ := jsontext.AppendQuote([]byte{'['}, text) // the only possible error is invalid UTF-8, which is replaced
	return append(quoted, ']')
}

func setFrames(o *body.Object, v *genbusv1.VideoGeneration) error {
	if v.Duration == nil {
		return nil
	}
	seconds := v.GetDuration()
	if !(seconds >= 1 && seconds <= maxSeconds) || seconds != math.Trunc(seconds) {
		return body.Errorf("video.duration", "must be a whole number of seconds above 0; this protocol takes no fractions")
	}
	o.SetInt("frames", framesPerSecond*int64(seconds)+1)
	return nil
}

func setRatio(o *body.Object, v *genbusv1.VideoGeneration) error {
	if v.Width == nil && v.Height == nil {
		return nil
	}
	width, height := int64(v.GetWidth()), int64(v.GetHeight())
	if width <= 0 || height <= 0 {
		return body.Errorf("video.width", "and height must both be given, each above 0")
	}
	for _, r := range ratios {
		if width*r.height == height*r.width {
			o.SetText("aspect_ratio", r.name)
			return nil
		}
	}
	return body.Errorf("video.width", "and height must be in one of the ratios 16:9, 4:3, 1:1, 3:4, 9:16 and 21:9; this protocol takes no others")
}

func refuseOthers(_ *body.Object, v *genbusv1.VideoGeneration) error {
	if v.Fps != nil {
		return body.Errorf("video.fps", "cannot be chosen in this protocol; leave it out")
	}
	if v.N != nil && v.GetN() != 1 {
		return body.Errorf("video.n", "must be 1 or left out; a task of this protocol makes one video")
	}
	return nil
}

func setExtra(o *body.Object, v *genbusv1.VideoGeneration) error {
	if err := o.Add("video.metadata_json", v.GetMetadataJson()); err != nil {
		return err
	}
	return o.Add("video.extra_json", v.GetExtraJson())
}
