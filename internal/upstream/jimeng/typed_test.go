package jimeng

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

func p[T any](v T) *T { return &v }

func TestFromTyped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   *genbusv1.VideoGeneration
		want string
	}{
		"text": {
			&genbusv1.VideoGeneration{Model: "jimeng_t2v_v30", Prompt: "a \"cat\"", Duration: p(5.0), Width: p[int32](1920), Height: p[int32](1080), Seed: p[int64](-1), N: p[int32](1)},
			`{"req_key":"jimeng_t2v_v30","prompt":"a \"cat\"","seed":-1,"frames":121,"aspect_ratio":"16:9"}`,
		},
		"nothing":        {&genbusv1.VideoGeneration{}, `{}`},
		"image URL":      {&genbusv1.VideoGeneration{Model: "k", Image: p("HTTPS://i.example.com/a,b.png")}, `{"req_key":"k","image_urls":["HTTPS://i.example.com/a,b.png"]}`},
		"image http":     {&genbusv1.VideoGeneration{Model: "k", Image: p("http://i")}, `{"req_key":"k","image_urls":["http://i"]}`},
		"image data":     {&genbusv1.VideoGeneration{Model: "k", Image: p("data:image/png;base64,AA+/==")}, `{"req_key":"k","binary_data_base64":["AA+/=="]}`},
		"image DATA":     {&genbusv1.VideoGeneration{Model: "k", Image: p("Data:;BASE64,AAAA")}, `{"req_key":"k","binary_data_base64":["AAAA"]}`},
		"image Base64":   {&genbusv1.VideoGeneration{Model: "k", Image: p("httpAAAA")}, `{"req_key":"k","binary_data_base64":["httpAAAA"]}`},
		"upright":        {&genbusv1.VideoGeneration{Width: p[int32](720), Height: p[int32](1280)}, `{"aspect_ratio":"9:16"}`},
		"wide":           {&genbusv1.VideoGeneration{Width: p[int32](2520), Height: p[int32](1080)}, `{"aspect_ratio":"21:9"}`},
		"square":         {&genbusv1.VideoGeneration{Width: p[int32](math.MaxInt32), Height: p[int32](math.MaxInt32)}, `{"aspect_ratio":"1:1"}`},
		"ten seconds":    {&genbusv1.VideoGeneration{Duration: p(10.0)}, `{"frames":241}`},
		"extra objects":  {&genbusv1.VideoGeneration{Model: "k", MetadataJson: []byte(`{"template_id":"t","big":12345678901234567890}`), ExtraJson: []byte(` {"x":null}`)}, `{"req_key":"k","template_id":"t","big":12345678901234567890,"x":null}`},
		"frames by hand": {&genbusv1.VideoGeneration{Model: "k", Prompt: "p", ExtraJson: []byte(`{"frames":121,"aspect_ratio":"4:3"}`)}, `{"req_key":"k","prompt":"p","frames":121,"aspect_ratio":"4:3"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := bodies{}.FromTyped(c.in)
			got := d.Bytes()
			if diff := cmp.Diff(c.want, string(got)); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if !json.Valid(got) {
				t.Errorf("not JSON: %s", got)
			}
		})
	}
}

func TestFromTypedRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in    *genbusv1.VideoGeneration
		field string
	}{
		"nil":                {nil, "video"},
		"half a second":      {&genbusv1.VideoGeneration{Duration: p(5.5)}, "video.duration"},
		"no second":          {&genbusv1.VideoGeneration{Duration: p(0.0)}, "video.duration"},
		"negative":           {&genbusv1.VideoGeneration{Duration: p(-5.0)}, "video.duration"},
		"NaN":                {&genbusv1.VideoGeneration{Duration: p(math.NaN())}, "video.duration"},
		"infinite":           {&genbusv1.VideoGeneration{Duration: p(math.Inf(1))}, "video.duration"},
		"huge":               {&genbusv1.VideoGeneration{Duration: p(1e300)}, "video.duration"},
		"odd ratio":          {&genbusv1.VideoGeneration{Width: p[int32](1000), Height: p[int32](700)}, "video.width"},
		"width alone":        {&genbusv1.VideoGeneration{Width: p[int32](1000)}, "video.width"},
		"height 0":           {&genbusv1.VideoGeneration{Width: p[int32](1000), Height: p[int32](0)}, "video.width"},
		"fps":                {&genbusv1.VideoGeneration{Fps: p[int32](24)}, "video.fps"},
		"two videos":         {&genbusv1.VideoGeneration{N: p[int32](2)}, "video.n"},
		"no video":           {&genbusv1.VideoGeneration{N: p[int32](0)}, "video.n"},
		"image empty":        {&genbusv1.VideoGeneration{Image: p("")}, "video.image"},
		"image path":         {&genbusv1.VideoGeneration{Image: p("file:///etc/passwd")}, "video.image"},
		"image percent":      {&genbusv1.VideoGeneration{Image: p("data:image/svg+xml,%3Csvg%3E")}, "video.image"},
		"image no comma":     {&genbusv1.VideoGeneration{Image: p("data:image/png;base64")}, "video.image"},
		"image no data":      {&genbusv1.VideoGeneration{Image: p("data:image/png;base64,")}, "video.image"},
		"metadata no JSON":   {&genbusv1.VideoGeneration{MetadataJson: []byte(`{`)}, "video.metadata_json"},
		"metadata array":     {&genbusv1.VideoGeneration{MetadataJson: []byte(`[]`)}, "video.metadata_json"},
		"extra text":         {&genbusv1.VideoGeneration{ExtraJson: []byte(`"x"`)}, "video.extra_json"},
		"extra twice":        {&genbusv1.VideoGeneration{ExtraJson: []byte(`{"a":1,"a":2}`)}, "video.extra_json"},
		"extra and typed":    {&genbusv1.VideoGeneration{Prompt: "p", ExtraJson: []byte(`{"prompt":"q"}`)}, "video.extra_json"},
		"metadata and typed": {&genbusv1.VideoGeneration{Duration: p(5.0), MetadataJson: []byte(`{"frames":1}`)}, "video.metadata_json"},
		"extra and metadata": {&genbusv1.VideoGeneration{MetadataJson: []byte(`{"x":1}`), ExtraJson: []byte(`{"x":1}`)}, "video.extra_json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := bodies{}.FromTyped(c.in)
			f, ok := errors.AsType[*body.FieldError](err)
			if !ok || f.Field != c.field || f.Description == "" {
				t.Errorf("got %s, %v, want an error about %s", got.Bytes(), err, c.field)
			}
		})
	}
}

// TestFromTypedPassesCheck checks that the body of a complete typed request passes Check.
func TestFromTypedPassesCheck(t *testing.T) {
	t.Parallel()
	d, err := bodies{}.FromTyped(&genbusv1.VideoGeneration{Model: "k", Prompt: "p", Duration: p(3600.0), Image: p("AAAA"), Width: p[int32](4), Height: p[int32](3)})
	if found := upstreamtest.Violations(bodies{}, d.Bytes()); err != nil || len(found) > 0 {
		t.Errorf("%s: %v, %v", d.Bytes(), err, found)
	}
}
