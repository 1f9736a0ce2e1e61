package consumer

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

// TestAnUpstreamThatAcceptsOnlyForms proves that such an upstream gets a form if the client sent
// one or the route says so, and JSON otherwise.
func TestAnUpstreamThatAcceptsOnlyForms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		form bool // what the client sent
		body string
		code string
	}{
		"a client's form":         {true, "", ""},
		"JSON":                    {false, "", "upstream_refused"},
		"JSON, as a form":         {false, config.BodyMultipart, ""},
		"a client's form as JSON": {true, config.BodyJSON, "upstream_refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := scripted(t, map[string]http.HandlerFunc{
				"POST /v1/videos": func(w http.ResponseWriter, r *http.Request) { // as vLLM-Omni answers
					if r.FormValue("prompt") != "a cat" || !strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
						w.WriteHeader(http.StatusBadRequest)
						_, _ = io.WriteString(w, `{"error":{"message":"1 validation error: body, prompt: Field required","type":"Bad Request","param":null,"code":400}}`)
						return
					}
					respond(`{"id":"up_1","status":"queued"}`)(w, r)
				},
				"GET /v1/videos/{id}": respond(`{"id":"up_1","status":"completed"}`),
			})
			r := newReplica(t, brokertest.Single(t), testConfig(t, url, videoRoutes(func(r *config.Route) {
				if r.Protocol == "videos" {
					r.Body = c.body
				}
			})))
			e, err := r.Admission.Admit(t.Context(), admission.Request{
				Kind: subject.Video, Tenant: "acme", Protocol: "videos", Form: c.form,
				Body: body.Parse([]byte(`{"model":"sandbox-videos","prompt":"a cat","seconds":"4"}`)),
			})
			if err != nil {
				t.Fatal(err)
			}
			if end := last(follow(t, r.log, e.Job.GetId())); end.Job.GetError().GetCode() != c.code {
				t.Errorf("ended %v", end.Job.GetError())
			}
		})
	}
}
