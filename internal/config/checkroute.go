package config

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/genbus/genbus/internal/protocol"
)

const maxModelName = 256

func (c *Config) checkRoutes(r *report) {
	if len(c.Routes) == 0 && len(c.Upstreams) > 1 {
		r.missing("routes", "at least one route: with several upstreams, routes decide which model goes where")
	}
	first := map[string]int{}
	for i, route := range c.Routes {
		path := fmt.Sprintf("routes[%d]", i)
		checkToken(r, path+".name", route.Name)
		if other, taken := first[route.Name]; taken {
			r.bad(path+".name", route.Name, fmt.Sprintf("a unique name; routes[%d] has this one", other))
		} else {
			first[route.Name] = i
		}
		c.checkTarget(r, path, route)
		checkModels(r, path, route)
		checkBounds(r, path, route)
	}
}

func (c *Config) checkTarget(r *report, path string, route Route) {
	c.checkTargets(r, path, route)
	oneOf(r, path+".kind", route.Kind, KindVideo, KindChat)
	oneOf(r, path+".on_unknown_outcome", route.OnUnknownOutcome, OnUnknownFail, OnUnknownResubmit)
	if route.InputReference != "" {
		oneOf(r, path+".input_reference", route.InputReference, InputReferenceObject, InputReferenceString)
	}
	if route.Body != "" {
		oneOf(r, path+".body", route.Body, BodyJSON, BodyMultipart)
	}
	switch route.Kind {
	case KindVideo:
		checkProtocol(r, path, route)
		checkUnused(r, path, "chat", map[string]bool{
			"retry_timeouts":      route.RetryTimeouts,
			"queued_usage":        !route.QueuedUsage,
			"timeouts.first_byte": route.Timeouts.FirstByte != defaultTimeouts.FirstByte,
			"timeouts.idle":       route.Timeouts.Idle != defaultTimeouts.Idle,
			"timeouts.total":      route.Timeouts.Total != defaultTimeouts.Total,
		})
	case KindChat:
		if route.Protocol != "" {
			r.bad(path+".protocol", route.Protocol, "no protocol; only video routes have one")
		}
		checkUnused(r, path, "video", map[string]bool{
			"archive":            route.Archive,
			"gateway":            route.Gateway,
			"input_reference":    route.InputReference != "",
			"body":               route.Body != "",
			"on_unknown_outcome": route.OnUnknownOutcome != OnUnknownFail,
			"poll":               route.Poll != defaultPoll,
			"timeouts.create":    route.Timeouts.Create != defaultTimeouts.Create,
			"timeouts.deadline":  route.Timeouts.Deadline != defaultTimeouts.Deadline,
			"timeouts.archive":   route.Timeouts.Archive != defaultTimeouts.Archive,
		})
	}
}

// checkUnused rejects the keys below path that are set, but have an effect only on routes of another
// kind.
func checkUnused(r *report, path, kind string, set map[string]bool) {
	for _, key := range sortedKeys(set) {
		if set[key] {
			r.add(path+"."+key, "is for "+kind+" routes; want it left out")
		}
	}
}

// checkProtocol rejects options that the route's protocol ignores, because they would seem to have
// an effect.
func checkProtocol(r *report, path string, route Route) {
	oneOf(r, path+".protocol", route.Protocol, protocolsWith(func(protocol.Info) bool { return true })...)
	p, known := protocol.Find(route.Protocol)
	if !known {
		return
	}
	if route.InputReference != "" && !p.InputReference {
		with := protocolsWith(func(p protocol.Info) bool { return p.InputReference })
		r.add(path+".input_reference", "is for protocol "+alternatives(with)+"; want it left out with protocol "+route.Protocol)
	}
	if route.Body != "" && !p.Forms {
		with := protocolsWith(func(p protocol.Info) bool { return p.Forms })
		r.add(path+".body", "is for protocol "+alternatives(with)+"; want it left out with protocol "+route.Protocol)
	}
	if route.Gateway && !p.Gateway {
		r.add(path+".gateway", "changes nothing with protocol "+route.Protocol+"; want it left out")
	}
}

// checkTargets requires that every upstream of the route exists and appears once.
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
		c.checkSigned(r, name, route, target.Name)
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
	case known, r.follows("upstreams"):
	case len(names) == 0:
		r.bad(key, name, "the name of an upstream; add one under upstreams")
	default:
		r.bad(key, name, "the name of an upstream: "+alternatives(names))
	}
}

// checkSigned requires a protocol with signatures if the upstream uses a key pair.
func (c *Config) checkSigned(r *report, key string, route Route, upstream string) {
	if c.Upstreams[upstream].Auth != AuthSigned {
		return
	}
	what := fmt.Sprintf("is %s (auth: signed), but route %s ", shown(upstream), shown(route.Name))
	p, known := protocol.Find(route.Protocol)
	switch {
	case route.Kind == KindChat:
		r.add(key, what+"is for chats, which cannot be signed; want an upstream with auth: bearer")
	case known && !p.Signed:
		r.add(key, what+"speaks protocol "+p.Name+", which has no signature; want protocol "+alternatives(protocolsWith(func(p protocol.Info) bool { return p.Signed }))+", or an upstream with auth: bearer")
	}
}

func protocolsWith(support func(protocol.Info) bool) []string {
	var names []string
	for _, p := range protocol.All() {
		if support(p) {
			names = append(names, p.Name)
		}
	}
	return names
}

func checkModels(r *report, path string, route Route) {
	if len(route.Models) == 0 {
		r.missing(path+".models", `a list of model names, prefixes such as "wan-*", or "*"`)
	}
	for j, pattern := range route.Models {
		if name := strings.TrimSuffix(pattern, "*"); pattern == "" || strings.Contains(name, "*") || !isModelName(name+"x") {
			r.bad(fmt.Sprintf("%s.models[%d]", path, j), pattern, `a model name, a prefix such as "wan-*", or "*"; * is allowed only at the end`)
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
	if route.Kind == KindVideo || route.Kind == KindChat { // the default depends on the kind
		within(r, path+".max_in_flight", route.MaxInFlight, 1, 1_000_000)
	}
	within(r, path+".max_queued", route.MaxQueued, 1, 1_000_000_000)
	within(r, path+".ready_jobs", route.ReadyJobs, 0, 1_000_000_000)
	within(r, path+".poll.interval", route.Poll.Interval, 10*time.Millisecond, time.Hour)
	within(r, path+".poll.jitter", route.Poll.Jitter, 0, 0.5)
	within(r, path+".timeouts.queue", route.Timeouts.Queue, 10*time.Millisecond, year)
	within(r, path+".timeouts.create", route.Timeouts.Create, 10*time.Millisecond, time.Hour)
	within(r, path+".timeouts.deadline", route.Timeouts.Deadline, 10*time.Millisecond, year)
	within(r, path+".timeouts.archive", route.Timeouts.Archive, 10*time.Millisecond, 24*time.Hour)
	within(r, path+".timeouts.first_byte", route.Timeouts.FirstByte, 10*time.Millisecond, 24*time.Hour)
	within(r, path+".timeouts.idle", route.Timeouts.Idle, 10*time.Millisecond, 24*time.Hour)
	within(r, path+".timeouts.total", route.Timeouts.Total, 10*time.Millisecond, 24*time.Hour)
	// A ticker extends held messages at intervals of a third of ack_wait, and extending many
	// messages may take a second.
	within(r, path+".ack_wait", route.AckWait, 3*time.Second, time.Hour)
}

// checkTaskLog requires that the log keeps events for longer than twice a job's longest life.
func (c *Config) checkTaskLog(r *report) {
	tasks := c.NATS.Streams.Tasks
	for i, route := range c.Routes {
		path := fmt.Sprintf("routes[%d]", i)
		if life := route.longestLife(c.Chat.MaxAttempts); 2*life >= tasks.MaxAge && !r.reportedBelow(path+".timeouts") {
			parts := "timeouts.queue, deadline or archive"
			if route.Kind == KindChat {
				parts = "timeouts.queue or total"
			}
			r.bad("nats.streams.tasks.max_age", tasks.MaxAge, fmt.Sprintf(
				"more than %s, twice the longest life of a job of routes[%d] (%s); or a shorter %s there", formatDuration(2*life), i, route.Name, parts))
		}
	}
}
