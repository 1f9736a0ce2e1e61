package kling

import (
	"testing"

	"github.com/genbus/genbus/internal/upstream"
)

// TestTheVendorGetsTheJobsID: two tenants that share an account may choose the
// same external_task_id.
func TestTheVendorGetsTheJobsID(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"model_name":"m","external_task_id":"shot-7","x":1}`: `{"model_name":"m","external_task_id":"video_1","x":1}`,
		`{"model_name":"m","external_task_id":""}`:             `{"model_name":"m","external_task_id":""}`,
		`{"model_name":"m","external_task_id":null}`:           `{"model_name":"m","external_task_id":null}`,
		`{"model_name":"m"}`:                                   `{"model_name":"m"}`,
	} {
		got, err := withOwnTaskID(upstream.VideoCreate{JobID: "video_1", Body: []byte(in)})
		if err != nil || string(got) != want {
			t.Errorf("%s became %s, %v", in, got, err)
		}
	}
}

// TestMetadataChoosesNoModel: a gateway lays metadata over the request, and the
// route has chosen the model.
func TestMetadataChoosesNoModel(t *testing.T) {
	t.Parallel()
	got, err := forGateway([]byte(`{"model_name":"cheap","prompt":"p","metadata":{"model_name":"dear","model":"dear","mode":"pro"}}`))
	want := `{"model_name":"cheap","prompt":"p","metadata":{"mode":"pro"},"model":"cheap"}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}
