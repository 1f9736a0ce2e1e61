package primary

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var aCreate = upstream.VideoCreate{JobID: "video_1", Body: body.Parse([]byte(`{"model":"m","prompt":"p"}`))}

var subject = upstreamtest.Subject{
	New:    func(ep *upstream.Endpoint) upstream.VideoClient { return &client{ep: ep} },
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
	return &client{ep: upstreamtest.Endpoint(t, handler)}
}
