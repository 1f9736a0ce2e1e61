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

// namespace begins the name of every metric of ours.
const namespace = "genbus"

// Limits of /metrics.
const (
	maxScrapes    = 4
	scrapeTimeout = 10 * time.Second
)

// Metrics counts what the service does, in a registry of its own.
//
// Label values come from bounded sets only: kinds, ingresses, phases, statuses,
// the code strings of the error table, route and upstream names from the
// configuration, ServeMux patterns and gRPC method names. Never pass
// a model, a job id, a path, or a code that an upstream made up: each new value
// is a time series that lives as long as the process. Tenants have series of their own up
// to a number (LabelTenants).
//
// Every method may be called from any goroutine. What is called for each poll or
// chunk does not allocate: hold on to what Route and Upstream return. A caller that
// needs no metrics passes NewMetrics all the same: nil is not legal.
type Metrics struct {
	registry *prometheus.Registry
	jobs     jobMetrics
	lives    lifeMetrics
	routes   routeMetrics
	upstream upstreamMetrics
	events   eventMetrics
	broker   brokerMetrics
	servers  serverMetrics
	config   configMetrics
	tenants  *tenantMetrics
}

// goCollector is the same for each registry of a process: to make one compares the names of all
// figures of the runtime with its rules, megabytes of work.
var goCollector = sync.OnceValue(func() prometheus.Collector { return collectors.NewGoCollector() })

// NewMetrics makes the metrics of one process. The version is that of the
// build, for genbus_build_info.
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

		jobs:     newJobMetrics(f),
		lives:    newLifeMetrics(f),
		routes:   newRouteMetrics(f),
		upstream: newUpstreamMetrics(f),
		events:   newEventMetrics(f),
		broker:   newBrokerMetrics(f),
		servers:  newServerMetrics(f),
		config:   newConfigMetrics(f),
		tenants:  newTenantMetrics(f),
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Handler serves /metrics in the Prometheus formats. A fifth scrape at a time
// is answered 503, and so is one that takes longer than 10 s.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		Registry:            m.registry,
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
		EnableOpenMetrics:   true,
	})
}

// Gatherer gives all metrics to a test or to another exporter.
func (m *Metrics) Gatherer() prometheus.Gatherer {
	return m.registry
}

// requestBuckets, in seconds, reach from a cached answer to the longest stream.
var requestBuckets = []float64{
	.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800,
}

// waitBuckets, in seconds, are for what should take milliseconds: admission, and
// the lateness of polls (which should stay under 0.1).
var waitBuckets = []float64{
	.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60,
}

// jobBuckets, in seconds, reach from a job that starts at once to the longest that
// one may wait in a queue.
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
