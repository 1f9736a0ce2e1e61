package kling

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var aCreate = upstream.VideoCreate{JobID: "video_1", Body: body.Parse([]byte(`{"model_name":"kling-v2-6","prompt":"a cat"}`))}

var subject = upstreamtest.Subject{
	New:    func(ep *upstream.Endpoint) upstream.VideoClient { return newClient(ep, upstream.Options{}) },
	Create: aCreate,
	Ref:    upstream.TaskRef{ID: "task_1"},
}

func TestCorpus(t *testing.T) {
	t.Parallel()
	upstreamtest.CheckCorpus(t, subject)
}

func TestPollErrors(t *testing.T) {
	t.Parallel()
	upstreamtest.CheckPolls(t, subject)
}

func serve(t testing.TB, handler http.HandlerFunc) *client {
	t.Helper()
	return newClient(endpoint(t, handler), upstream.Options{})
}

// endpoint starts a server and returns an endpoint below a path, as gateways have it.
func endpoint(t testing.TB, handler http.HandlerFunc) *upstream.Endpoint {
	t.Helper()
	ep := upstreamtest.Endpoint(t, handler)
	ep.BaseURL += "/kling"
	return ep
}
