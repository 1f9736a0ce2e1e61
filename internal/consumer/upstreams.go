package consumer

import (
	"sync"

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

// of gives the metrics of an upstream; nil, which count nothing, for one that was
// never configured here.
func (u *upstreams) of(name string) *telemetry.UpstreamMetrics {
	found, known := u.known.Load(name)
	if _, configured := u.cfg.Now().Upstreams[name]; !known && configured {
		found, _ = u.known.LoadOrStore(name, u.metrics.Upstream(name))
	}
	metrics, _ := found.(*telemetry.UpstreamMetrics)
	return metrics
}
