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
	// Base address, http or https. genbus adds /v1, unless the address has a version segment such as
	// v1, v4 or v1beta, and paths such as /chat/completions. Required.
	BaseURL string `yaml:"base_url"`
	// Path between base_url and paths such as /chat/completions, such as "/v2"; "/" for none. Not for
	// kling and jimeng. Default: /v1 if base_url has no version segment, none otherwise.
	VersionPath string `yaml:"version_path"`
	// How genbus authenticates: bearer (API key), or signed (access_key and secret_key; only for kling
	// and jimeng). Default: bearer.
	Auth string `yaml:"auth"`
	// Environment variable that holds the API key; without a key genbus sends no Authorization
	// header. Default: none.
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
	// Several keys instead of the single one above; jobs take them in turn.
	Keys []UpstreamKey `yaml:"keys"`
	// Path before a vendor's paths, such as "/kling"; "/" for none. Default: the protocol's segment
	// with bearer (a gateway), none with signed (the vendor itself).
	VendorPath string `yaml:"vendor_path"`
	// Maximum held jobs for each key in each replica; 0 for no limit. Default: 0.
	MaxConcurrent int `yaml:"max_concurrent"`
	// Maximum submissions and chats per second for each key in each replica; 0 for no limit. Default:
	// 0.
	RatePerSecond float64 `yaml:"rate_per_second"`
	// How long genbus avoids a key that the upstream refused while other keys work. Default: 5m.
	KeyCooldown time.Duration `yaml:"key_cooldown"`
	// When genbus stops calling a failing upstream for a while.
	Breaker Breaker `yaml:"breaker"`
	// Whether results may have loopback, private and link-local addresses other than that of base_url.
	// If true, HTTPS_PROXY also applies to other hosts. Default: false.
	PrivateResults bool `yaml:"private_results"`
	// Idle connections to keep open; 0 to reuse no connection. Default: 256.
	MaxIdleConns int `yaml:"max_idle_conns"`
	// Whether video creates over HTTP/1.1 reuse connections. If the upstream closes one at that
	// moment, the create may end as submission_outcome_unknown. Default: false.
	ReuseConnectionsForCreates bool `yaml:"reuse_connections_for_creates"`
	// Headers added to every request. They must not be secret or replace a header that genbus sets.
	// Default: none.
	Headers map[string]string `yaml:"headers"`

	// Key, AccessKey and SecretKey are the loaded secrets, or empty.
	Key, AccessKey, SecretKey Secret `yaml:"-"`
}

// UpstreamKey is one of several keys of an upstream.
type UpstreamKey struct {
	// Name of the key in tasks, logs and metrics: letters, digits, _ and -. Required.
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
	// Consecutive failures (unreachable, no answer, 5xx) that open the breaker. For video creates on
	// routes with another upstream, the first failure opens it. 0: no breaker. Default: 10.
	Failures int `yaml:"failures"`
	// How long the breaker stays open before one job may try again. Default: 15s.
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
