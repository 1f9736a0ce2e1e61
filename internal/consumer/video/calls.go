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

// calls keeps the metrics of upstreams. A job may name one that is no longer configured.
type calls struct {
	cfg     *config.Live
	metrics *telemetry.Metrics
	known   sync.Map // *telemetry.UpstreamMetrics by name
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

func statusOf(err error) int {
	var up *upstream.Error
	if errors.As(err, &up) {
		return up.HTTPStatus
	}
	return 0
}

// because adds the upstream's last answer, or the failure to get one, to an end. A nil cause adds
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

// maxDimension bounds an upstream's values for a video's size and length, in bytes.
const maxDimension = 32
