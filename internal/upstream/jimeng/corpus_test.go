package jimeng

import (
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	testNow    = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	testRef    = upstream.TaskRef{ID: "7392616336519610409", Ticket: "jimeng_t2v_v30"}
	testCreate = upstream.VideoCreate{JobID: "video_1", Body: body.Parse([]byte(`{"req_key":"jimeng_t2v_v30","prompt":"a cat"}`))}
)

var subject = upstreamtest.Subject{
	New:    func(ep *upstream.Endpoint) upstream.VideoClient { return atTestNow(ep, upstream.Options{}) },
	Create: testCreate,
	Ref:    testRef,
}

func TestCorpus(t *testing.T) {
	t.Parallel()
	upstreamtest.CheckCorpus(t, subject)
}

func TestPollErrors(t *testing.T) {
	t.Parallel()
	upstreamtest.CheckPolls(t, subject)
}

func serve(t testing.TB, opts upstream.Options, handler http.HandlerFunc) *client {
	t.Helper()
	return atTestNow(upstreamtest.Endpoint(t, handler), opts)
}

func atTestNow(ep *upstream.Endpoint, opts upstream.Options) *client {
	c := newClient(ep, opts)
	c.now = func() time.Time { return testNow }
	return c
}
