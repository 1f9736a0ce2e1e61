package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
	"github.com/genbus/genbus/test/faultinject/load"
)

// Models of the clients. Each has its own route.
const (
	// modelFilm fails a task with an unknown outcome. Its upstream creates a paid task for each
	// POST.
	modelFilm = "film"
	// modelReel resubmits a task with an unknown outcome. Its upstream honours the idempotency key.
	modelReel = "reel"
	modelTalk = "talk"
	// modelPair is like modelFilm, with two upstreams, the first of which is frail.
	modelPair = "pair"
)

// tenants submit jobs. The second has a rate limit.
var tenants = []load.Tenant{{Name: "red", Key: "soak-key-of-the-red-tenant"}, {Name: "blue", Key: "soak-key-of-the-blue-tenant"}}

// grey is the tenant of the step garbage. It needs a key to list its jobs.
var grey = load.Tenant{Name: garbageTenant, Key: "soak-key-of-the-grey-tenant"}

const operatorKey = "soak-key-of-the-operator"

// requestRate is the requests_per_second of the second tenant.
const requestRate = 60

// Timeouts of the service, short enough for a run to reach each of them.
const (
	createTimeout  = 3 * time.Second
	pollEvery      = 300 * time.Millisecond
	queueTimeout   = time.Minute
	deadline       = time.Minute
	firstByte      = 5 * time.Second
	archiveTimeout = 20 * time.Second
	idle           = 3 * time.Second
	chatTotal      = 30 * time.Second
	stopGrace      = 10 * time.Second
	chatAttempts   = 2
	// answerGrace is the service's wait for the answer to a create after submit_until.
	answerGrace = 2 * time.Second
	// endGrace is how long after its deadline a job may end if there is no fault. Another replica
	// may first have to detect that the holder is gone.
	endGrace = 30 * time.Second
	// openFor is how long a breaker stays open before a trial.
	openFor = 2 * time.Second
	// clockSkew is the allowed difference between two clock readings of the same moment.
	clockSkew = 250 * time.Millisecond
	// late is the duration of an upstream task that misses the deadline.
	late = deadline + 20*time.Second
)

// checked returns the configuration for the checker.
func checked() check.Config {
	return check.Config{
		Create: createTimeout, Answer: answerGrace, ChatAttempts: chatAttempts, Resubmit: map[string]bool{modelReel: true},
		Grace: endGrace, Skew: clockSkew, ChunkAge: 15 * time.Minute,
	}
}

// setup contains the settings that differ between replicas.
type setup struct {
	Name       string // of the replica, sent to the upstreams
	HTTP, GRPC string // addresses
	// NATS is the URL of the cluster, or empty for an embedded broker at Listen.
	NATS, Listen, DataDir string
	Frail, Strict, Honest string // base URLs of the upstreams
	Draining              string // a draining route
	SmallLog              bool
}

const mib = 1 << 20

// deadBytes is the max_bytes of each dead letter stream, which a burst of garbage exceeds.
const deadBytes = 64 * mib

// write replaces the configuration file of a replica atomically.
func (s setup) write(path string) error {
	data, err := s.yaml()
	if err != nil {
		return err
	}
	next := path + ".next"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}

func (s setup) yaml() ([]byte, error) {
	nats := map[string]any{
		"streams": map[string]any{
			"requests": map[string]any{"max_bytes": 1024 * mib},
			"tasks":    map[string]any{"max_bytes": s.logBytes()},
			"dead":     map[string]any{"max_bytes": deadBytes},
			"rejected": map[string]any{"max_bytes": deadBytes},
			"chunks":   map[string]any{"max_bytes": 128 * mib},
		},
	}
	if s.NATS != "" {
		nats["url"] = s.NATS
	} else {
		nats["listen"], nats["data_dir"] = s.Listen, s.DataDir
	}
	var keys []any
	for _, t := range append(slices.Clone(tenants), grey) {
		keys = append(keys, map[string]string{"tenant": t.Name, "key_sha256": hash(t.Key)})
	}
	return yaml.Marshal(map[string]any{
		"api_keys": keys, "operator_keys": []any{map[string]string{"name": "soak", "key_sha256": hash(operatorKey)}},
		"tenants": map[string]any{tenants[1].Name: map[string]any{"requests_per_second": requestRate}},
		"http":    map[string]any{"addr": s.HTTP}, "grpc": map[string]any{"addr": s.GRPC}, "nats": nats,
		"log": map[string]any{"format": "json"}, "shutdown": map[string]any{"grace": stopGrace.String()},
		"chat": map[string]any{"max_attempts": chatAttempts},
		"upstreams": map[string]any{
			"frail": s.upstream(s.Frail), "strict": s.upstream(s.Strict), "honest": s.upstream(s.Honest),
		},
		"routes": s.routes(),
	})
}

// routes returns a route for each model, and the spare routes for models of a draining route.
func (s setup) routes() []map[string]any {
	all := []map[string]any{
		video(modelFilm, "strict", "fail"), archived(video(modelReel, "honest", "resubmit")), chat(modelTalk), paired(video(modelPair, "", "fail")),
		spare(video(spareVideo, "strict", "fail")), spare(chat(spareChat)),
	}
	for _, r := range all {
		r["draining"] = r["name"] == s.Draining
		r["ready_jobs"] = readyJobs
		if s.SmallLog {
			r["max_in_flight"] = smallInFlight
		}
	}
	return all
}

// With a small log, only a few jobs run at once. Their ends must fit into the last tenth of the
// log, no matter how large they are.
const (
	smallLog      = 24 * mib
	smallInFlight = 4
)

func (s setup) logBytes() int {
	if s.SmallLog {
		return smallLog
	}
	return 4096 * mib
}

// readyJobs is small, so that jobs wait in GENBUS_WAIT whenever a route is paused or its slots are
// taken.
const readyJobs = 16

// Models and routes for requests that no other route serves.
const (
	spareVideo = "spare-video"
	spareChat  = "spare-chat"
)

func spare(route map[string]any) map[string]any {
	route["models"] = []string{"*"}
	return route
}

func chat(model string) map[string]any {
	return map[string]any{
		"name": model, "kind": "chat", "models": []string{model}, "upstream": "strict", "upstream_model": "sandbox-chat",
		"ack_wait": ackWait.String(), "timeouts": map[string]any{
			"queue": queueTimeout.String(), "first_byte": firstByte.String(), "idle": idle.String(), "total": chatTotal.String(),
		},
	}
}

// hash returns the hash of a key for the configuration.
func hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// upstream returns an upstream with a short open_for, so that jobs get through between faults.
func (s setup) upstream(url string) map[string]any {
	return map[string]any{
		"base_url": url, "breaker": map[string]any{"failures": 10, "open_for": openFor.String()}, "headers": map[string]string{faultinject.ClientHeader: s.Name},
	}
}

// paired gives a route two upstreams, tried in this order.
func paired(route map[string]any) map[string]any {
	delete(route, "upstream")
	route["upstreams"] = []any{map[string]string{"name": "frail"}, map[string]string{"name": "strict"}}
	return route
}

func archived(route map[string]any) map[string]any {
	route["archive"] = true
	route["timeouts"].(map[string]any)["archive"] = archiveTimeout.String() //nolint:forcetypeassert // video sets a map
	return route
}

func video(model, upstream, unknown string) map[string]any {
	return map[string]any{
		"name": model, "kind": "video", "models": []string{model}, "upstream": upstream, "upstream_model": "sandbox-video",
		"on_unknown_outcome": unknown, "ack_wait": ackWait.String(), "max_in_flight": 300, "poll": map[string]any{"interval": pollEvery.String()},
		"timeouts": map[string]any{"queue": queueTimeout.String(), "create": createTimeout.String(), "deadline": deadline.String()},
	}
}
