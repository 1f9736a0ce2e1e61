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

// Values of Route.Body.
const (
	BodyJSON      = "json"
	BodyMultipart = "multipart"
)

// Route sends jobs for certain models to its upstreams.
type Route struct {
	// Name of the route in subjects and metrics: letters, digits, _ and -. Required.
	Name string `yaml:"name"`
	// video or chat. Required.
	Kind string `yaml:"kind"`
	// Exact model names, prefixes such as "wan-*", or "*". The most specific pattern wins. Required.
	Models []string `yaml:"models"`
	// Name of the upstream; use upstreams for several. Default: none.
	Upstream string `yaml:"upstream"`
	// Upstreams of the route, in order, or by weight if any has one. All speak the route's protocol.
	Upstreams []Target `yaml:"upstreams"`
	// Model name to send instead of the caller's. Default: none.
	UpstreamModel string `yaml:"upstream_model"`
	// Model names to send, by the caller's model name. Default: none.
	ModelMap map[string]string `yaml:"model_map"`
	// Video only: primary, videos, kling or jimeng. Default: primary for video.
	Protocol string `yaml:"protocol"`
	// Video only, not for primary: the upstream is a gateway, which also requires the model in model
	// and the parameters in metadata. Default: false.
	Gateway bool `yaml:"gateway"`
	// Protocol videos only: the form in which the upstream requires an input_reference that is a URL:
	// object or string. Empty keeps the client's form. Default: none.
	InputReference string `yaml:"input_reference"`
	// Protocol videos only: how the upstream wants creates: multipart (a form) or json. Empty sends a
	// file as a form, and other requests as the client sent them, but as JSON with gateway or
	// input_reference. Default: none.
	Body string `yaml:"body"`
	// Video only: copy results to the object store. Default: false.
	Archive bool `yaml:"archive"`
	// Group of the models in GET /v1/models. Default: the protocol; chat for chats.
	Group string `yaml:"group"`
	// Abilities of the models in GET /v1/models, such as [text_to_video, image_to_video]. Default:
	// none.
	Modes []string `yaml:"modes"`
	// Maximum jobs in progress at once, over all replicas. Default: 100 for video, 64 for chat.
	MaxInFlight int `yaml:"max_in_flight"`
	// Maximum waiting jobs; genbus refuses further ones. Default: 100000.
	MaxQueued int `yaml:"max_queued"`
	// Size of the ready window, whose jobs start in order of arrival. Further jobs become ready in
	// turn by tenant. 0: the free slots of max_in_flight plus the jobs that the route starts in about
	// a second. Default: 0.
	ReadyJobs int `yaml:"ready_jobs"`
	// What to do if the upstream may have accepted a create: fail, or resubmit if the upstream
	// honours the Idempotency-Key. Default: fail.
	OnUnknownOutcome string   `yaml:"on_unknown_outcome"`
	Poll             Poll     `yaml:"poll"`
	Timeouts         Timeouts `yaml:"timeouts"`
	// How long a job's holder may be silent before another replica takes over the job. Default: 60s.
	AckWait time.Duration `yaml:"ack_wait"`
	// Chat only: repeat calls that timed out, although the upstream may charge for each. Default:
	// false.
	RetryTimeouts bool `yaml:"retry_timeouts"`
	// Chat only: request the token usage in queued, streamed chats. Default: true.
	QueuedUsage bool `yaml:"queued_usage"`
	// Keep the request of each queued job, including its prompt, for nats.streams.tasks.max_age, so
	// that operators can submit it again. genbus refuses a job whose request it cannot store. Default:
	// false.
	KeepRequests bool `yaml:"keep_requests"`
	// Accept no new jobs and finish the accepted ones, as the step before removing the route. New jobs
	// go to another route that serves their model, if there is one. Default: false.
	Draining bool `yaml:"draining"`
}

// Target is one upstream of a route.
type Target struct {
	// Name of the upstream. Required.
	Name string `yaml:"name"`
	// Share of jobs that start at this upstream, relative to all weights; 0 to use it only if the
	// others fail. Default: 0.
	Weight int `yaml:"weight"`
	// Model name to send to this upstream. Default: none.
	UpstreamModel string `yaml:"upstream_model"`
}

// Poll configures polling of video tasks.
type Poll struct {
	// Time between two polls of a task. Use 100ms or more for a real upstream. Default: 10s.
	Interval time.Duration `yaml:"interval"`
	// Random share of the interval, 0 to 0.5. Default: 0.1.
	Jitter float64 `yaml:"jitter"`
}

// Timeouts bounds each phase of a job.
type Timeouts struct {
	// From acceptance to the first submission. Default: 48h.
	Queue time.Duration `yaml:"queue"`
	// Video: one create request. Default: 60s.
	Create time.Duration `yaml:"create"`
	// Video: from the first submission to the end. Default: 24h.
	Deadline time.Duration `yaml:"deadline"`
	// Video: from the upstream's success to the end of the copy. Default: 10m.
	Archive time.Duration `yaml:"archive"`
	// Chat: from the request to the first byte of a streamed answer. Default: 10m.
	FirstByte time.Duration `yaml:"first_byte"`
	// Chat: silence during an answer. Default: 10m.
	Idle time.Duration `yaml:"idle"`
	// Chat: from the request to the end of the answer. Default: 30m.
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

var defaultPoll = Poll{Interval: 10 * time.Second, Jitter: 0.1}

var defaultTimeouts = Timeouts{
	Queue: 48 * time.Hour, Create: time.Minute, Deadline: 24 * time.Hour, Archive: 10 * time.Minute,
	// Models may think for minutes without sending anything, before or after the first byte. 300 s are
	// often too short (QuantumNous/new-api#2797), 8.5 min were seen (openai/codex#39771), and OpenAI's
	// SDKs wait 10 min. TCP and HTTP/2 detect dead connections much earlier.
	FirstByte: 10 * time.Minute, Idle: 10 * time.Minute, Total: 30 * time.Minute,
}

func (r *Route) setDefaults() {
	*r = Route{
		MaxQueued:        100_000,
		OnUnknownOutcome: OnUnknownFail,
		Poll:             defaultPoll,
		Timeouts:         defaultTimeouts,
		AckWait:          time.Minute,
		QueuedUsage:      true,
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
