package videos

import (
	"encoding/base64"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

func TestProtocol(t *testing.T) {
	t.Parallel()
	p := Protocol()
	if p.Name != "videos" || p.CreatePath != "POST /v1/videos" || p.Surface != nil || p.Sign != nil || p.Bodies.ModelMember() != "model" {
		t.Errorf("protocol = %+v", p)
	}
	made := p.New(&upstream.Endpoint{Name: "test"}, upstream.Options{Gateway: true})
	if c, ok := made.(*client); !ok || !c.opts.Gateway {
		t.Errorf("client = %+v", made)
	}
	if path := made.(upstream.ContentPather).ContentPath(upstream.TaskRef{ID: "v"}); path != "/v1/videos/v/content" {
		t.Errorf("content path = %s", path)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]body.Violation{
		`{"model":"m","prompt":"p"}`: nil,
		`{"model":"m","prompt":"p","seconds":"4","size":"1280x720","input_reference":"https://e.com/a.png","metadata":{},"n":"x","new":[]}`: nil,
		`{"model":"m","prompt":"p","seconds":5.5,"size":"16:9","input_reference":{"image_url":"https://e.com/a.png"},"metadata":"{}"}`:      nil,
		`{"model":"m","prompt":"p","seconds":null,"size":null,"input_reference":null,"metadata":null}`:                                      nil,
		`{"model":"m","input_reference":{"file_id":"file-1"}}`:                                                                              nil,
		`{"model":"m","input_reference":"https://e.com/a.png","prompt":""}`:                                                                 nil,
		`{"model":"m","input_reference":"https://e.com/a.png","prompt":null}`:                                                               nil,
		`{"model":"m","input_reference":null}`:                                                                                              {{Field: "prompt", Description: "is required"}},
		`{"model":"m","input_reference":"https://e.com/a.png","prompt":7}`:                                                                  {{Field: "prompt", Description: "is a number; it must be a string"}},
		`{"model":"m","prompt":"p","input_reference":{"file_id":"file-1","image_url":null}}`:                                                nil,
		`{"model":"m","prompt":"p","input_reference":"data:image/png;base64,aGVsbG8="}`:                                                     nil,
		`{}`: {{Field: "model", Description: "is required"}, {Field: "prompt", Description: "is required"}},
		`{"model":"m","prompt":"","seconds":"soon","size":"","metadata":[]}`: {
			{Field: "prompt", Description: "is empty; it is required"},
			{Field: "seconds", Description: "is not a numeric string; it must be a number above 0, in seconds"},
			{Field: "size", Description: `is empty; omit it, or set it like "1280x720"`},
			{Field: "metadata", Description: "is an array; it must be an object"},
		},
		`{"model":"m","prompt":"p","seconds":0,"size":"` + strings.Repeat("x", 33) + `","input_reference":7}`: {
			{Field: "seconds", Description: "must be a number above 0, in seconds"},
			{Field: "size", Description: `has 33 bytes; a size such as "1280x720" has at most 32`},
			{Field: "input_reference", Description: "must be a string, or an object with image_url or file_id"},
		},
		`{"model":"m","prompt":"p","size":1280,"input_reference":""}`: {
			{Field: "size", Description: "is a number; it must be a string"},
			{Field: "input_reference", Description: "is empty; omit it, or fill it in"},
		},
		`{"model":"m","prompt":"p","input_reference":{"url":"https://e.com/a.png"}}`: {
			{Field: "input_reference", Description: "contains neither image_url nor file_id; set one of them"},
		},
		`{"model":"m","prompt":"p","input_reference":{"image_url":["https://e.com/a.png"],"file_id":"file-1"}}`: {
			{Field: "input_reference", Description: "holds a member image_url that is an array; it must be a string"},
		},
		`{"model":"m","prompt":"p","input_reference":{"file_id":""}}`: {
			{Field: "input_reference", Description: "holds a member file_id that is empty; omit it, or fill it in"},
		},
		`{"model":"m","prompt":"p","input_reference":{"image_url":"data:image/png;base64,*"}}`: {
			{Field: "input_reference", Description: "holds a member image_url that is a data: URL without valid Base64"},
		},
		`[]`: {{Description: "is an array; it must be a JSON object"}},
	} {
		if diff := cmp.Diff(want, upstreamtest.Violations(bodies{}, []byte(in))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", in, diff)
		}
	}
}

func TestAsked(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]upstream.Asked{
		`{"size":"1280x720","seconds":"5"}`: {Size: "1280x720", Seconds: "5"},
		`{"size":"16:9","seconds":5.5}`:     {Size: "16:9", Seconds: "5.5"},
		`{"size":7,"seconds":[]}`:           {},
		`{}`:                                {},
	} {
		if got := (bodies{}).Asked(body.Parse([]byte(in))); got != want {
			t.Errorf("%s: asked = %+v, want %+v", in, got, want)
		}
	}
}

func TestFromTyped(t *testing.T) {
	t.Parallel()
	png := base64.StdEncoding.EncodeToString(append([]byte("\x89PNG\x0D\x0A\x1A\x0A"), make([]byte, 100)...))
	for name, test := range map[string]struct {
		in   *genbusv1.VideoGeneration
		want string
	}{
		"empty": {&genbusv1.VideoGeneration{}, `{}`},
		"full": {
			&genbusv1.VideoGeneration{
				Model: "sora-2", Prompt: "a <cat>\n", Image: proto.String("https://e.com/a.png"), Duration: proto.Float64(5.5), Width: proto.Int32(1280),
				Height: proto.Int32(720), Fps: proto.Int32(30), Seed: proto.Int64(math.MinInt64), N: proto.Int32(1),
				MetadataJson: []byte(`{"negative_prompt":"dog", "seed":12345678901234567890}`), ExtraJson: []byte(`{"quality":"hd","x":[5.50]}`),
			},
			`{"model":"sora-2","prompt":"a <cat>\n","seconds":"5.5","size":"1280x720","input_reference":{"image_url":"https://e.com/a.png"},` +
				`"fps":30,"seed":-9223372036854775808,"n":1,"metadata":{"negative_prompt":"dog", "seed":12345678901234567890},` +
				`"quality":"hd","x":[5.50]}`,
		},
		"whole seconds": {&genbusv1.VideoGeneration{Duration: proto.Float64(5)}, `{"seconds":"5"}`},
		"data URL":      {&genbusv1.VideoGeneration{Image: proto.String("data:image/png;base64,aGVsbG8=")}, `{"input_reference":{"image_url":"data:image/png;base64,aGVsbG8="}}`},
		"PNG":           {&genbusv1.VideoGeneration{Image: proto.String(png)}, `{"input_reference":{"image_url":"data:image/png;base64,` + png + `"}}`},
		"JPEG":          {&genbusv1.VideoGeneration{Image: proto.String("/9j/4AAQ")}, `{"input_reference":{"image_url":"data:image/jpeg;base64,/9j/4AAQ"}}`},
		"JPEG for URLs": {&genbusv1.VideoGeneration{Image: proto.String("_9j_4AAQ")}, `{"input_reference":{"image_url":"data:image/jpeg;base64,_9j_4AAQ"}}`},
		"WebP":          {&genbusv1.VideoGeneration{Image: proto.String("UklGRgAAAABXRUJQVlA4IA==")}, `{"input_reference":{"image_url":"data:image/webp;base64,UklGRgAAAABXRUJQVlA4IA=="}}`},
		"typed elsewhere": {&genbusv1.VideoGeneration{ExtraJson: []byte(`{"seconds":4,"size":"720x1280","input_reference":{"file_id":"file-1"},"metadata":{}}`)},
			`{"seconds":4,"size":"720x1280","input_reference":{"file_id":"file-1"},"metadata":{}}`},
	} {
		d, err := (bodies{}).FromTyped(test.in)
		if got := d.Bytes(); err != nil || string(got) != test.want || body.Parse(got).Err() != nil {
			t.Errorf("%s: got %s, %v\nwant %s", name, got, err, test.want)
		}
	}
}

func TestFromTypedRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in   *genbusv1.VideoGeneration
		want string
	}{
		{&genbusv1.VideoGeneration{Duration: proto.Float64(math.Inf(1))}, "video.duration is not a finite number"},
		{&genbusv1.VideoGeneration{Duration: proto.Float64(math.NaN())}, "video.duration is not a finite number"},
		{&genbusv1.VideoGeneration{Width: proto.Int32(1)}, "video.height is missing; this protocol takes width and height together"},
		{&genbusv1.VideoGeneration{Height: proto.Int32(1)}, "video.width is missing; this protocol takes width and height together"},
		{&genbusv1.VideoGeneration{Width: proto.Int32(0), Height: proto.Int32(1)}, "video.width must be an integer above 0"},
		{&genbusv1.VideoGeneration{Width: proto.Int32(1), Height: proto.Int32(-1)}, "video.height must be an integer above 0"},
		{&genbusv1.VideoGeneration{Image: proto.String("aGVsbG8=")}, "video.image is neither a URL nor the Base64 of a PNG, JPEG, WebP or GIF image"},
		{&genbusv1.VideoGeneration{Image: proto.String("")}, "video.image is neither a URL nor the Base64 of a PNG, JPEG, WebP or GIF image"},
		{&genbusv1.VideoGeneration{Image: proto.String("a.png")}, "video.image is neither a URL nor the Base64 of a PNG, JPEG, WebP or GIF image"},
		{&genbusv1.VideoGeneration{MetadataJson: []byte(`[1]`)}, "video.metadata_json is an array; it must be a JSON object"},
		{&genbusv1.VideoGeneration{ExtraJson: []byte(`{`)}, "video.extra_json is not valid JSON: it ends too early"},
		{&genbusv1.VideoGeneration{Prompt: "p", ExtraJson: []byte(`{"prompt":null}`)},
			`video.extra_json contains "prompt", which is also set elsewhere in the request; set it once`},
		{&genbusv1.VideoGeneration{Duration: proto.Float64(5), ExtraJson: []byte(`{"seconds":"5"}`)},
			`video.extra_json contains "seconds", which is also set elsewhere in the request; set it once`},
		{&genbusv1.VideoGeneration{MetadataJson: []byte(`{}`), ExtraJson: []byte(`{"metadata":{}}`)},
			`video.extra_json contains "metadata", which is also set elsewhere in the request; set it once`},
	} {
		_, err := (bodies{}).FromTyped(test.in)
		if _, ok := errors.AsType[*body.FieldError](err); !ok || err.Error() != test.want {
			t.Errorf("\n got %v\nwant %s", err, test.want)
		}
	}
}
