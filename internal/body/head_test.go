package body

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHeader(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		body string
		want Head
	}{
		{`{}`, Head{}},
		{`{"messages":[{"model":"no","stream":true}],"model":"m","stream":true,"stream_options":{"a":{},"include_usage":true}}`,
			Head{Model: "m", Stream: true, StreamSet: true, IncludeUsage: true}},
		{`{"stream":false , "m\u006fdel" : "\u0061" }`, Head{Model: "a", StreamSet: true}},
		{`{"stream":null,"model":7,"stream_options":null}`, Head{}},
		{`{"stream":"true","stream_options":{"include_usage":"true"}}`, Head{}},
	} {
		got, err := header([]byte(test.body))
		if err != nil {
			t.Fatalf("%s: %v", test.body, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.body, diff)
		}
	}
	if _, err := header([]byte(`[{"model":"m"}]`)); err == nil {
		t.Error("an array has a head")
	}
}
