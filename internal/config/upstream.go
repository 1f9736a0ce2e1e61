package config

import "time"

// Upstreams holds the upstream services by name.
type Upstreams map[string]Upstream

// Values of Upstream.Auth.
const (
	AuthBearer = "bearer"
	AuthSigned = "signed"
)

// Upstream is a service that genbus calls.
type Upstream struct {
	// Base address, http or https, without /v1: genbus adds the paths. Required.
	BaseURL string `yaml:"base_url"`
	// How genbus proves who it is: bearer (the API key), or signed (with access_key and secret_key, in the way of the
	// route's protocol: a JWT for kling, HMAC-SHA256 for jimeng). Default: bearer.
	Auth string `yaml:"auth"`
	// Environment variable that holds the API key; without a key no Authorization header is sent. Default: none.
	KeyEnv string `yaml:"key_env"`
	// File that holds the API key. Default: none.
	KeyFile string `yaml:"key_file"`
	// Environment variable that holds the access key, for auth: signed. Default: none.
	AccessKeyEnv string `yaml:"access_key_env"`
	// File that holds the access key. Default: none.
	AccessKeyFile string `yaml:"access_key_file"`
	// Environment variable that holds the secret key, for auth: signed. Default: none.
	SecretKeyEnv string `yaml:"secret_key_env"`
	// File that holds the secret key. Default: none.
	SecretKeyFile string `yaml:"secret_key_file"`
	// Several keys in place of the one above; jobs take them in turn.
	Keys []UpstreamKey `yaml:"keys"`
	// Path before a vendor's own paths, such as "/kling"; "/" for none. Default: the protocol's segment with bearer (a
	// gateway), none with signed (the vendor itself).
	VendorPath string `yaml:"vendor_path"`
	// Most held jobs for each key, in each replica; 0 for no limit but the route's max_in_flight, which counts all
	// replicas. Default: 0.
	MaxConcurrent int `yaml:"max_concurrent"`
	// Most submissions and chats a second for each key, in each replica; 0 for no limit. Default: 0.
	RatePerSecond float64 `yaml:"rate_per_second"`
	// How long a key that the upstream refused (401, 402, 403, quota) is not used while other keys are left.
	// Default: 5m.
	KeyCooldown time.Duration `yaml:"key_cooldown"`
	// When an upstream that fails is left alone for a while.
	Breaker Breaker `yaml:"breaker"`
	// Whether results may lie at loopback, private and link-local addresses other than base_url's own. Only then are
	// other hosts reached through the proxy that HTTPS_PROXY names. Default: false.
	PrivateResults bool `yaml:"private_results"`
	// Idle connections that are kept open for the next call; 0 for none: no connection is reused. Default: 256.
	MaxIdleConns int `yaml:"max_idle_conns"`
	// Whether creates of videos over HTTP/1.1 reuse connections too. It saves a handshake. A create whose connection the
	// upstream closes at that moment may end as submission_outcome_unknown. Over HTTP/2 they share one anyway, unless
	// max_idle_conns is 0. Default: false.
	ReuseConnectionsForCreates bool `yaml:"reuse_connections_for_creates"`
	// Headers added to every request; nothing secret, and none that genbus sets itself. Default: none.
	Headers map[string]string `yaml:"headers"`

	// Key, AccessKey and SecretKey are the loaded secrets, or empty.
	Key, AccessKey, SecretKey Secret `yaml:"-"`
}

// UpstreamKey is one of several keys of an upstream.
type UpstreamKey struct {
	// Name of the key in tasks, logs and metrics: letters, digits, _ and -; never the key itself. Required.
	Name string `yaml:"name"`
	// Environment variable that holds the API key. Default: none.
	KeyEnv string `yaml:"key_env"`
	// File that holds the API key. Default: none.
	KeyFile string `yaml:"key_file"`
	// Environment variable that holds the access key, for auth: signed. Default: none.
	AccessKeyEnv string `yaml:"access_key_env"`
	// File that holds the access key. Default: none.
	AccessKeyFile string `yaml:"access_key_file"`
	// Environment variable that holds the secret key, for auth: signed. Default: none.
	SecretKeyEnv string `yaml:"secret_key_env"`
	// File that holds the secret key. Default: none.
	SecretKeyFile string `yaml:"secret_key_file"`

	// Key, AccessKey and SecretKey are the loaded secrets, or empty.
	Key, AccessKey, SecretKey Secret `yaml:"-"`
}

// Breaker configures the circuit breaker of an upstream, in each replica.
type Breaker struct {
	// Failures in a row (not reached, no answer, 5xx) that open it. For video creates of routes with another upstream the
	// first failure opens it. 0: no breaker. Default: 10.
	Failures int `yaml:"failures"`
	// How long it stays open before one job may try again. Default: 15s.
	OpenFor time.Duration `yaml:"open_for"`
}

// NewUpstream returns an upstream with defaults in all other fields.
func NewUpstream(baseURL string) Upstream {
	return Upstream{
		BaseURL: baseURL, Auth: AuthBearer, KeyCooldown: 5 * time.Minute,
		Breaker: Breaker{Failures: 10, OpenFor: 15 * time.Second}, MaxIdleConns: 256,
	}
}

func (u *Upstream) setDefaults() { *u = NewUpstream("") }

// Credentials returns the upstream's keys. If keys is empty, it returns the single key, which has
// no name.
func (u Upstream) Credentials() []UpstreamKey {
	if len(u.Keys) > 0 {
		return u.Keys
	}
	return []UpstreamKey{{Key: u.Key, AccessKey: u.AccessKey, SecretKey: u.SecretKey}}
}
