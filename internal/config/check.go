package config

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/genbus/genbus/internal/protocol"
)

const (
	wantToken = "1 to 64 letters, digits, _ or -"
	wantAddr  = "host:port, such as 127.0.0.1:8080"

	year = 8760 * time.Hour

	// The embedded broker accepts messages of up to 8 MiB, and a body inside a message must leave
	// space for headers.
	maxClaimCheck = 7 * MiB
)

var (
	tokenPattern     = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	accessKeyPattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)
	originPattern    = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?$`)
)

// check validates each field, then fields that depend on each other.
func (c *Config) check(r *report) {
	c.checkServers(r)
	c.checkChoices(r)
	c.checkNATS(r)
	c.checkUpstreams(r)
	c.checkRoutes(r)
	c.checkTaskLog(r)
	c.checkAPIKeys(r)
	c.checkOperatorKeys(r)
	c.checkTenants(r)
	c.checkListeners(r)
}

func (c *Config) checkServers(r *report) {
	checkAddr(r, "http.addr", c.HTTP.Addr)
	within(r, "http.max_body_bytes", c.HTTP.MaxBodyBytes, KiB, GiB)
	within(r, "http.max_connections", c.HTTP.MaxConnections, 0, 10_000_000)
	within(r, "http.read_header_timeout", c.HTTP.ReadHeaderTimeout, 100*time.Millisecond, 10*time.Minute)
	within(r, "http.sse_ping", c.HTTP.SSEPing, 10*time.Millisecond, 10*time.Minute)
	c.checkSegments(r)
	c.checkOrigins(r)
	const public = "http.public_url"
	if c.HTTP.PublicURL != "" && checkAddress(r, public, c.HTTP.PublicURL) && strings.HasSuffix(strings.TrimRight(c.HTTP.PublicURL, "/"), "/v1") {
		r.bad(public, c.HTTP.PublicURL, "the address without /v1, which genbus adds itself")
	}
	checkAddr(r, "grpc.addr", c.GRPC.Addr)
	within(r, "grpc.max_message_bytes", c.GRPC.MaxMessageBytes, KiB, GiB)
	within(r, "grpc.max_connections", c.GRPC.MaxConnections, 0, 10_000_000)
	c.HTTP.TLS.check(r, "http.tls")
	c.GRPC.TLS.check(r, "grpc.tls")
	checkAddr(r, "sandbox.addr", c.Sandbox.Addr)
	within(r, "shutdown.delay", c.Shutdown.Delay, 0, time.Hour)
	within(r, "shutdown.grace", c.Shutdown.Grace, 0, time.Hour)
}

// checkSegments requires that the vendors' paths do not collide with each other or with genbus's
// own.
func (c *Config) checkSegments(r *report) {
	taken := map[string]string{"v1": "genbus", "genbus": "genbus", "healthz": "genbus", "readyz": "genbus", "metrics": "genbus", "docs": "genbus", "console": "genbus"}
	for _, name := range sortedKeys(c.HTTP.Segments) {
		path, segment := join("http.segments", name), c.HTTP.Segments[name]
		checkToken(r, path, segment)
		if p, ok := protocol.Find(name); !ok || p.Segment == "" {
			r.add(path, "is not a protocol with its own paths; want one of "+strings.Join(protocolsWith(func(p protocol.Info) bool { return p.Segment != "" }), ", "))
		}
		if other, used := taken[segment]; used {
			r.bad(path, segment, "a unique segment; "+other+" has this one")
		}
		taken[segment] = name
	}
}

// checkOrigins requires origins as browsers write them, because they are compared as text.
func (c *Config) checkOrigins(r *report) {
	for i, origin := range c.HTTP.CORS.Origins {
		key := fmt.Sprintf("http.cors.origins[%d]", i)
		switch {
		case origin == AnyOrigin && len(c.APIKeys) == 0 && !r.follows("api_keys"):
			r.bad(key, origin, "named origins, or API keys (api_keys in the file, or GENBUS_API_KEY): without keys, any web page that someone opens may use genbus")
		case origin != AnyOrigin && !isOrigin(origin):
			r.bad(key, origin, `an origin in lower case, without a path and a default port, such as https://app.example.com or http://localhost:5173; or "*"`)
		}
	}
}

func isOrigin(text string) bool {
	scheme, host, _ := strings.Cut(text, "://")
	defaultPort := scheme == "http" && strings.HasSuffix(host, ":80") || scheme == "https" && strings.HasSuffix(host, ":443")
	return originPattern.MatchString(text) && !defaultPort
}

func (c *Config) checkChoices(r *report) {
	within(r, "chat.max_attempts", c.Chat.MaxAttempts, 1, 10)
	within(r, "retry.share", c.Retry.Share, 0, 10)
	within(r, "retry.per_second", c.Retry.PerSecond, 0.01, 1_000_000)
	oneOf(r, "chat.inline_events", c.Chat.InlineEvents, InlineEventsOn, InlineEventsOff)
	oneOf(r, "events.encoding", c.Events.Encoding, EncodingProtobuf, EncodingJSON)
	within(r, "limits.claim_check_bytes", c.Limits.ClaimCheckBytes, KiB, maxClaimCheck)
	within(r, "limits.slow_reader_bytes", c.Limits.SlowReaderBytes, 4*KiB, GiB)
	within(r, "limits.write_timeout", c.Limits.WriteTimeout, time.Second, 10*time.Minute)
	within(r, "limits.archive_bytes", c.Limits.ArchiveBytes, KiB, TiB)
	within(r, "limits.bodies_bytes", c.Limits.BodiesBytes, 64*MiB, 1024*TiB)
	if c.Limits.BodiesBytes < c.Limits.ArchiveBytes {
		r.bad("limits.bodies_bytes", c.Limits.BodiesBytes, "at least "+c.Limits.ArchiveBytes.String()+", which is limits.archive_bytes: one result must fit")
	}
	within(r, "limits.bodies_messages", c.Limits.BodiesMessages, 1000, 1_000_000_000)
	within(r, "limits.stream_time", c.Limits.StreamTime, time.Second, year)
	within(r, "limits.list_index", c.Limits.ListIndex, 100, 10_000_000)
	oneOf(r, "log.level", c.Log.Level, "debug", "info", "warn", "error")
	oneOf(r, "log.format", c.Log.Format, "auto", "text", "json")
	oneOf(r, "index", c.Index, IndexAuto, IndexOn, IndexOff)
	within(r, "telemetry.metrics_tenants", c.Telemetry.MetricsTenants, 0, 100)
	oneOf(r, "telemetry.traces", c.Telemetry.Traces, "auto", "on", "off")
	if u := c.Telemetry.TraceURL; u != "" {
		parsed, err := url.Parse(u)
		if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" || !strings.Contains(u, "{trace_id}") {
			r.bad("telemetry.trace_url", u, "an http or https URL with {trace_id} in it")
		}
	}
}

// checkListeners restricts unauthenticated servers to loopback addresses and requires that each
// server has its own address. API keys protect HTTP and gRPC; NATS needs its own user.
func (c *Config) checkListeners(r *report) {
	taken := map[string]string{}
	for _, l := range c.listeners() {
		switch {
		case !beyondLoopback(l.addr):
		case l.key == natsListen && c.NATS.User == "" && !r.follows("nats.user"):
			r.bad(l.key, l.addr, "a loopback address such as 127.0.0.1, or nats.user with nats.password_env (and nats.tls, or the password is sent unencrypted): "+
				"without a user, everyone who can reach it may act as any tenant. API keys do not protect NATS; see docs/nats-security.md to isolate tenants there")
		case l.key != natsListen && len(c.APIKeys) == 0 && !r.follows("api_keys"):
			r.bad(l.key, l.addr, "a loopback address such as 127.0.0.1, or API keys (api_keys in the file, or GENBUS_API_KEY): without keys, everyone who can reach it may use it")
		}
		if other := taken[l.addr]; other != "" && !strings.HasSuffix(l.addr, ":0") {
			r.bad(l.key, l.addr, "a unique address; "+other+" has this one")
		}
		taken[l.addr] = l.key
	}
}

const natsListen = "nats.listen"

type listener struct{ key, addr string }

func (c *Config) listeners() []listener {
	all := []listener{{"http.addr", c.HTTP.Addr}, {"grpc.addr", c.GRPC.Addr}}
	if c.NATS.Embedded() && c.NATS.Listen != ListenNone {
		all = append(all, listener{natsListen, c.NATS.Listen})
	}
	return all
}

// reachable reports whether other machines might reach HTTP or gRPC and send API keys.
func (c *Config) reachable() bool {
	return beyondLoopback(c.HTTP.Addr) || beyondLoopback(c.GRPC.Addr)
}

// beyondLoopback reports whether other machines might reach the address.
func beyondLoopback(addr string) bool {
	_, _, err := net.SplitHostPort(addr)
	return err == nil && !IsLoopback(addr)
}

// IsLoopback reports whether a host, with or without a port, certainly is this machine. Names other
// than localhost may resolve to anything.
func IsLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func checkAddr(r *report, key, addr string) {
	host, port, err := net.SplitHostPort(addr)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || n > 65535 || strings.ContainsAny(host, " /@") {
		r.bad(key, addr, wantAddr)
	}
}

func checkToken(r *report, key, text string) {
	switch {
	case text == "":
		r.missing(key, wantToken)
	case !tokenPattern.MatchString(text):
		r.bad(key, text, wantToken)
	}
}

func oneOf(r *report, key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		r.bad(key, value, alternatives(allowed))
	}
}

// alternatives returns "a, b or c".
func alternatives(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// within requires low <= value <= high. NaN is outside every range.
func within[T cmp.Ordered](r *report, key string, value, low, high T) {
	if value >= low && value <= high {
		return
	}
	r.bad(key, value, formatScalar(reflect.ValueOf(low))+" to "+formatScalar(reflect.ValueOf(high)))
}
