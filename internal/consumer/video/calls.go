package video

import (
	"errors"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// calls keeps the metrics of the upstreams. A task may name one that is not configured any
// more: its log does not, or an older configuration did.
type calls struct {
	cfg     *config.Live
	metrics *telemetry.Metrics
	known   sync.Map // *telemetry.UpstreamMetrics, by name
}

// count counts a call of an upstream, unless that was never configured here.
func (c *calls) count(name, op, verdict string, httpStatus int, took time.Duration) {
	found, known := c.known.Load(name)
	if _, configured := c.cfg.Now().Upstreams[name]; !known && configured {
		found, _ = c.known.LoadOrStore(name, c.metrics.Upstream(name))
	}
	if metrics, ok := found.(*telemetry.UpstreamMetrics); ok {
		metrics.Request(op, verdict, httpStatus, took)
	}
}

// statusOf is the HTTP status of a failed call; 0 for none.
func statusOf(err error) int {
	var up *upstream.Error
	if errors.As(err, &up) {
		return up.HTTPStatus
	}
	return 0
}

// because adds to an end what the upstream's last answer, or the lack of one, was; nil adds
// nothing.
func because(f *errcode.Error, cause error) *errcode.Error {
	if cause != nil {
		f.Message += ": " + cause.Error()
	}
	if up, ok := errors.AsType[*upstream.Error](cause); ok {
		f.UpstreamCode, f.UpstreamHTTPStatus, f.UpstreamRequestID = up.Code, up.HTTPStatus, up.RequestID
	}
	return f
}

// maxDimension bounds what an upstream says of a video's size or length, in bytes.
const maxDimension = 32
