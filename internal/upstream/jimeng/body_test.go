package jimeng

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for raw, fields := range map[string]string{
		`{"req_key":"k","prompt":"p"}`: "",
		`{"req_key":"k","prompt":"p","seed":-1,"frames":121,"aspect_ratio":"16:9","template_id":"hitchcock_dolly_in","camera_strength":"weak"}`: "",
		`{"req_key":"k","image_urls":["https://i.example.com/a.png"]}`:                                                                          "",
		`{"req_key":"k","prompt":"","binary_data_base64":["AAAA","BBBB"]}`:                                                                      "",
		`{"req_key":"k","prompt":null,"image_urls":null,"binary_data_base64":["AAAA"]}`:                                                         "",
		`{"req_key":"k","prompt":"p","frames":25}`:                                                                                              "",
		`{"req_key":"k","prompt":"p","frames":241.0}`:                                                                                           "",
		`{"req_key":"k","prompt":"p","seed":12345678901234567890}`:                                                                              "",

		``:                            "-",
		`[]`:                          "-",
		`{"req_key":"k"`:              "-",
		`{"req_key":1,"req_key":2}`:   "-",
		`{}`:                          "req_key prompt",
		`{"req_key":7,"prompt":7}`:    "req_key prompt",
		`{"model":"k","prompt":"p"}`:  "req_key",
		`{"req_key":"k"}`:             "prompt",
		`{"req_key":"k","prompt":""}`: "prompt",
		`{"req_key":"k","prompt":null,"image_urls":[]}`:                        "prompt",
		`{"req_key":"k","prompt":"p","seed":1.5}`:                              "seed",
		`{"req_key":"k","prompt":"p","seed":"1"}`:                              "seed",
		`{"req_key":"k","prompt":"p","frames":120}`:                            "frames",
		`{"req_key":"k","prompt":"p","frames":1}`:                              "frames",
		`{"req_key":"k","prompt":"p","frames":0}`:                              "frames",
		`{"req_key":"k","prompt":"p","frames":-23}`:                            "frames",
		`{"req_key":"k","prompt":"p","frames":121.5}`:                          "frames",
		`{"req_key":"k","prompt":"p","frames":1e300}`:                          "frames",
		`{"req_key":"k","prompt":"p","frames":"121"}`:                          "frames",
		`{"req_key":"k","prompt":"p","aspect_ratio":1}`:                        "aspect_ratio",
		`{"req_key":"k","prompt":"p","image_urls":"u"}`:                        "image_urls",
		`{"req_key":"k","prompt":"p","image_urls":[1]}`:                        "image_urls",
		`{"req_key":"k","prompt":"p","image_urls":[""]}`:                       "image_urls",
		`{"req_key":"k","binary_data_base64":["data:image/png;base64,AAAA"]}`:  "binary_data_base64",
		`{"req_key":"k","binary_data_base64":["DATA:,"]}`:                      "binary_data_base64",
		`{"req_key":"k","image_urls":["a","b","c"]}`:                           "image_urls",
		`{"req_key":"k","image_urls":["a","b"],"binary_data_base64":["AAAA"]}`: "image_urls",
	} {
		var got []string
		for _, v := range upstreamtest.Violations(bodies{}, []byte(raw)) {
			if v.Description == "" {
				t.Errorf("%s: %+v has no description", raw, v)
			}
			got = append(got, or(v.Field, "-"))
		}
		if s := strings.Join(got, " "); s != fields {
			t.Errorf("%s: violations of %q, want %q", raw, s, fields)
		}
	}
}

func TestSetModel(t *testing.T) {
	t.Parallel()
	got := withModel(` {"prompt":"p", "req_key" : "a","model":"m"}`, `b"`)
	if want := ` {"prompt":"p", "req_key" : "b\"","model":"m"}`; got.Err() != nil || string(got.Bytes()) != want {
		t.Errorf("got %s, %v, want %s", got.Bytes(), got.Err(), want)
	}
	for raw, model := range map[string]string{`[]`: "m", `{}`: "\xff"} {
		if withModel(raw, model).Err() == nil {
			t.Errorf("%s took the model %q", raw, model)
		}
	}
}

// withModel replaces the model in a body, as a holder does.
func withModel(raw, model string) body.Document {
	return body.Parse([]byte(raw)).WithText(bodies{}.ModelMember(), model)
}

func TestAsked(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]upstream.Asked{
		`{"aspect_ratio":"16:9","frames":121}`: {Size: "16:9", Seconds: "5"},
		`{"frames":241}`:                       {Seconds: "10"},
		`{"frames":120}`:                       {},
		`{"frames":"121","aspect_ratio":1}`:    {},
		`nonsense`:                             {},
	} {
		if diff := cmp.Diff(want, bodies{}.Asked(body.Parse([]byte(raw)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
}

// FuzzBodies checks that a body that passes Check still passes with another model and in a
// gateway's form.
func FuzzBodies(f *testing.F) {
	f.Add([]byte(`{"req_key":"k","prompt":"p","frames":121,"seed":-1,"metadata":{"x":1}}`))
	f.Add([]byte(`{"req_key":"k","image_urls":["u"],"binary_data_base64":["AAAA"],"\u0061":"\ud800"}`))
	f.Add([]byte(`{"req_key":"k","prompt":"p","metadata":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		b := bodies{}
		_ = b.Asked(body.Parse(raw))
		if len(upstreamtest.Violations(bodies{}, raw)) > 0 {
			return
		}
		mapped := withModel(string(raw), "other")
		if mapped.Err() != nil || mapped.Text(b.ModelMember()) != "other" || len(upstreamtest.Violations(bodies{}, mapped.Bytes())) > 0 {
			t.Fatalf("the model of %s mapped: %s, %v", raw, mapped.Bytes(), mapped.Err())
		}
		sent := gatewayBody(mapped)
		if sent.Err() != nil || sent.Text("model") != "other" || len(upstreamtest.Violations(bodies{}, sent.Bytes())) > 0 {
			t.Errorf("gatewayBody(%s) = %s, %v", mapped.Bytes(), sent.Bytes(), sent.Err())
		}
	})
}

// BenchmarkRequest converts a body of 100 KB for a gateway.
func BenchmarkRequest(b *testing.B) {
	raw := []byte(`{"req_key":"k","prompt":"p","frames":121,"metadata":{"seed":1},"binary_data_base64":["` + strings.Repeat("AAAA", 25<<10) + `"]}`)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if err := gatewayBody(body.Trusted(raw)).Err(); err != nil {
			b.Fatal(err)
		}
	}
}
