package httpapi_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

func keepRequests(c *config.Config) {
	c.OperatorsReadBodies = true
	for i := range c.Routes {
		c.Routes[i].KeepRequests = true
	}
}

// TestOperatorRetriesByHTTP checks that the request read from a job can be edited and submitted.
func TestOperatorRetriesByHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants, apitest.WithOperator, keepRequests)
	old := w.CreateVideo(apitest.ByAcme...)
	if e := w.operator(http.MethodPost, "jobs/"+old+"/retry", `{"kind":"video","tenant":"acme"}`, 409); in(e, "error", "code") != "not_terminal" {
		t.Errorf("a job that waits: %v", e)
	}
	w.LetGo(w.EndVideo(w.StartVideo("acme", old)))
	bodies := w.operator(http.MethodGet, "jobs/"+old+"/bodies?kind=video&tenant=acme", "", 200)
	if bodies["request_json"] != base64.StdEncoding.EncodeToString([]byte(apitest.VideoBody)) || bodies["request_from"] != "kept" {
		t.Errorf("bodies: %v", bodies)
	}
	edited := base64.StdEncoding.EncodeToString([]byte(`{"model":"sandbox-video","prompt":"a dog"}`))
	made := w.operator(http.MethodPost, "jobs/"+old+"/retry", `{"kind":"video","tenant":"acme","request_json":"`+edited+`","idempotency_key":"k"}`, 200)
	id, _ := made["id"].(string)
	if e := w.Entry(subject.Video, "acme", id); e.Job.GetRetryOf() != old || made["status"] != "JOB_STATUS_QUEUED" {
		t.Errorf("%v made %v", made, e.Job)
	}
	for _, path := range []string{"/v1/video/generations/", "/genbus/v1/videos/"} {
		w.Await(path, func() bool {
			return strings.Contains(w.Get(path+old, apitest.ByAcme...).Body, `"replaced_by":["`+id+`"]`)
		})
	}
}
