package video

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// calls caches the metrics of upstreams by name. A job may refer to an upstream that is no longer
// configured.
type calls struct {
	cfg     *config.Live
	metrics *telemetry.Metrics
	known   sync.Map // *telemetry.UpstreamMetrics by name
}

// count counts a call to an upstream, unless the upstream was never configured in this process.
func (c *calls) count(name, op, verdict string, httpStatus int, took time.Duration) {
	found, known := c.known.Load(name)
	if _, configured := c.cfg.Now().Upstreams[name]; !known && configured {
		found, _ = c.known.LoadOrStore(name, c.metrics.Upstream(name))
	}
	if metrics, ok := found.(*telemetry.UpstreamMetrics); ok {
		metrics.Request(op, verdict, httpStatus, took)
	}
}

// statusOf returns the HTTP status that a call is counted with: 200 for a success, and 0 if no
// answer arrived.
func statusOf(err error) int {
	if err == nil {
		return http.StatusOK
	}
	var up *upstream.Error
	if errors.As(err, &up) {
		return up.HTTPStatus
	}
	return 0
}

// because adds a cause to f and returns f. If the cause is an upstream error, because also copies
// its details. A nil cause adds nothing.
func because(f *errcode.Error, cause error) *errcode.Error {
	if cause != nil {
		f.Message += ": " + cause.Error()
	}
	if up, ok := errors.AsType[*upstream.Error](cause); ok {
		f.UpstreamCode, f.UpstreamHTTPStatus, f.UpstreamRequestID = up.Code, up.HTTPStatus, up.RequestID
	}
	return f
}

// maxDimension limits the length in bytes of the size and duration that an upstream reports for a
// video.
const maxDimension = 32
