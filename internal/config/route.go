package config

import (
	"cmp"
	"slices"
	"time"

	"github.com/genbus/genbus/internal/protocol"
)

// Kinds of jobs.
const (
	KindVideo = "video"
	KindChat  = "chat"
)

// Values of Route.OnUnknownOutcome.
const (
	OnUnknownFail     = "fail"
	OnUnknownResubmit = "resubmit"
)

// Values of Route.InputReference.
const (
	InputReferenceObject = "object"
	InputReferenceString = "string"
)

// Route sends jobs for certain models to its upstreams.
type Route struct {
	// Name of the route in subjects and metrics: letters, digits, _ and -; unique. Required.
	Name string `yaml:"name"`
	// What it serves: video or chat. Required.
	Kind string `yaml:"kind"`
	// Models it serves: exact names, prefixes such as "wan-*", or "*"; the most specific pattern wins. Required.
	Models []string `yaml:"models"`
	// Name of the upstream it calls, where it is one; or upstreams. Default: none.
	Upstream string `yaml:"upstream"`
	// The upstreams it calls, in their order, or by weight where any has one. All speak the route's protocol.
	Upstreams []Target `yaml:"upstreams"`
	// Model name sent upstream instead of the caller's. Default: none.
	UpstreamModel string `yaml:"upstream_model"`
	// Model names sent upstream, by the caller's model name; others go as they are. Default: none.
	ModelMap map[string]string `yaml:"model_map"`
	// Wire protocol of a video upstream: primary, videos, kling or jimeng. Default: primary for video.
	Protocol string `yaml:"protocol"`
	// Video only, and not for protocol primary: a gateway is in front of a vendor's protocol, and wants the model as model
	// and parameters in metadata too. Default: false.
	Gateway bool `yaml:"gateway"`
	// Protocol videos only: how the upstream wants input_reference where it is a URL: object or string; empty sends what
	// the client sent. Default: none.
	InputReference string `yaml:"input_reference"`
	// Video only: copy the result to the object store before the upstream's URL expires. Default: false.
	Archive bool `yaml:"archive"`
	// Word for the models' group in GET /v1/models. Default: the protocol; chat for chats.
	Group string `yaml:"group"`
	// What the models can do, for GET /v1/models, such as [text_to_video, image_to_video]. Default: none.
	Modes []string `yaml:"modes"`
	// Most jobs in work at once, over all replicas. Default: 100 for video, 64 for chat.
	MaxInFlight int `yaml:"max_in_flight"`
	// Most jobs that wait; more are refused with retry advice. Default: 100000.
	MaxQueued int `yaml:"max_queued"`
	// Size of the ready window: most jobs that are ready to be taken, in the order of their arrival; further ones wait in
	// the backlog, and become ready in turn by tenant. A small one is fairer between tenants, a large one starts short
	// jobs faster. 0: it is measured, as the free places of max_in_flight and what the route starts in about a second. Default: 0.
	ReadyJobs int `yaml:"ready_jobs"`
	// When it cannot be known whether a create was accepted: fail, or resubmit where the upstream honours the
	// Idempotency-Key. Default: fail.
	OnUnknownOutcome string   `yaml:"on_unknown_outcome"`
	Poll             Poll     `yaml:"poll"`
	Timeouts         Timeouts `yaml:"timeouts"`
	// Time without a sign of life after which another replica takes over a job. Default: 60s.
	AckWait time.Duration `yaml:"ack_wait"`
	// Chat only: ask the upstream for token usage in queued, streamed chats. Default: true.
	QueuedUsage bool `yaml:"queued_usage"`
	// Keep the request of each accepted job, its prompt included, in the tenant's object store, as long as the log keeps the
	// job's first event (nats.streams.tasks.max_age), so that operators can submit it again. Where it cannot be stored the
	// job is refused. Inline chats are not kept, and requests above limits.claim_check_bytes always are. Default: false.
	KeepRequests bool `yaml:"keep_requests"`
	// Take no new jobs, and serve those that are accepted to their end: the step before the route is removed. New jobs go
	// to another route that serves their model, or are refused. Default: false.
	Draining bool `yaml:"draining"`
}

// Target is one upstream of a route.
type Target struct {
	// Name of the upstream. Required.
	Name string `yaml:"name"`
	// Share of the jobs that begin here, among all weights; 0 for none unless the others fail. Default: 0.
	Weight int `yaml:"weight"`
	// Model name sent to this upstream instead of the route's. Default: none.
	UpstreamModel string `yaml:"upstream_model"`
}

// Poll configures polling of video tasks.
type Poll struct {
	// Time between two polls of one task; 100ms or more for a real upstream. Default: 10s.
	Interval time.Duration `yaml:"interval"`
	// Part of the interval that varies at random, 0 to 0.5. Default: 0.1.
	Jitter float64 `yaml:"jitter"`
}

// Timeouts bounds each phase of a job.
type Timeouts struct {
	// Accepted to first submit. Default: 48h.
	Queue time.Duration `yaml:"queue"`
	// Video: one create request. Default: 60s.
	Create time.Duration `yaml:"create"`
	// Video: first submit to the end. Default: 24h.
	Deadline time.Duration `yaml:"deadline"`
	// Video: from the upstream's success to the end of the copy, where the result is archived. Default: 10m.
	Archive time.Duration `yaml:"archive"`
	// Chat: request to the first byte of the answer. Default: 120s.
	FirstByte time.Duration `yaml:"first_byte"`
	// Chat: silence inside a stream. Default: 60s.
	Idle time.Duration `yaml:"idle"`
	// Chat: request to the end of the answer. Default: 30m.
	Total time.Duration `yaml:"total"`
}

// NewRoute returns a route with defaults in all other fields. kind is KindVideo or KindChat.
func NewRoute(name, kind, upstream string, models ...string) Route {
	var r Route
	r.setDefaults()
	r.Name, r.Kind, r.Upstream, r.Models = name, kind, upstream, slices.Clone(models)
	r.fill()
	return r
}

// ModelFor returns the model name to send to an upstream of the route.
func (r Route) ModelFor(upstream, model string) string {
	for _, t := range r.Upstreams {
		if t.Name == upstream && t.UpstreamModel != "" {
			return t.UpstreamModel
		}
	}
	if mapped, ok := r.ModelMap[model]; ok {
		return mapped
	}
	if r.UpstreamModel != "" {
		return r.UpstreamModel
	}
	return model
}

func (r *Route) setDefaults() {
	*r = Route{
		MaxQueued:        100_000,
		OnUnknownOutcome: OnUnknownFail,
		Poll:             Poll{Interval: 10 * time.Second, Jitter: 0.1},
		Timeouts: Timeouts{
			Queue: 48 * time.Hour, Create: time.Minute, Deadline: 24 * time.Hour, Archive: 10 * time.Minute,
			FirstByte: 2 * time.Minute, Idle: time.Minute, Total: 30 * time.Minute,
		},
		AckWait:     time.Minute,
		QueuedUsage: true,
	}
}

// fill sets the defaults that depend on other fields.
func (r *Route) fill() {
	switch {
	case len(r.Upstreams) == 0 && r.Upstream != "":
		r.Upstreams = []Target{{Name: r.Upstream}}
	case len(r.Upstreams) == 1 && r.Upstream == "":
		r.Upstream = r.Upstreams[0].Name
	}
	if r.Kind == KindVideo && r.Protocol == "" {
		r.Protocol = protocol.Default().Name
	}
	if r.Group == "" {
		r.Group = cmp.Or(r.Protocol, r.Kind)
	}
	switch {
	case r.MaxInFlight != 0:
	case r.Kind == KindVideo:
		r.MaxInFlight = 100
	case r.Kind == KindChat:
		r.MaxInFlight = 64
	}
}

// longestLife returns the longest time from acceptance to the terminal event.
func (r Route) longestLife(chatAttempts int) time.Duration {
	if r.Kind == KindChat {
		return r.Timeouts.Queue + r.Timeouts.Total*time.Duration(chatAttempts)
	}
	// On any route a request may ask for an archived copy, which may start just before the
	// deadline.
	return r.Timeouts.Queue + r.Timeouts.Deadline + r.Timeouts.Archive
}
