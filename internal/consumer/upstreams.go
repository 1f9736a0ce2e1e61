package consumer

import (
	"sync"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/telemetry"
)

// upstreams keeps the metrics of the upstreams. A task may name one that is not
// configured any more: its log does not, or an older configuration did.
type upstreams struct {
	cfg     *config.Live
	metrics *telemetry.Metrics
	known   sync.Map // *telemetry.UpstreamMetrics, by name
}

func newUpstreams(cfg *config.Live, metrics *telemetry.Metrics) *upstreams {
	return &upstreams{cfg: cfg, metrics: metrics}
}

// count counts a call of an upstream, unless that was never configured here.
func (u *upstreams) count(name, op, verdict string, httpStatus int, took time.Duration) {
	found, known := u.known.Load(name)
	if _, configured := u.cfg.Now().Upstreams[name]; !known && configured {
		found, _ = u.known.LoadOrStore(name, u.metrics.Upstream(name))
	}
	if metrics, ok := found.(*telemetry.UpstreamMetrics); ok {
		metrics.Request(op, verdict, httpStatus, took)
	}
}
