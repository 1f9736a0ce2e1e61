package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// ReloadOutcome is the outcome of a signal to reload the configuration.
type ReloadOutcome string

// Outcomes of a reload. A reload without changes counts as applied.
const (
	ReloadApplied ReloadOutcome = "applied"
	ReloadRefused ReloadOutcome = "refused"
)

type configMetrics struct {
	reloads *prometheus.CounterVec
	last    prometheus.Gauge
}

func newConfigMetrics(f promauto.Factory) configMetrics {
	m := configMetrics{
		reloads: counters(f, "config_reloads_total",
			"Configuration reload signals: applied, or refused because of a mistake.", "outcome"),
		last: gauges(f, "config_last_success_timestamp_seconds",
			"Unix time at which the effective configuration was read.").WithLabelValues(),
	}
	for _, outcome := range []ReloadOutcome{ReloadApplied, ReloadRefused} {
		m.reloads.WithLabelValues(string(outcome))
	}
	return m
}

// ConfigRead sets when the current configuration was read.
func (m *Metrics) ConfigRead(at time.Time) {
	m.config.last.Set(float64(at.UnixMilli()) / 1000)
}

// Reloaded counts a reload.
func (m *Metrics) Reloaded(outcome ReloadOutcome) {
	m.config.reloads.WithLabelValues(string(outcome)).Inc()
}
