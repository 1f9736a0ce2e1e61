package kling

import (
	"errors"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

func TestFromTyped(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		typed *genbusv1.VideoGeneration
		want  string
	}{
		"nothing": {&genbusv1.VideoGeneration{}, `{}`},
		"text":    {&genbusv1.VideoGeneration{Model: "m", Prompt: "p\xff"}, `{"model_name":"m","prompt":"p�"}`},
		"everything": {&genbusv1.VideoGeneration{
			Model: "m", Prompt: "p", Image: proto.String("https://example.com/a.png"), Duration: proto.Float64(10), Width: proto.Int32(1920), Height: proto.Int32(1080),
			N: proto.Int32(1), MetadataJson: []byte(`{"negative_prompt":"n", "cfg_scale":0.50}`), ExtraJson: []byte(`{"mode":"pro","big":12345678901234567890}`),
		}, `{"model_name":"m","prompt":"p","image":"https://example.com/a.png","duration":"10","aspect_ratio":"16:9","negative_prompt":"n","cfg_scale":0.50,"mode":"pro","big":12345678901234567890}`},
		"data URL":    {&genbusv1.VideoGeneration{Image: proto.String("data:image/png;base64,aGk=")}, `{"image":"aGk="}`},
		"DATA URL":    {&genbusv1.VideoGeneration{Image: proto.String("DATA:;BASE64,aGk=")}, `{"image":"aGk="}`},
		"Base64":      {&genbusv1.VideoGeneration{Image: proto.String("aGk=")}, `{"image":"aGk="}`},
		"no image":    {&genbusv1.VideoGeneration{Image: proto.String("")}, `{}`},
		"portrait":    {&genbusv1.VideoGeneration{Width: proto.Int32(720), Height: proto.Int32(1280)}, `{"aspect_ratio":"9:16"}`},
		"square":      {&genbusv1.VideoGeneration{Width: proto.Int32(math.MaxInt32), Height: proto.Int32(math.MaxInt32)}, `{"aspect_ratio":"1:1"}`},
		"extra model": {&genbusv1.VideoGeneration{ExtraJson: []byte(`{"model_name":"m"}`)}, `{"model_name":"m"}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := bodies{}.FromTyped(c.typed)
			if got := d.Bytes(); err != nil || string(got) != c.want || body.Parse(got).Err() != nil {
				t.Errorf("FromTyped = %s, %v\n      want %s", got, err, c.want)
			}
		})
	}
}

func TestFromTypedRefuses(t *testing.T) {
	t.Parallel()
	cases := []struct {
		typed *genbusv1.VideoGeneration
		want  string
	}{
		{&genbusv1.VideoGeneration{Fps: proto.Int32(24)}, "video.fps is not supported: protocol kling has no frame rate; leave it out"},
		{&genbusv1.VideoGeneration{Seed: proto.Int64(0)}, "video.seed is not supported: protocol kling has no seed; leave it out"},
		{&genbusv1.VideoGeneration{N: proto.Int32(2)}, "video.n must be 1: protocol kling makes one video for each task"},
		{&genbusv1.VideoGeneration{N: proto.Int32(0)}, "video.n must be 1: protocol kling makes one video for each task"},
		{&genbusv1.VideoGeneration{Duration: proto.Float64(5.5)}, "video.duration must be a whole number of seconds from 3 to 15"},
		{&genbusv1.VideoGeneration{Duration: proto.Float64(16)}, "video.duration must be a whole number of seconds from 3 to 15"},
		{&genbusv1.VideoGeneration{Duration: proto.Float64(math.NaN())}, "video.duration must be a whole number of seconds from 3 to 15"},
		{&genbusv1.VideoGeneration{Duration: proto.Float64(math.Inf(1))}, "video.duration must be a whole number of seconds from 3 to 15"},
		{&genbusv1.VideoGeneration{Width: proto.Int32(1920)}, "video.height must be an integer above 0, as width; the two make the aspect ratio"},
		{&genbusv1.VideoGeneration{Height: proto.Int32(1920)}, "video.width must be an integer above 0, as height; the two make the aspect ratio"},
		{&genbusv1.VideoGeneration{Width: proto.Int32(-16), Height: proto.Int32(-9)}, "video.width must be an integer above 0, as height; the two make the aspect ratio"},
		{&genbusv1.VideoGeneration{Width: proto.Int32(640), Height: proto.Int32(480)}, "video.width and height do not form one of the vendor's aspect ratios 16:9, 9:16 and 1:1"},
		{&genbusv1.VideoGeneration{Image: proto.String("data:text/plain,hi")}, "video.image is a data: URL without Base64; the vendor takes a URL or Base64 data"},
		{&genbusv1.VideoGeneration{Image: proto.String("data:")}, "video.image is a data: URL without Base64; the vendor takes a URL or Base64 data"},
		{&genbusv1.VideoGeneration{MetadataJson: []byte(`[1]`)}, "video.metadata_json is an array; it must be a JSON object"},
		{&genbusv1.VideoGeneration{ExtraJson: []byte(`{"a`)}, "video.extra_json is not valid JSON: it ends too early"},
		{&genbusv1.VideoGeneration{Prompt: "p", MetadataJson: []byte(`{"prompt":"q"}`)}, `video.metadata_json contains "prompt", which is also set elsewhere in the request; set it once`},
		{&genbusv1.VideoGeneration{Duration: proto.Float64(5), ExtraJson: []byte(`{"duration":"5"}`)}, `video.extra_json contains "duration", which is also set elsewhere in the request; set it once`},
		{&genbusv1.VideoGeneration{MetadataJson: []byte(`{"mode":"std"}`), ExtraJson: []byte(`{"mode":"pro"}`)}, `video.extra_json contains "mode", which is also set elsewhere in the request; set it once`},
	}
	for _, c := range cases {
		t.Run(c.want, func(t *testing.T) {
			t.Parallel()
			got, err := bodies{}.FromTyped(c.typed)
			e, ok := errors.AsType[*body.FieldError](err)
			if !ok || e.Error() != c.want {
				t.Errorf("FromTyped = %s, %v", got.Bytes(), err)
			}
		})
	}
}

// TestFromTypedPasses checks that the body of a complete typed request passes Check.
func TestFromTypedPasses(t *testing.T) {
	t.Parallel()
	d, err := bodies{}.FromTyped(&genbusv1.VideoGeneration{
		Model: "m", Prompt: "p", Image: proto.String("data:image/png;base64,aGk="), Duration: proto.Float64(5), Width: proto.Int32(1024), Height: proto.Int32(1024),
	})
	if err != nil || upstreamtest.Violations(bodies{}, d.Bytes()) != nil || kindOf(d) != imageToVideo {
		t.Errorf("%s: %v, %v", d.Bytes(), err, upstreamtest.Violations(bodies{}, d.Bytes()))
	}
}
