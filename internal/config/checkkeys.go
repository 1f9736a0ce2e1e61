package config

import (
	"fmt"
	"time"
)

// minKey is the minimum length in bytes of a key that is safe from guessing.
const minKey = 16

// checkAPIKeys validates the entries; indexKeys detects duplicate keys.
func (c *Config) checkAPIKeys(r *report) {
	pairs := map[string]int{}
	for i, k := range c.APIKeys {
		path := fmt.Sprintf("api_keys[%d]", i)
		checkToken(r, path+".tenant", k.Tenant)
		pair := k.AccessKey != ""
		entry{path, k.Key, k.KeyEnv, k.KeyFile, k.KeySHA256, k.NotAfter, k.known.held || pair}.check(r)
		if c.reachable() {
			strong(r, path, "key", k.Key, k.KeyEnv, k.KeyFile)
		}
		if secret := !k.SecretKey.Empty() || k.SecretKeyEnv != "" || k.SecretKeyFile != ""; pair != secret {
			r.add(path+".access_key", "and the secret key belong together; want both or neither")
		}
		if other, taken := pairs[k.AccessKey]; pair && taken {
			r.bad(path+".access_key", k.AccessKey, fmt.Sprintf("a unique access key; api_keys[%d] has this one", other))
		}
		pairs[k.AccessKey] = i
		checkPair(r, path, k)
	}
}

// checkPair requires an access key that needs no escaping in any vendor's signature, and a long
// secret key, because anyone who sees a token signed with it (HS256) can try keys offline.
func checkPair(r *report, path string, k APIKey) {
	if k.AccessKey != "" && !accessKeyPattern.MatchString(k.AccessKey) {
		r.bad(path+".access_key", k.AccessKey, "1 to 128 letters, digits, _, . or -")
	}
	strong(r, path, "secret_key", k.SecretKey, k.SecretKeyEnv, k.SecretKeyFile)
}

// strong requires a secret that is safe from guessing. Callers skip it for a tenant's plain key if
// only this machine can reach genbus, where keys are optional anyway.
func strong(r *report, path, name string, secret Secret, env, file string) {
	if secret.Empty() || len(secret.Reveal()) >= minKey {
		return
	}
	place := join(path, name+"_env")
	if env == "" && file != "" {
		place = join(path, name+"_file")
	}
	r.add(place, fmt.Sprintf("names a secret of fewer than %d bytes%s, which can be guessed; want a longer one, such as \"genbus key new\" prints", minKey, placeOf(env, file)))
}

func (c *Config) checkOperatorKeys(r *report) {
	for i, k := range c.OperatorKeys {
		path := fmt.Sprintf("operator_keys[%d]", i)
		checkToken(r, path+".name", k.Name)
		entry{path, k.Key, k.KeyEnv, k.KeyFile, k.KeySHA256, k.NotAfter, k.known.held}.check(r)
		strong(r, path, "key", k.Key, k.KeyEnv, k.KeyFile)
	}
}

// entry holds the fields that API keys and operator keys share. known means that the key is already
// loaded or not needed.
type entry struct {
	path                     string
	key                      Secret
	env, file, sum, notAfter string
	known                    bool
}

func (e entry) check(r *report) {
	places := 0
	for _, place := range []string{e.env, e.file, e.sum} {
		if place != "" {
			places++
		}
	}
	switch {
	case places == 0 && e.key.Empty() && !e.known:
		r.missing(e.path+".key_env", "key_env: NAME, key_file: PATH or key_sha256: HASH")
	case e.sum != "" && places > 1:
		r.add(e.path+".key_sha256", "and a place of the key are both set; want one of them")
	}
	if _, ok := readHash(e.sum); e.sum != "" && !ok {
		// The value is not shown because it could be the key itself.
		r.add(e.path+".key_sha256", "is not a hash; want 64 hexadecimal digits, as \"genbus key new\" prints them")
	}
	if _, err := time.Parse(time.RFC3339, e.notAfter); e.notAfter != "" && err != nil {
		r.bad(e.path+".not_after", e.notAfter, "a time such as 2026-12-01T00:00:00Z")
	}
}
