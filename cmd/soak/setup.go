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

// Models that clients ask for. Each is a route of its own.
const (
	// modelFilm: an unknown outcome ends the task. Its upstream makes a paid task of
	// each POST.
	modelFilm = "film"
	// modelReel: an unknown outcome is submitted again. Its upstream honours the key.
	modelReel = "reel"
	modelTalk = "talk"
	// modelPair: as modelFilm, with two upstreams, of which the first is frail.
	modelPair = "pair"
)

// tenants ask for jobs. The second may not ask as often as it likes.
var tenants = []load.Tenant{{Name: "red", Key: "soak-key-of-the-red-tenant"}, {Name: "blue", Key: "soak-key-of-the-blue-tenant"}}

// grey is the tenant of the step garbage, whose jobs end at once: it has a key for its lists.
var grey = load.Tenant{Name: garbageTenant, Key: "soak-key-of-the-grey-tenant"}

// operatorKey is what pauses and resumes routes.
const operatorKey = "soak-key-of-the-operator"

// mostAsked is how many requests of the second tenant a replica takes each second.
const mostAsked = 60

// The times of the service, short, so that a run meets every one of them.
const (
	createTimeout = 3 * time.Second
	pollEvery     = 300 * time.Millisecond
	queueTimeout  = time.Minute
	deadline      = time.Minute
	firstByte     = 5 * time.Second
	// archiveTimeout bounds the copying of a result.
	archiveTimeout = 20 * time.Second
	idle           = 3 * time.Second
	chatTotal      = 30 * time.Second
	stopGrace      = 10 * time.Second
	chatAttempts   = 2
	// answerGrace is how long after submit_until the answer to a create is awaited;
	// the service's own.
	answerGrace = 2 * time.Second
	// endGrace is how long after its deadline a job may end while nothing is broken:
	// another replica may have to find out that the holder is gone.
	endGrace = 30 * time.Second
	// openFor is how long a breaker stays open before one job tries its upstream.
	openFor = 2 * time.Second
	// clockSkew is what two readings of the clock for one moment may differ by.
	clockSkew = 250 * time.Millisecond
	// late is when an upstream's task ends that misses the deadline.
	late = deadline + 20*time.Second
)

// checked is the configuration as the checker knows it.
func checked() check.Config {
	return check.Config{
		Create: createTimeout, Answer: answerGrace, ChatAttempts: chatAttempts, Resubmit: map[string]bool{modelReel: true},
		Grace: endGrace, Skew: clockSkew, ChunkAge: 15 * time.Minute,
	}
}

// setup is what differs between replicas.
type setup struct {
	Name       string // of the replica, which the upstreams are told
	HTTP, GRPC string // addresses
	// NATS is the cluster's, or empty for an embedded broker at Listen.
	NATS, Listen, DataDir string
	Frail, Strict, Honest string // upstreams: base URLs
	Draining              string // a route that is draining
	SmallLog              bool
}

const mib = 1 << 20

// deadBytes bounds either stream of letters: little enough for a burst of garbage to fill
// it.
const deadBytes = 64 * mib

// write writes the configuration file of a replica, at once.
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

// yaml is the configuration file of a replica.
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
		"tenants": map[string]any{tenants[1].Name: map[string]any{"requests_per_second": mostAsked}},
		"http":    map[string]any{"addr": s.HTTP}, "grpc": map[string]any{"addr": s.GRPC}, "nats": nats,
		"log": map[string]any{"format": "json"}, "shutdown": map[string]any{"grace": stopGrace.String()},
		"chat": map[string]any{"max_attempts": chatAttempts},
		"upstreams": map[string]any{
			"frail": s.upstream(s.Frail), "strict": s.upstream(s.Strict), "honest": s.upstream(s.Honest),
		},
		"routes": s.routes(),
	})
}

// routes are one for each model, and the spare ones for the models of a route that is
// draining.
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

// With a small log few jobs are in flight: the last tenth of it holds their ends, however large
// they are.
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

// readyJobs is little, so that jobs wait for their turn in GENBUS_WAIT whenever a route is
// paused or its slots are taken.
const readyJobs = 16

// Routes that serve what no other one does.
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

// hash is a key as a configuration may show it.
func hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// upstream has a breaker that closes soon, so that jobs come through between
// faults.
func (s setup) upstream(url string) map[string]any {
	return map[string]any{
		"base_url": url, "breaker": map[string]any{"failures": 10, "open_for": openFor.String()}, "headers": map[string]string{faultinject.ClientHeader: s.Name},
	}
}

// paired has a route two upstreams, of which the first comes first.
func paired(route map[string]any) map[string]any {
	delete(route, "upstream")
	route["upstreams"] = []any{map[string]string{"name": "frail"}, map[string]string{"name": "strict"}}
	return route
}

// archived has a route copy its results.
func archived(route map[string]any) map[string]any {
	route["archive"] = true
	route["timeouts"].(map[string]any)["archive"] = archiveTimeout.String() //nolint:forcetypeassert // video makes it one
	return route
}

func video(model, upstream, unknown string) map[string]any {
	return map[string]any{
		"name": model, "kind": "video", "models": []string{model}, "upstream": upstream, "upstream_model": "sandbox-video",
		"on_unknown_outcome": unknown, "ack_wait": ackWait.String(), "max_in_flight": 300, "poll": map[string]any{"interval": pollEvery.String()},
		"timeouts": map[string]any{"queue": queueTimeout.String(), "create": createTimeout.String(), "deadline": deadline.String()},
	}
}
