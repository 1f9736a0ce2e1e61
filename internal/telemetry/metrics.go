package telemetry

import (
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// namespace is the prefix of all genbus metrics.
const namespace = "genbus"

// Limits of /metrics.
const (
	maxScrapes    = 4
	scrapeTimeout = 10 * time.Second
)

// Metrics records the service's metrics in its own registry.
//
// Label values come from bounded sets: kinds, ingresses, phases, statuses, codes of the error
// table, configured routes and upstreams, ServeMux patterns and gRPC methods. Never pass a model,
// job ID, path or upstream-defined code, because each new value creates a time series that lasts
// until the process ends. LabelTenants limits the number of tenant series.
//
// All methods are safe for concurrent use. Methods called for each poll or chunk do not allocate if
// the caller keeps the values that Route and Upstream return. A nil *Metrics is not valid. Use
// NewMetrics in tests too.
type Metrics struct {
	registry  *prometheus.Registry
	jobs      jobMetrics
	lifecycle lifecycleMetrics
	routes    routeMetrics
	upstream  upstreamMetrics
	events    eventMetrics
	broker    brokerMetrics
	servers   serverMetrics
	config    configMetrics
	tenants   *tenantMetrics
}

// goCollector is shared by all registries of a process. Creating one allocates megabytes, because
// it matches every runtime metric against its rules.
var goCollector = sync.OnceValue(func() prometheus.Collector { return collectors.NewGoCollector() })

// NewMetrics returns the metrics of one process. version is the build's version for
// genbus_build_info.
func NewMetrics(version string) *Metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		goCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	f := promauto.With(registry)
	f.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info",
		Help: "Always 1; the labels name the build.",
	}, []string{"version", "go_version"}).WithLabelValues(version, runtime.Version()).Set(1)
	return &Metrics{
		registry: registry,

		jobs:      newJobMetrics(f),
		lifecycle: newLifecycleMetrics(f),
		routes:    newRouteMetrics(f),
		upstream:  newUpstreamMetrics(f),
		events:    newEventMetrics(f),
		broker:    newBrokerMetrics(f),
		servers:   newServerMetrics(f),
		config:    newConfigMetrics(f),
		tenants:   newTenantMetrics(f),
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Handler serves /metrics in the Prometheus formats. It answers 503 to a fifth concurrent scrape
// and to a scrape that takes longer than 10 s.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		Registry:            m.registry,
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
		EnableOpenMetrics:   true,
	})
}

// Gatherer returns a gatherer of all metrics, for tests or another exporter.
func (m *Metrics) Gatherer() prometheus.Gatherer {
	return m.registry
}

// requestBuckets range from the duration of a cached answer to that of the longest stream, in
// seconds.
var requestBuckets = []float64{
	.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800,
}

// waitBuckets, in seconds, suit durations that should be a few milliseconds, such as admission.
// They also suit the lateness of polls, which should stay below 0.1 s.
var waitBuckets = []float64{
	.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60,
}

// jobBuckets range from an immediate start to the longest queue timeout, in seconds.
var jobBuckets = []float64{
	.01, .05, .1, .5, 1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600, 48 * 3600,
}

func gauge(f promauto.Factory, name, help string) prometheus.Gauge {
	return f.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
}

func counter(f promauto.Factory, name, help string) prometheus.Counter {
	return f.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func counters(f promauto.Factory, name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func gauges(f promauto.Factory, name, help string, labels ...string) *prometheus.GaugeVec {
	return f.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histograms(f promauto.Factory, buckets []float64, name, help string, labels ...string) *prometheus.HistogramVec {
	return f.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: buckets,
	}, labels)
}
