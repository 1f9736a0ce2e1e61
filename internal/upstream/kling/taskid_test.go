package kling

import (
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
)

// TestTheVendorGetsAnIDOfOurs checks that external_task_id is always genbus's ID, because two
// tenants that share an account may choose the same one.
func TestTheVendorGetsAnIDOfOurs(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"model_name":"m","external_task_id":"shot-7","x":1}`: `{"model_name":"m","external_task_id":"video_1-abc","x":1}`,
		`{"model_name":"m","external_task_id":null}`:           `{"model_name":"m","external_task_id":"video_1-abc"}`,
		`{"model_name":"m"}`:                                   `{"model_name":"m","external_task_id":"video_1-abc"}`,
	} {
		got := withOwnTaskID(upstream.VideoCreate{JobID: "video_1", OwnID: "video_1-abc", Body: body.Parse([]byte(in))})
		if got.Err() != nil || string(got.Bytes()) != want {
			t.Errorf("%s became %s, %v", in, got.Bytes(), got.Err())
		}
	}
}

// TestMetadataChoosesNoModel checks that metadata cannot change the model that the route chose,
// because a gateway applies metadata on top of the request.
func TestMetadataChoosesNoModel(t *testing.T) {
	t.Parallel()
	got, err := forGateway(body.Parse([]byte(`{"model_name":"cheap","prompt":"p","metadata":{"model_name":"dear","model":"dear","mode":"pro"}}`)))
	want := `{"model_name":"cheap","prompt":"p","metadata":{"mode":"pro"},"model":"cheap"}`
	if err != nil || string(got.Bytes()) != want {
		t.Errorf("%s, %v", got.Bytes(), err)
	}
}

// BenchmarkRequest converts a body of 100 KB for a gateway.
func BenchmarkRequest(b *testing.B) {
	raw := []byte(`{"model_name":"m","prompt":"p","external_task_id":"shot-7","metadata":{"mode":"pro"},"negative_prompt":"` + strings.Repeat("a word ", 100<<10/7) + `"}`)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := forGateway(withOwnTaskID(upstream.VideoCreate{JobID: "video_1", Body: body.Trusted(raw)})); err != nil {
			b.Fatal(err)
		}
	}
}
