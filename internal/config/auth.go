package config

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
)

// APIKey lets the holder of a key act as a tenant. Several keys may name one tenant.
type APIKey struct {
	// Tenant that the key stands for: letters, digits, _ and -. Required.
	Tenant string `yaml:"tenant"`
	// Environment variable that holds the key; this or key_file. Default: none.
	KeyEnv string `yaml:"key_env"`
	// File that holds the key; this or key_env. Default: none.
	KeyFile string `yaml:"key_file"`
	// Access key of a key pair with which the tenant signs requests on a vendor's paths: letters, digits, _, . and -; it
	// is no secret. Default: none.
	AccessKey string `yaml:"access_key"`
	// Environment variable that holds the secret key of the pair, of 16 bytes or more. Default: none.
	SecretKeyEnv string `yaml:"secret_key_env"`
	// File that holds the secret key of the pair, of 16 bytes or more. Default: none.
	SecretKeyFile string `yaml:"secret_key_file"`

	// Key and SecretKey are the loaded secrets.
	Key, SecretKey Secret `yaml:"-"`
}

// Pair returns the tenant and the secret key of an access key, and whether the access key is known. An access key is
// public, so that a look-up by it tells nothing.
func (c *Config) Pair(accessKey string) (tenant string, secret Secret, ok bool) {
	for _, k := range c.APIKeys {
		if accessKey != "" && k.AccessKey == accessKey && !k.SecretKey.Empty() {
			return k.Tenant, k.SecretKey, true
		}
	}
	return "", Secret{}, false
}

// tenantKey holds only a hash, so that no dump of a Config shows a key.
type tenantKey struct {
	sum    [sha256.Size]byte
	tenant string
}

// Tenant returns the tenant of an API key, and whether the key is known. Without configured keys everybody is
// DefaultTenant, whatever they send. The time it takes depends on the number of keys only.
func (c *Config) Tenant(key string) (tenant string, ok bool) {
	if len(c.APIKeys) == 0 {
		return DefaultTenant, true
	}
	sum := sha256.Sum256([]byte(key))
	found := -1
	for i := range c.tenants {
		equal := subtle.ConstantTimeCompare(sum[:], c.tenants[i].sum[:])
		found = subtle.ConstantTimeSelect(equal, i, found)
	}
	if found < 0 {
		return "", false
	}
	return c.tenants[found].tenant, true
}

// indexTenants builds the look-up of Tenant. An empty key is left out: it is a problem of its own, and must match
// nobody.
func (c *Config) indexTenants(r *report) {
	c.tenants = make([]tenantKey, 0, len(c.APIKeys))
	first := map[[sha256.Size]byte]int{}
	for i, k := range c.APIKeys {
		if k.Key.Empty() {
			continue
		}
		sum := sha256.Sum256([]byte(k.Key.Reveal()))
		if other, taken := first[sum]; taken {
			r.say(fmt.Sprintf("api_keys[%d]", i), fmt.Sprintf("holds the same key as api_keys[%d]; want a key of its own for each entry", other))
			continue
		}
		first[sum] = i
		c.tenants = append(c.tenants, tenantKey{sum: sum, tenant: k.Tenant})
	}
}
