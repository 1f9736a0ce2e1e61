package config

// Upstreams are the upstream services by name.
type Upstreams map[string]Upstream

// Upstream is one service that genbus calls.
type Upstream struct {
	// Base address, http or https, without /v1: genbus adds the paths. Required.
	BaseURL string `yaml:"base_url"`
	// Environment variable that holds the API key; without a key no Authorization header is sent. Default: none.
	KeyEnv string `yaml:"key_env"`
	// File that holds the API key. Default: none.
	KeyFile string `yaml:"key_file"`
	// Idle connections that are kept open. Default: 256.
	MaxIdleConns int `yaml:"max_idle_conns"`
	// Headers added to every request; nothing secret, and none that genbus sets itself. Default: none.
	Headers map[string]string `yaml:"headers"`

	// Key is the loaded API key; empty when the upstream takes none.
	Key Secret `yaml:"-"`
}

// NewUpstream returns an upstream with the default of every field.
func NewUpstream(baseURL string) Upstream {
	return Upstream{BaseURL: baseURL, MaxIdleConns: 256}
}

func (u *Upstream) setDefaults() { *u = NewUpstream("") }
