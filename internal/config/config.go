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

	// Whether this replica keeps the job index for lists, max_jobs and the deadlines of waiting jobs:
	// auto (if fewer than two others keep it), on, or off (if another replica keeps it). Default:
	// auto.
	Index string `yaml:"index" env:"GENBUS_INDEX"`

	// Whether operators may read the requests and replies of all jobs. The audit log records each
	// read. Default: false.
	OperatorsReadBodies bool `yaml:"operators_read_bodies"`

	keys    `yaml:"-"`
	routing map[routingKey]patternIndex
}

// HTTP configures the HTTP server.
type HTTP struct {
	// Address that HTTP listens on, host:port; port 0 picks a free port. Default: 127.0.0.1:8080.
	Addr string `yaml:"addr" env:"GENBUS_HTTP_ADDR"`
	// Public address of genbus in content links; empty uses the Host of each request. Default: none.
	PublicURL string `yaml:"public_url" env:"GENBUS_HTTP_PUBLIC_URL"`
	// Maximum size of a request body. Default: 32MiB.
	MaxBodyBytes Size `yaml:"max_body_bytes"`
	// Maximum time for a client to send the request headers. Default: 10s.
	ReadHeaderTimeout time.Duration `yaml:"read_header_timeout"`
	// Maximum simultaneous connections; further ones wait. 0: no limit. Default: 10000.
	MaxConnections int `yaml:"max_connections"`
	// First path segment of a vendor's paths, by protocol. Default: the protocol's name, such as
	// kling and jimeng.
	Segments map[string]string `yaml:"segments"`
	// Silence after which genbus sends an SSE comment line. Default: 15s.
	SSEPing time.Duration `yaml:"sse_ping"`
	CORS    CORS          `yaml:"cors"`
	TLS     ServerTLS     `yaml:"tls"`
}

// CORS lets web pages of other origins call the HTTP API.
type CORS struct {
	// Origins whose web pages may call the API with a key, such as https://app.example.com; "*" for
	// all, which needs API keys. Default: none.
	Origins []string `yaml:"origins"`
}

// AnyOrigin is the element of CORS.Origins that stands for every origin.
const AnyOrigin = "*"

// GRPC configures the gRPC server.
type GRPC struct {
	// Address that gRPC listens on, host:port; port 0 picks a free port. Default: 127.0.0.1:9090.
	Addr string `yaml:"addr" env:"GENBUS_GRPC_ADDR"`
	// Maximum size of a message; received ones may be 64 KiB larger. Default: 32MiB.
	MaxMessageBytes Size `yaml:"max_message_bytes"`
	// Maximum simultaneous connections; further ones wait. 0: no limit. Default: 10000.
	MaxConnections int       `yaml:"max_connections"`
	TLS            ServerTLS `yaml:"tls"`
}

// Chat configures all chat routes.
type Chat struct {
	// Maximum attempts at a queued chat. Default: 2.
	MaxAttempts int `yaml:"max_attempts"`
	// Whether inline chats publish events: on or off. Default: on.
	InlineEvents string `yaml:"inline_events"`
	// Finish an inline chat for its subscribers after the last attached caller disconnects. Default:
	// false.
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
	// Size above which genbus stores a request or inline reply in the object store. It also stores
	// requests above a quarter of NATS's max_payload. Default: 256KiB.
	ClaimCheckBytes Size `yaml:"claim_check_bytes"`
	// Maximum size of an archived result; a larger one stays at the upstream. Default: 2GiB.
	ArchiveBytes Size `yaml:"archive_bytes"`
	// Bytes in a tenant's object store at which genbus refuses its new jobs. Accepted jobs still store
	// their results. Default: 20GiB.
	BodiesBytes Size `yaml:"bodies_bytes"`
	// Messages in a tenant's object store at which genbus refuses its new jobs. Each takes 250 bytes
	// of NATS memory. A kept request takes two, and one more for each 512 KiB. Default: 1000000.
	BodiesMessages int64 `yaml:"bodies_messages"`
	// Unsent bytes for one reader at which genbus disconnects it with slow_reader. Default: 1MiB.
	SlowReaderBytes Size `yaml:"slow_reader_bytes"`
	// Maximum time of one write to a client, after which genbus disconnects it. Default: 30s.
	WriteTimeout time.Duration `yaml:"write_timeout"`
	// Maximum jobs that the index keeps for lists. Beyond it, the index drops the oldest ended jobs.
	// Default: 100000.
	ListIndex int `yaml:"list_index"`
	// Maximum lifetime of one SSE or gRPC stream that follows a job. The client can resume. Default:
	// 1h.
	StreamTime time.Duration `yaml:"stream_time"`
	Tenant     TenantLimits  `yaml:"tenant"`
}

// Retry is the retry budget of each replica, across all upstreams. It keeps an outage from
// multiplying the traffic. When it is used up, queued jobs wait and inline chats fail.
type Retry struct {
	// Retries that each first attempt adds to the budget. Default: 0.2.
	Share float64 `yaml:"share"`
	// Retries per second that genbus always allows, in bursts of up to ten seconds' worth. Default:
	// 10.
	PerSecond float64 `yaml:"per_second"`
}

// Log configures the log on standard error.
type Log struct {
	// Minimum level: debug, info, warn or error. Default: info.
	Level string `yaml:"level" env:"GENBUS_LOG_LEVEL"`
	// Log format: text, json, or auto (text on a terminal, json elsewhere). Default: auto.
	Format string `yaml:"format" env:"GENBUS_LOG_FORMAT"`
}

// Telemetry configures metrics and tracing. The trace exporter reads the standard OTEL_* variables
// itself.
type Telemetry struct {
	// Export traces: on, off, or auto (on if OTEL_EXPORTER_OTLP_ENDPOINT or
	// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set). Default: auto.
	Traces string `yaml:"traces"`
	// URL of a trace for the console's links, such as https://traces.example/trace/{trace_id}.
	// Default: none.
	TraceURL string `yaml:"trace_url"`
	// Maximum tenants with separate metric series; the others share one. /metrics names these tenants
	// and requires no key. Default: 0.
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
	// Time between /readyz turning false and the refusal of new calls, in addition to the grace
	// period. Default: 0s.
	Delay time.Duration `yaml:"delay" env:"GENBUS_SHUTDOWN_DELAY"`
	// Time to finish running HTTP calls after a stop signal; genbus hands over held jobs at once.
	// Default: 30s.
	Grace time.Duration `yaml:"grace" env:"GENBUS_SHUTDOWN_GRACE"`
}

// Sandbox configures the fake upstream for demos and tests.
type Sandbox struct {
	// Address that "genbus sandbox" listens on, host:port. Default: 127.0.0.1:8090.
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
