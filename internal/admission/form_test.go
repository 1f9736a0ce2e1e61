package admission_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// judge returns an admission without a broker, for Check, which stores nothing.
func judge(t *testing.T) *admission.Admission {
	t.Helper()
	cfg := config.Default()
	if err := cfg.AddSandbox("http://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	return admission.New(admission.Options{Config: config.NewLive(cfg), Metrics: telemetry.NewMetrics("test")})
}

// TestFormIsFoundByTheModelsRoute checks that a body without a named protocol is read in the
// protocol whose model has a matching route, and is kept byte for byte.
func TestFormIsFoundByTheModelsRoute(t *testing.T) {
	t.Parallel()
	a := judge(t)
	for name, row := range map[string]struct {
		body, protocol    string // protocol is the one that the caller names
		route, model      string
		size, seconds     string
		code, explanation string // of a refusal
	}{
		"primary":                    {body: `{"model":"sandbox-video","prompt":"p","duration":5}`, route: "sandbox-video", model: "sandbox-video", seconds: "5"},
		"videos":                     {body: `{"model":"sandbox-videos","prompt":"p","seconds":"4","size":"1280x720"}`, route: "sandbox-videos", model: "sandbox-videos", size: "1280x720", seconds: "4"},
		"kling":                      {body: `{"model_name":"sandbox-kling","prompt":"p","duration":"5","aspect_ratio":"16:9"}`, route: "sandbox-kling", model: "sandbox-kling", size: "16:9", seconds: "5"},
		"jimeng":                     {body: `{"req_key":"sandbox-jimeng","prompt":"p"}`, route: "sandbox-jimeng", model: "sandbox-jimeng"},
		"kling for a gateway":        {body: `{"model":"sandbox-kling","model_name":"sandbox-kling","prompt":"p"}`, route: "sandbox-kling", model: "sandbox-kling"},
		"the named protocol":         {body: `{"model":"sandbox-videos","prompt":"p"}`, protocol: "videos", route: "sandbox-videos", model: "sandbox-videos"},
		"kling in primary's words":   {body: `{"model":"sandbox-kling","prompt":"p"}`, code: "wrong_protocol", explanation: "POST /kling/v1/videos/text2video"},
		"another named protocol":     {body: `{"model_name":"sandbox-kling","model":"sandbox-video","prompt":"p"}`, protocol: "primary", route: "sandbox-video", model: "sandbox-video"},
		"not the named one":          {body: `{"model":"sandbox-videos","prompt":"p"}`, protocol: "primary", code: "wrong_protocol", explanation: "POST /v1/videos"},
		"a protocol that is not":     {body: `{"model":"sandbox-video","prompt":"p"}`, protocol: "quic", code: "wrong_protocol"},
		"no such model":              {body: `{"req_key":"other","prompt":"p"}`, code: "model_not_found"},
		"no model in any form":       {body: `{"prompt":"p"}`, code: "invalid_request", explanation: "model"},
		"the rules of its own form":  {body: `{"model_name":"sandbox-kling","prompt":"p","duration":5}`, code: "invalid_request", explanation: "duration"},
		"the rules of no other form": {body: `{"req_key":"sandbox-jimeng","prompt":"p","duration":"x","n":0}`, route: "sandbox-jimeng", model: "sandbox-jimeng"},
		"no object":                  {body: `["model"]`, code: "invalid_json"},
		"a member twice":             {body: `{"model":"sandbox-video","model":"x","prompt":"p"}`, code: "invalid_json"},
	} {
		c, err := a.Check(admission.Request{Kind: subject.Video, Tenant: "acme", Body: body.Parse([]byte(row.body)), Protocol: row.protocol})
		if row.code != "" {
			if string(errcode.CodeOf(err)) != row.code || !strings.Contains(err.Error(), row.explanation) {
				t.Errorf("%s: got %v, want %s and %q", name, err, row.code, row.explanation)
			}
			continue
		}
		if err != nil || c.Route.Name != row.route || c.Model != row.model || c.Asked.Size != row.size || c.Asked.Seconds != row.seconds || string(c.Body) != row.body {
			t.Errorf("%s: %v; route %s, model %s, asked %+v, body %s", name, err, c.Route.Name, c.Model, c.Asked, c.Body)
		}
	}
}

// TestTypedRequestIsWrittenInItsRoutesProtocol checks that a typed request becomes a body in its
// route's protocol, or is refused if that protocol cannot express it.
func TestTypedRequestIsWrittenInItsRoutesProtocol(t *testing.T) {
	t.Parallel()
	a := judge(t)
	check := func(model string, change func(*genbusv1.VideoGeneration)) (admission.Checked, error) {
		v := &genbusv1.VideoGeneration{Model: model, Prompt: "p", Duration: proto.Float64(5)}
		change(v)
		d, err := body.Video(&genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Video{Video: v}})
		if err != nil {
			t.Fatal(err)
		}
		return a.Check(admission.Request{Kind: subject.Video, Tenant: "acme", Typed: v, Body: d})
	}
	nothing := func(*genbusv1.VideoGeneration) {}
	for model, want := range map[string]string{
		"sandbox-video":  `{"model":"sandbox-video","prompt":"p","duration":5}`,
		"sandbox-videos": `{"model":"sandbox-videos","prompt":"p","seconds":"5"}`,
		"sandbox-kling":  `{"model_name":"sandbox-kling","prompt":"p","duration":"5"}`,
		"sandbox-jimeng": `{"req_key":"sandbox-jimeng","prompt":"p","frames":121}`,
	} {
		if c, err := check(model, nothing); err != nil || string(c.Body) != want {
			t.Errorf("%s: %s, %v; want %s", model, c.Body, err, want)
		}
	}
	if _, err := check("sandbox-jimeng", func(v *genbusv1.VideoGeneration) { v.Fps = proto.Int32(60) }); errcode.CodeOf(err) != errcode.InvalidRequest || !strings.Contains(err.Error(), "fps") {
		t.Errorf("what the protocol cannot say: %v", err)
	}
	text := func(v *genbusv1.VideoGeneration) { v.Prompt = "" }
	image := func(v *genbusv1.VideoGeneration) { v.Prompt, v.Image = "", proto.String("https://example.com/a.png") }
	for model, want := range map[string]struct{ text, image string }{
		"sandbox-video": {`{"model":"sandbox-video","duration":5}`, `{"model":"sandbox-video","image":"https://example.com/a.png","duration":5}`},
		"sandbox-videos": {"prompt: is required",
			`{"model":"sandbox-videos","seconds":"5","input_reference":{"image_url":"https://example.com/a.png"}}`},
		"sandbox-kling": {"prompt: is required", `{"model_name":"sandbox-kling","image":"https://example.com/a.png","duration":"5"}`},
		"sandbox-jimeng": {"prompt: is required without image_urls or binary_data_base64",
			`{"req_key":"sandbox-jimeng","image_urls":["https://example.com/a.png"],"frames":121}`},
	} {
		got := func(change func(*genbusv1.VideoGeneration)) string {
			c, err := check(model, change)
			if err == nil {
				return string(c.Body)
			}
			if code := errcode.CodeOf(err); code != errcode.InvalidRequest {
				t.Errorf("%s: refused with %s: %v", model, code, err)
			}
			return err.Error()
		}
		if got := got(text); !strings.HasSuffix(got, want.text) {
			t.Errorf("%s without prompt and image: %s; want %s", model, got, want.text)
		}
		if got := got(image); got != want.image {
			t.Errorf("%s without a prompt, of an image: %s; want %s", model, got, want.image)
		}
	}
}

// TestChatsHaveOneForm checks that chats ignore the protocols of videos.
func TestChatsHaveOneForm(t *testing.T) {
	t.Parallel()
	a := judge(t)
	c, err := a.Check(admission.Request{Kind: subject.Chat, Tenant: "acme", Body: body.Parse([]byte(`{"model":"sandbox-chat","messages":[{"role":"user","content":"hi"}],"stream":true}`))})
	if err != nil || c.Route.Name != "sandbox-chat" || !c.Stream {
		t.Errorf("%+v, %v", c, err)
	}
	_, err = a.Check(admission.Request{Kind: subject.Chat, Tenant: "acme", Body: body.Parse([]byte(`{"model":"sandbox-video","messages":[{"role":"user","content":"hi"}]}`))})
	if errcode.CodeOf(err) != errcode.ModelNotFound {
		t.Errorf("a video's model: %v", err)
	}
}
