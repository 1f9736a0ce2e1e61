// Package config loads the configuration of genbus from a YAML file and the environment, and checks
// it before anything starts.
package config

import (
	"maps"
	"strings"
	"time"

	"github.com/genbus/genbus/internal/protocol"
)

// DefaultTenant is the tenant of every caller when no API keys are configured.
const DefaultTenant = "default"

// DefaultOperator is the name of the operator whose key is in the environment.
const DefaultOperator = "operator"

// Config holds every setting. It is read-only once Load or Prepare has returned.
//
// Each field's comment states its meaning and ends with its default. The configuration table in the
// documentation and the example file are generated from these comments.
type Config struct {
	NATS         NATS          `yaml:"nats"`
	HTTP         HTTP          `yaml:"http"`
	GRPC         GRPC          `yaml:"grpc"`
	Upstreams    Upstreams     `yaml:"upstreams"`
	Routes       []Route       `yaml:"routes"`
	APIKeys      []APIKey      `yaml:"api_keys"`
	OperatorKeys []OperatorKey `yaml:"operator_keys"`
	Tenants      Tenants       `yaml:"tenants"`
	Chat         Chat          `yaml:"chat"`
	Events       Events        `yaml:"events"`
	Limits       Limits        `yaml:"limits"`
	Retry        Retry         `yaml:"retry"`
	Log          Log           `yaml:"log"`
	Telemetry    Telemetry     `yaml:"telemetry"`
	Shutdown     Shutdown      `yaml:"shutdown"`
	Sandbox      Sandbox       `yaml:"sandbox"`

	// Whether this replica keeps the index of all jobs, which lists, max_jobs and the deadlines of waiting jobs need, and
	// answers the others from it: auto, where fewer than two others do; on; or off, where another one does. Default: auto.
	Index string `yaml:"index" env:"GENBUS_INDEX"`

	// Whether operators may read the requests and the replies of all jobs; each read is in the audit log. Dead letters have
	// requests that operators read in any case. Default: false.
	OperatorsReadBodies bool `yaml:"operators_read_bodies"`

	keys    `yaml:"-"`
	routing map[routingKey]patternIndex
}

// HTTP configures the HTTP server.
type HTTP struct {
	// Address that HTTP listens on, host:port; port 0 takes a free one. Default: 127.0.0.1:8080.
	Addr string `yaml:"addr" env:"GENBUS_HTTP_ADDR"`
	// Address at which clients reach HTTP, http or https, for links to content in answers; empty takes each request's own
	// Host. Default: none.
	PublicURL string `yaml:"public_url" env:"GENBUS_HTTP_PUBLIC_URL"`
	// Longest request body; a longer one is refused. Default: 32MiB.
	MaxBodyBytes Size `yaml:"max_body_bytes"`
	// Time that a client has to send the request headers. Default: 10s.
	ReadHeaderTimeout time.Duration `yaml:"read_header_timeout"`
	// Connections at a time; more wait to be taken. 0 for no limit. Default: 10000.
	MaxConnections int `yaml:"max_connections"`
	// First segment of a vendor's own paths, by protocol. Default: the protocol's name, such as kling and jimeng.
	Segments map[string]string `yaml:"segments"`
	// Silence after which an SSE stream gets a comment line, so that proxies keep it open. Default: 15s.
	SSEPing time.Duration `yaml:"sse_ping"`
	TLS     ServerTLS     `yaml:"tls"`
}

// GRPC configures the gRPC server.
type GRPC struct {
	// Address that gRPC listens on, host:port; port 0 takes a free one. Default: 127.0.0.1:9090.
	Addr string `yaml:"addr" env:"GENBUS_GRPC_ADDR"`
	// Longest message received, not counting 64 KiB for what surrounds a body; a longer one is refused. Default: 32MiB.
	MaxMessageBytes Size `yaml:"max_message_bytes"`
	// Connections at a time; more wait to be taken. 0 for no limit. Default: 10000.
	MaxConnections int       `yaml:"max_connections"`
	TLS            ServerTLS `yaml:"tls"`
}

// Chat configures all chat routes.
type Chat struct {
	// Attempts at a queued chat in all: another one is made where the process dies, or the
	// upstream fails in a way that may pass; 1 makes no other. Default: 2.
	MaxAttempts int `yaml:"max_attempts"`
	// Whether inline chats publish events: on, as long as there is room for them, or off. Default: on.
	InlineEvents string `yaml:"inline_events"`
	// Finish an inline chat for its subscribers when the last attached caller has gone away. Default: false.
	FinishForSubscribers bool `yaml:"finish_for_subscribers"`
}

// Values of Chat.InlineEvents.
const (
	InlineEventsOn  = "on"
	InlineEventsOff = "off"
)

// Events configures the encoding of events.
type Events struct {
	// Encoding of event bodies: protobuf or json. Default: protobuf.
	Encoding string `yaml:"encoding"`
}

// Values of Events.Encoding.
const (
	EncodingProtobuf = "protobuf"
	EncodingJSON     = "json"
)

// Values of Index.
const (
	IndexAuto = "auto"
	IndexOn   = "on"
	IndexOff  = "off"
)

// Limits bounds the resources of a job or a reader.
type Limits struct {
	// Requests and inline replies above this size go to the object store, and the message carries a reference. Requests do above a quarter of NATS's max_payload, too. Other bodies do above 256 KiB. Default: 256KiB.
	ClaimCheckBytes Size `yaml:"claim_check_bytes"`
	// Longest result that is archived; a longer one stays at the upstream. Default: 2GiB.
	ArchiveBytes Size `yaml:"archive_bytes"`
	// Most bytes in one tenant's object store (large bodies, kept requests, replies and archived results) before its new jobs are refused. Accepted jobs still store their results. Default: 20GiB.
	BodiesBytes Size `yaml:"bodies_bytes"`
	// Most messages of one tenant's object store, each of which takes 250 bytes of the memory of NATS: two of a kept request, and one more for each 512 KiB. What may be refused is refused beyond it. Default: 1000000.
	BodiesMessages int64 `yaml:"bodies_messages"`
	// Bytes that may wait for one reader before it is cut with slow_reader. Default: 1MiB.
	SlowReaderBytes Size `yaml:"slow_reader_bytes"`
	// Longest time that one write to a client may take; one that does not read for that long is cut off. Default: 30s.
	WriteTimeout time.Duration `yaml:"write_timeout"`
	// Jobs that the index has for listing, in memory, in each replica that keeps it. What is over is dropped: first the oldest that have ended. Default: 100000.
	ListIndex int `yaml:"list_index"`
	// Longest life of one stream that follows a job, by SSE or gRPC; it ends between two events, and its client goes on
	// where it was with another one. Default: 1h.
	StreamTime time.Duration `yaml:"stream_time"`
	Tenant     TenantLimits  `yaml:"tenant"`
}

// Retry is the retry budget of each replica, across all upstreams. It keeps an outage from
// multiplying the traffic. When it is used up, queued jobs wait and inline chats fail.
type Retry struct {
	// Part of a retry that each first request earns; 0.2 lets retries add a fifth. Default: 0.2.
	Share float64 `yaml:"share"`
	// Retries a second that need not be earned; ten seconds of them may be saved up. Default: 10.
	PerSecond float64 `yaml:"per_second"`
}

// Log configures the log on standard error.
type Log struct {
	// Least severe level that is written: debug, info, warn or error. Default: info.
	Level string `yaml:"level" env:"GENBUS_LOG_LEVEL"`
	// Format of a line: text, json, or auto (text on a terminal, json elsewhere). What a start says on standard output
	// is a record of the log where it would stand among JSON: with json, and with 2>&1. Default: auto.
	Format string `yaml:"format" env:"GENBUS_LOG_FORMAT"`
}

// Telemetry configures metrics and tracing. The trace exporter reads the standard OTEL_* variables
// itself.
type Telemetry struct {
	// Export traces: on, off, or auto (on where OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is
	// set). Load replaces auto by what it found. Default: auto.
	Traces string `yaml:"traces"`
	// Where a trace is looked at, with {trace_id} in it, such as https://traces.example/trace/{trace_id}: the console links
	// to it. Default: none.
	TraceURL string `yaml:"trace_url"`
	// Tenants that have series of their own in the metrics of tenants: the first that are among those with the most
	// unfinished jobs; the others share one. /metrics needs no key, and names them. 0: no metrics of tenants. Default: 0.
	MetricsTenants int `yaml:"metrics_tenants"`
}

// TraceURLOf returns the URL of a trace, or "" if trace_url is not set or id is empty.
func (t Telemetry) TraceURLOf(id string) string {
	if id == "" {
		return ""
	}
	return strings.ReplaceAll(t.TraceURL, "{trace_id}", id)
}

// Enabled reports whether traces are exported. It is false for auto, which Load resolves.
func (t Telemetry) Enabled() bool { return t.Traces == "on" }

// Shutdown configures graceful shutdown.
type Shutdown struct {
	// Time between /readyz turning false and the refusal of new calls, for load balancers to notice; not part of the
	// grace. Default: 0s.
	Delay time.Duration `yaml:"delay" env:"GENBUS_SHUTDOWN_DELAY"`
	// Time to finish the running HTTP calls after a stop signal; held jobs are handed over at once. Default: 30s.
	Grace time.Duration `yaml:"grace" env:"GENBUS_SHUTDOWN_GRACE"`
}

// Sandbox configures the fake upstream for demos and tests.
type Sandbox struct {
	// Address of the sandbox when it runs alone ("service sandbox"), host:port. Default: 127.0.0.1:8090.
	Addr string `yaml:"addr" env:"GENBUS_SANDBOX_ADDR"`
	// Enabled is set by AddSandbox, never by a file.
	Enabled bool `yaml:"-"`
	// Trial is set by ShowAll, never by a file.
	Trial bool `yaml:"-"`
}

// Default returns the default configuration: an embedded NATS server and no upstream. Call Prepare
// before using it.
func Default() *Config {
	return &Config{
		NATS:      defaultNATS(),
		HTTP:      HTTP{Addr: "127.0.0.1:8080", MaxBodyBytes: 32 * MiB, ReadHeaderTimeout: 10 * time.Second, MaxConnections: 10_000, Segments: withSegments(nil), SSEPing: 15 * time.Second},
		GRPC:      GRPC{Addr: "127.0.0.1:9090", MaxMessageBytes: 32 * MiB, MaxConnections: 10_000},
		Chat:      Chat{MaxAttempts: 2, InlineEvents: InlineEventsOn},
		Events:    Events{Encoding: EncodingProtobuf},
		Limits:    Limits{ClaimCheckBytes: 256 * KiB, ArchiveBytes: 2 * GiB, BodiesBytes: 20 * GiB, BodiesMessages: 1_000_000, SlowReaderBytes: MiB, WriteTimeout: 30 * time.Second, ListIndex: 100_000, StreamTime: time.Hour, Tenant: TenantLimits{MaxDeadLetters: 1000}},
		Retry:     Retry{Share: 0.2, PerSecond: 10},
		Log:       Log{Level: "info", Format: "auto"},
		Telemetry: Telemetry{Traces: "auto"},
		Shutdown:  Shutdown{Grace: 30 * time.Second},
		Sandbox:   Sandbox{Addr: "127.0.0.1:8090"},
		Index:     IndexAuto,
	}
}

// Prepare fills in the defaults that depend on other fields, checks everything and builds the
// indexes for Route, Tenant and Operator. Load calls it; call it again after building or changing a
// Config in code. The error joins all problems, one line each.
func (c *Config) Prepare() error {
	r := newReport("")
	c.prepare(r)
	return r.err()
}

func (c *Config) prepare(r *report) {
	c.fill()
	c.check(r)
	c.indexRoutes(r)
	c.indexKeys(r, c.APIKeys, c.OperatorKeys)
}

// fill sets the defaults that depend on other fields, such as whether NATS is a cluster, the
// upstreams, and the kinds of routes. It is idempotent.
func (c *Config) fill() {
	if c.NATS.Replicas == 0 {
		c.NATS.Replicas = 1
		if !c.NATS.Embedded() {
			c.NATS.Replicas = 3
		}
	}
	c.HTTP.Segments = withSegments(c.HTTP.Segments)
	for name, u := range c.Upstreams {
		u.BaseURL = strings.TrimRight(u.BaseURL, "/")
		c.Upstreams[name] = u
	}
	if len(c.Routes) == 0 && len(c.Upstreams) == 1 {
		for name := range c.Upstreams {
			c.Routes = []Route{NewRoute("video", KindVideo, name, "*"), NewRoute("chat", KindChat, name, "*")}
		}
	}
	for i := range c.Routes {
		c.Routes[i].fill()
	}
}

// withSegments adds the default segment of every protocol that has its own paths.
func withSegments(given map[string]string) map[string]string {
	segments := map[string]string{}
	for _, p := range protocol.All() {
		if p.Segment != "" {
			segments[p.Name] = p.Segment
		}
	}
	maps.Copy(segments, given)
	return segments
}
