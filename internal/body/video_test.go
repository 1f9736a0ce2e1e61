package body

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

func typedVideo(m *genbusv1.VideoGeneration) *genbusv1.VideoRequest {
	return &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Video{Video: m}}
}

func TestVideo(t *testing.T) {
	t.Parallel()
	full := &genbusv1.VideoGeneration{
		Model: "kling-v1", Prompt: "a <cat>\n", Image: proto.String(""), Duration: proto.Float64(5), Width: proto.Int32(1280),
		Height: proto.Int32(720), Fps: proto.Int32(0), Seed: proto.Int64(math.MinInt64), N: proto.Int32(1),
		MetadataJson: []byte(`{"negative_prompt":"dog", "seed":12345678901234567890}`), ExtraJson: []byte(`{"size":"1280x720","duration_ms":5.50}`),
	}
	fullJSON := `{"model":"kling-v1","prompt":"a <cat>\n","image":"","duration":5,"width":1280,"height":720,"fps":0,` +
		`"seed":-9223372036854775808,"n":1,"metadata":{"negative_prompt":"dog", "seed":12345678901234567890},` +
		`"size":"1280x720","duration_ms":5.50}`
	for name, test := range map[string]struct {
		req  *genbusv1.VideoRequest
		want string
	}{
		"typed": {typedVideo(full), fullJSON},
		"empty": {typedVideo(&genbusv1.VideoGeneration{}), `{}`},
		"raw":   {&genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_RawJson{RawJson: []byte(" {\"a\" : 1.0}\n")}}, " {\"a\" : 1.0}\n"},
	} {
		got, err := videoText(test.req)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: got %s, %v\nwant %s", name, got, err, test.want)
		}
	}
	parsed, err := parseVideo([]byte(fullJSON))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full, parsed, protocmp.Transform()); diff != "" {
		t.Errorf("parsed (-want +got):\n%s", diff)
	}
}

func TestVideoRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		req  *genbusv1.VideoRequest
		want string
	}{
		{nil, "body is missing; set video or raw_json"},
		{&genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Stored{}}, "stored works only in NATS messages; send the request itself"},
		{typedVideo(nil), "video is missing"},
		{&genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_RawJson{}}, "raw_json is empty; it must be JSON"},
		{typedVideo(&genbusv1.VideoGeneration{Duration: proto.Float64(math.Inf(1))}),
			"video.duration is not a finite number, which JSON requires"},
		{typedVideo(&genbusv1.VideoGeneration{MetadataJson: []byte(`[1]`)}), "video.metadata_json is an array; it must be a JSON object"},
		{typedVideo(&genbusv1.VideoGeneration{Prompt: "p", ExtraJson: []byte(`{"prompt":null}`)}),
			`video.extra_json contains "prompt", which is also set as a typed field; set it once`},
		{typedVideo(&genbusv1.VideoGeneration{MetadataJson: []byte(`{}`), ExtraJson: []byte(`{"metadata":{}}`)}),
			`video.extra_json contains "metadata", which is also set as a typed field; set it once`},
	} {
		if _, err := videoText(test.req); err == nil || err.Error() != test.want {
			t.Errorf("\n got %v\nwant %s", err, test.want)
		}
	}
}

func TestParseVideoKeepsWhatIsNotTyped(t *testing.T) {
	t.Parallel()
	got, err := parseVideo([]byte(`{"duration":"5","width":720.5,"metadata":"{}","image":null,"model":"","seed":7,"seconds":"4"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &genbusv1.VideoGeneration{Seed: proto.Int64(7),
		ExtraJson: []byte(`{"duration":"5","width":720.5,"metadata":"{}","image":null,"model":"","seconds":"4"}`)}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
