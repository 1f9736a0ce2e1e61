package config

// APIKey maps a key to a tenant. A tenant may have several keys.
type APIKey struct {
	// Tenant that the key belongs to: letters, digits, _ and -. Required.
	Tenant string `yaml:"tenant"`
	// Environment variable that holds the key; one of key_env, key_file and key_sha256. Default: none.
	KeyEnv string `yaml:"key_env"`
	// File that holds the key. Default: none.
	KeyFile string `yaml:"key_file"`
	// SHA-256 of the key in hexadecimal, as "service key new" prints both: safe to write down here only because a generated
	// key cannot be found by trying. Default: none.
	KeySHA256 string `yaml:"key_sha256"`
	// Time from which the entry is refused, its key pair included, such as 2026-12-01T00:00:00Z. Default: none.
	NotAfter string `yaml:"not_after"`
	// Access key of a key pair with which the tenant signs requests on a vendor's paths: letters, digits, _, . and -; it
	// is no secret. Default: none.
	AccessKey string `yaml:"access_key"`
	// Environment variable that holds the secret key of the pair, of 16 bytes or more. Default: none.
	SecretKeyEnv string `yaml:"secret_key_env"`
	// File that holds the secret key of the pair, of 16 bytes or more. Default: none.
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
	// Environment variable that holds the key; one of key_env, key_file and key_sha256. Default: none.
	KeyEnv string `yaml:"key_env"`
	// File that holds the key. Default: none.
	KeyFile string `yaml:"key_file"`
	// SHA-256 of the key in hexadecimal, as "service key new" prints both. Default: none.
	KeySHA256 string `yaml:"key_sha256"`
	// Time from which the key is refused, such as 2026-12-01T00:00:00Z. Default: none.
	NotAfter string `yaml:"not_after"`
	// Whether the holder only reads: what changes something, or makes a job, is refused. Default: false.
	ReadOnly bool `yaml:"read_only"`

	// Key is the loaded secret. Prepare replaces it with its hash.
	Key Secret `yaml:"-"`

	known keyHash
}
