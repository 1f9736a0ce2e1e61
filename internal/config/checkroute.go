package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/genbus/genbus/internal/protocol"
)

const maxModelName = 256

// ownHeaders are set by genbus or by the HTTP client, and would be sent twice or break the request.
var ownHeaders = []string{"accept", "connection", "content-length", "content-type", "expect", "host", "idempotency-key", "te", "trailer", "transfer-encoding", "upgrade"}

func (c *Config) checkUpstreams(r *report) {
	for _, name := range sortedKeys(c.Upstreams) {
		u, path := c.Upstreams[name], join("upstreams", name)
		if !tokenPattern.MatchString(name) {
			r.say(path, "is not a usable name; want "+wantToken)
		}
		checkBaseURL(r, path+".base_url", u.BaseURL)
		within(r, path+".max_idle_conns", u.MaxIdleConns, 1, 100_000)
		within(r, path+".max_concurrent", u.MaxConcurrent, 0, 1_000_000)
		within(r, path+".rate_per_second", u.RatePerSecond, 0, 1_000_000)
		within(r, path+".key_rest", u.KeyRest, 0, 24*time.Hour)
		within(r, path+".breaker.failures", u.Breaker.Failures, 0, 1_000_000)
		within(r, path+".breaker.open_for", u.Breaker.OpenFor, 10*time.Millisecond, time.Hour)
		checkVendorPath(r, path, u.VendorPath)
		checkCredentials(r, path, u)
		for _, header := range sortedKeys(u.Headers) {
			checkHeader(r, join(path+".headers", header), header, u.Headers[header])
		}
	}
}

// checkBaseURL never repeats an address that holds credentials.
func checkBaseURL(r *report, key, address string) {
	const want = "http:// or https:// with a host, without query, such as https://api.example.com"
	if address == "" {
		r.missing(key, want)
		return
	}
	u, err := url.Parse(address)
	switch {
	case strings.Contains(address, "@"):
		r.say(key, "holds credentials or an @; want the address alone, and the key in key_env or key_file")
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsAny(address, "?#"):
		r.bad(key, address, want)
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v1"):
		r.bad(key, address, "the address without /v1, which genbus adds itself")
	}
}

func checkVendorPath(r *report, path, vendor string) {
	if vendor != "" && (!strings.HasPrefix(vendor, "/") || strings.ContainsAny(vendor, "?#% ")) {
		r.bad(path+".vendor_path", vendor, `a path such as "/kling", or "/" for none`)
	}
}

// checkCredentials wants the keys that the way of signing needs, in one of the two places.
func checkCredentials(r *report, path string, u Upstream) {
	oneOf(r, path+".auth", u.Auth, AuthBearer, AuthSigned)
	single := u.KeyEnv + u.KeyFile + u.AccessKeyEnv + u.AccessKeyFile + u.SecretKeyEnv + u.SecretKeyFile
	if len(u.Keys) > 0 && single != "" {
		r.say(path+".keys", "stand beside a key of the upstream itself; want one of the two")
	}
	names := map[string]int{}
	for i, k := range u.Keys {
		at := fmt.Sprintf("%s.keys[%d]", path, i)
		checkToken(r, at+".name", k.Name)
		if other, taken := names[k.Name]; taken {
			r.bad(at+".name", k.Name, fmt.Sprintf("a name of its own; keys[%d] has this one", other))
		}
		names[k.Name] = i
		checkCredential(r, at, u.Auth, k)
	}
	if len(u.Keys) == 0 && u.Auth != AuthBearer {
		checkCredential(r, path, u.Auth, UpstreamKey{
			KeyEnv: u.KeyEnv, KeyFile: u.KeyFile, AccessKeyEnv: u.AccessKeyEnv, AccessKeyFile: u.AccessKeyFile,
			SecretKeyEnv: u.SecretKeyEnv, SecretKeyFile: u.SecretKeyFile, AccessKey: u.AccessKey, SecretKey: u.SecretKey, Key: u.Key,
		})
	}
}

func checkCredential(r *report, at, auth string, k UpstreamKey) {
	bearer := k.KeyEnv+k.KeyFile != "" || !k.Key.Empty()
	access := k.AccessKeyEnv+k.AccessKeyFile != "" || !k.AccessKey.Empty()
	secret := k.SecretKeyEnv+k.SecretKeyFile != "" || !k.SecretKey.Empty()
	switch {
	case auth == AuthBearer && !bearer:
		r.missing(at+".key_env", "key_env: NAME or key_file: PATH")
	case auth == AuthBearer && (access || secret):
		r.say(at+".access_key_env", "is for auth: signed; want key_env or key_file with auth: bearer")
	case auth != AuthBearer && bearer:
		r.say(at+".key_env", "is for auth: bearer; want access_key_env and secret_key_env with auth: signed")
	case auth != AuthBearer && (!access || !secret):
		r.missing(at+".access_key_env", "access_key_env and secret_key_env (or _file) with auth: signed")
	}
}

// checkHeader does not show the value: where the name looks like a secret's, it probably is one.
func checkHeader(r *report, key, name, value string) {
	lower := strings.ToLower(name)
	isSecret := func(word string) bool { return strings.Contains(lower, word) }
	switch {
	case slices.Contains(ownHeaders, lower):
		r.say(key, "is set by genbus itself; want it left out")
	case slices.ContainsFunc([]string{"auth", "cookie", "key", "token", "secret", "password"}, isSecret):
		r.say(key, "looks like a secret; want the key in key_env or key_file, so that the file holds no secret")
	case !tokenPattern.MatchString(name):
		r.say(key, "is not a header name; want "+wantToken)
	case len(value) > 4096 || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' }):
		r.say(key, "has a value that cannot be sent; want at most 4096 characters of printable ASCII")
	}
}

func (c *Config) checkRoutes(r *report) {
	if len(c.Routes) == 0 && len(c.Upstreams) > 1 {
		r.missing("routes", "at least one route: with several upstreams, only routes say which model goes where")
	}
	first := map[string]int{}
	for i, route := range c.Routes {
		path := fmt.Sprintf("routes[%d]", i)
		checkToken(r, path+".name", route.Name)
		if other, taken := first[route.Name]; taken {
			r.bad(path+".name", route.Name, fmt.Sprintf("a name of its own; routes[%d] has this one", other))
		} else {
			first[route.Name] = i
		}
		c.checkTarget(r, path, route)
		checkModels(r, path, route)
		checkBounds(r, path, route)
	}
}

// checkTarget looks at what the route serves, and where it goes.
func (c *Config) checkTarget(r *report, path string, route Route) {
	c.checkTargets(r, path, route)
	oneOf(r, path+".kind", route.Kind, KindVideo, KindChat)
	oneOf(r, path+".on_unknown_outcome", route.OnUnknownOutcome, OnUnknownFail, OnUnknownResubmit)
	if route.InputReference != "" {
		oneOf(r, path+".input_reference", route.InputReference, InputReferenceObject, InputReferenceString)
	}
	if route.Kind == KindVideo {
		oneOf(r, path+".protocol", route.Protocol, protocol.Names()...)
	}
	if route.Kind == KindChat && route.Protocol != "" {
		r.bad(path+".protocol", route.Protocol, "no protocol; only video routes have one")
	}
	if route.Kind == KindChat && (route.Archive || route.Gateway || route.InputReference != "") {
		r.say(path+".archive", "gateway and input_reference are for video routes; want them left out")
	}
}

// checkTargets wants every upstream of the route known, and each once.
func (c *Config) checkTargets(r *report, path string, route Route) {
	if route.Upstream != "" && (len(route.Upstreams) != 1 || route.Upstreams[0].Name != route.Upstream) {
		r.bad(path+".upstream", route.Upstream, "either upstream or upstreams, not both")
		return
	}
	if len(route.Upstreams) == 0 {
		c.checkUpstreamName(r, path+".upstream", route.Upstream)
	}
	seen := map[string]bool{}
	for i, target := range route.Upstreams {
		at := fmt.Sprintf("%s.upstreams[%d]", path, i)
		name := at + ".name"
		if route.Upstream != "" {
			name = path + ".upstream"
		}
		c.checkUpstreamName(r, name, target.Name)
		if seen[target.Name] {
			r.bad(name, target.Name, "each upstream once")
		}
		seen[target.Name] = true
		within(r, at+".weight", target.Weight, 0, 1_000_000)
		if target.UpstreamModel != "" && !isModelName(target.UpstreamModel) {
			r.bad(at+".upstream_model", target.UpstreamModel, "a model name")
		}
	}
}

func (c *Config) checkUpstreamName(r *report, key, name string) {
	names := sortedKeys(c.Upstreams)
	switch _, known := c.Upstreams[name]; {
	case known:
	case len(names) == 0:
		r.bad(key, name, "the name of an upstream; there is none yet under upstreams")
	default:
		r.bad(key, name, "the name of an upstream: "+alternatives(names))
	}
}

func checkModels(r *report, path string, route Route) {
	if len(route.Models) == 0 {
		r.missing(path+".models", `a list of model names, prefixes such as "wan-*", or "*"`)
	}
	for j, pattern := range route.Models {
		if name := strings.TrimSuffix(pattern, "*"); pattern == "" || strings.Contains(name, "*") || !isModelName(name+"x") {
			r.bad(fmt.Sprintf("%s.models[%d]", path, j), pattern, `a model name, a prefix such as "wan-*", or "*"; * stands at the end only`)
		}
	}
	if route.UpstreamModel != "" && len(route.ModelMap) > 0 {
		r.bad(path+".upstream_model", route.UpstreamModel, "either upstream_model or model_map, not both")
	}
	if route.UpstreamModel != "" && !isModelName(route.UpstreamModel) {
		r.bad(path+".upstream_model", route.UpstreamModel, "a model name")
	}
	for _, from := range sortedKeys(route.ModelMap) {
		if to := route.ModelMap[from]; !isModelName(from) || !isModelName(to) {
			r.bad(join(path+".model_map", from), to, "a model name for a model name")
		}
	}
}

func isModelName(name string) bool {
	return name != "" && len(name) <= maxModelName && !strings.ContainsFunc(name, func(c rune) bool { return unicode.IsControl(c) || unicode.IsSpace(c) })
}

func checkBounds(r *report, path string, route Route) {
	within(r, path+".max_in_flight", route.MaxInFlight, 1, 1_000_000)
	within(r, path+".max_queued", route.MaxQueued, 1, 1_000_000_000)
	within(r, path+".poll.interval", route.Poll.Interval, 10*time.Millisecond, time.Hour)
	within(r, path+".poll.jitter", route.Poll.Jitter, 0, 0.5)
	within(r, path+".timeouts.queue", route.Timeouts.Queue, 10*time.Millisecond, year)
	within(r, path+".timeouts.create", route.Timeouts.Create, 10*time.Millisecond, time.Hour)
	within(r, path+".timeouts.deadline", route.Timeouts.Deadline, 10*time.Millisecond, year)
	within(r, path+".timeouts.archive", route.Timeouts.Archive, 10*time.Millisecond, 24*time.Hour)
	within(r, path+".timeouts.first_byte", route.Timeouts.FirstByte, 10*time.Millisecond, 24*time.Hour)
	within(r, path+".timeouts.idle", route.Timeouts.Idle, 10*time.Millisecond, 24*time.Hour)
	within(r, path+".timeouts.total", route.Timeouts.Total, 10*time.Millisecond, 24*time.Hour)
	// The ticker extends held messages every third of it, and a second is what one round over many messages may take.
	within(r, path+".ack_wait", route.AckWait, 3*time.Second, time.Hour)
}

// checkTaskLog wants the log to outlive the jobs that it records, and to have room for those in work.
func (c *Config) checkTaskLog(r *report) {
	tasks, inFlight := c.NATS.Streams.Tasks, int64(0)
	for i, route := range c.Routes {
		inFlight += int64(min(max(route.MaxInFlight, 0), 1_000_000))
		if life := route.longestLife(c.Chat.MaxAttempts); 2*life >= tasks.MaxAge {
			r.bad("nats.streams.tasks.max_age", tasks.MaxAge, fmt.Sprintf(
				"more than %s, twice the longest life of a job of routes[%d] (%s); or a shorter timeouts.queue, deadline or total there", formatDuration(2*life), i, route.Name))
		}
	}
	if need := 10 * Size(inFlight) * eventsPerJob * eventBytes; tasks.MaxBytes < need {
		r.bad("nats.streams.tasks.max_bytes", tasks.MaxBytes, fmt.Sprintf(
			"at least %s: a tenth of it must hold %d events of %s for each of the %d jobs in flight (sum of max_in_flight)", need, eventsPerJob, eventBytes, inFlight))
	}
}
