package config

// APIKey maps a key to a tenant. A tenant may have several keys.
type APIKey struct {
	// Tenant of the key: letters, digits, _ and -. Required.
	Tenant string `yaml:"tenant"`
	// Environment variable that holds the key. Set one of key_env, key_file and key_sha256. Default:
	// none.
	KeyEnv string `yaml:"key_env"`
	// File that holds the key. Default: none.
	KeyFile string `yaml:"key_file"`
	// SHA-256 of the key in hexadecimal, from "genbus key new". Safe in this file only because a
	// generated key cannot be guessed. Default: none.
	KeySHA256 string `yaml:"key_sha256"`
	// Time after which genbus refuses the key and its key pair, such as 2026-12-01T00:00:00Z. Default:
	// none.
	NotAfter string `yaml:"not_after"`
	// Access key of a key pair for signed requests on a vendor's paths: letters, digits, _, . and -.
	// Not secret. Default: none.
	AccessKey string `yaml:"access_key"`
	// Environment variable that holds the secret key of the pair: 16 bytes or more. Default: none.
	SecretKeyEnv string `yaml:"secret_key_env"`
	// File that holds the secret key of the pair: 16 bytes or more. Default: none.
	SecretKeyFile string `yaml:"secret_key_file"`

	// Key and SecretKey are the loaded secrets. Prepare replaces Key with its hash.
	Key, SecretKey Secret `yaml:"-"`

	known keyHash
}

// OperatorKey grants access to the operator methods only. Without operator keys, these methods are
// refused.
type OperatorKey struct {
	// Name of the operator in logs: letters, digits, _ and -. Required.
	Name string `yaml:"name"`
	// Environment variable that holds the key. Set one of key_env, key_file and key_sha256. Default:
	// none.
	KeyEnv string `yaml:"key_env"`
	// File that holds the key. Default: none.
	KeyFile string `yaml:"key_file"`
	// SHA-256 of the key in hexadecimal, from "genbus key new". Default: none.
	KeySHA256 string `yaml:"key_sha256"`
	// Time after which genbus refuses the key. Default: none.
	NotAfter string `yaml:"not_after"`
	// Whether genbus refuses calls that change something or create a job. Default: false.
	ReadOnly bool `yaml:"read_only"`

	// Key is the loaded secret. Prepare replaces it with its hash.
	Key Secret `yaml:"-"`

	known keyHash
}
