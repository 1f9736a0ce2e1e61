package config

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
)

// keyHash is the SHA-256 of a key. A Config keeps no plain keys, so that no dump can show one.
type keyHash struct {
	sum  [sha256.Size]byte
	held bool
}

func hashOf(key string) keyHash {
	return keyHash{sum: sha256.Sum256([]byte(key)), held: true}
}

// NewKey returns a key of 256 random bits and its hash in hexadecimal, for key_sha256.
func NewKey() (key, hash string) {
	var bits [32]byte
	_, _ = rand.Read(bits[:])
	key = "gb_" + base64.RawURLEncoding.EncodeToString(bits[:])
	h := hashOf(key)
	return key, hex.EncodeToString(h.sum[:])
}

// holder is the tenant or operator that a key belongs to.
type holder struct {
	name     string
	key      keyHash
	notAfter time.Time // zero: never expires
	readOnly bool      // for operators
}

// keyring finds the holder of a key in a time that depends only on the number of keys.
type keyring []holder

func (k keyring) find(key string, now time.Time) (h holder, ok bool) {
	sum := sha256.Sum256([]byte(key))
	found := -1
	for i := range k {
		equal := subtle.ConstantTimeCompare(sum[:], k[i].key.sum[:])
		found = subtle.ConstantTimeSelect(equal, i, found)
	}
	if found < 0 || ended(k[found].notAfter, now) {
		return holder{}, false
	}
	return k[found], true
}

// Operator identifies the operator behind a key.
type Operator struct {
	Name string
	// ReadOnly is true if the key may call only methods that change nothing.
	ReadOnly bool
}

// EndedKey is an expired entry of api_keys.
type EndedKey struct {
	// Tenant is the tenant of the key. Name identifies the key by its position in api_keys and its
	// source, never by its value.
	Tenant, Name string
	NotAfter     time.Time
}

// keys maps keys to tenants and operators. Prepare builds it from api_keys and operator_keys. Until
// then it matches no key.
type keys struct {
	open               bool       // true without api_keys
	entries            []EndedKey // all api_keys, expired or not
	tenants, operators keyring
	pairs              map[string]pair  // by access key
	now                func() time.Time // set by tests only
}

// EndedKeys returns the expired keys of tenants that have no valid key left. Such tenants cannot
// call anything. Tenants with another valid key have rotated their keys and are left out.
func (k *keys) EndedKeys() []EndedKey {
	now, alive := k.clock(), map[string]bool{}
	for _, e := range k.entries {
		alive[e.Tenant] = alive[e.Tenant] || !ended(e.NotAfter, now)
	}
	return slices.DeleteFunc(slices.Clone(k.entries), func(e EndedKey) bool { return alive[e.Tenant] })
}

func ended(notAfter, now time.Time) bool { return !notAfter.IsZero() && !now.Before(notAfter) }

// Tenant returns the tenant of an API key, and whether the key is known and valid. If no keys are
// configured, every caller is DefaultTenant. The time it takes depends only on the number of keys.
func (k *keys) Tenant(key string) (tenant string, ok bool) {
	if k.open {
		return DefaultTenant, true
	}
	h, ok := k.tenants.find(key, k.clock())
	return h.name, ok
}

// Operator returns the operator of a key, and whether the key is known and valid. ok is always
// false if no operator keys are configured. The time it takes depends only on the number of keys.
func (k *keys) Operator(key string) (o Operator, ok bool) {
	h, ok := k.operators.find(key, k.clock())
	return Operator{Name: h.name, ReadOnly: h.readOnly}, ok
}

// SessionID identifies the sessions of an operator key without revealing the key.
func SessionID(key string) string { return sessionID(hashOf(key).sum) }

func sessionID(of [sha256.Size]byte) string {
	sum := sha256.Sum256(append([]byte("genbus session id\n"), of[:]...))
	return hex.EncodeToString(sum[:8])
}

// SessionSeal returns the secret that seals the sessions of the operator key with this SessionID,
// and whether the key exists. All processes with the key derive the same secret.
func (k *keys) SessionSeal(id string) (seal [sha256.Size]byte, ok bool) {
	for _, h := range k.operators {
		if sessionID(h.key.sum) == id {
			return sha256.Sum256(append([]byte("genbus session seal\n"), h.key.sum[:]...)), true
		}
	}
	return seal, false
}

type pair struct {
	tenant   string
	secret   Secret
	notAfter time.Time // zero: never expires
}

// Pair returns the tenant and the secret key of an access key, and whether the access key is known
// and valid. Access keys are public, so the lookup need not take constant time.
func (k *keys) Pair(accessKey string) (tenant string, secret Secret, ok bool) {
	p, ok := k.pairs[accessKey]
	if !ok || ended(p.notAfter, k.clock()) {
		return "", Secret{}, false
	}
	return p.tenant, p.secret, true
}

// clock returns the current time. Tests replace it.
func (k *keys) clock() time.Time {
	if k.now != nil {
		return k.now()
	}
	return time.Now()
}

// indexKeys builds the indexes for Tenant, Pair and Operator and drops the plain keys. It skips
// entries without a key, because those must not match an empty key. check reports them.
func (k *keys) indexKeys(r *report, ofTenants []APIKey, ofOperators []OperatorKey) {
	*k = keys{open: len(ofTenants) == 0, pairs: map[string]pair{}, now: k.now}
	first := map[[sha256.Size]byte]string{}
	add := func(ring *keyring, path, place string, h holder) {
		if !h.key.held {
			return
		}
		if other, taken := first[h.key.sum]; taken {
			r.add(path, "holds the same key"+place+" as "+other+"; want a different key for each entry, or remove one of the two")
			return
		}
		first[h.key.sum] = path + place
		*ring = append(*ring, h)
	}
	for i := range ofTenants {
		e, path := &ofTenants[i], fmt.Sprintf("api_keys[%d]", i)
		place, notAfter := placeOf(e.KeyEnv, e.KeyFile), moment(e.NotAfter)
		k.entries = append(k.entries, EndedKey{Tenant: e.Tenant, Name: path + place, NotAfter: notAfter})
		e.known = keep(&e.Key, e.KeySHA256, e.known)
		add(&k.tenants, path, place, holder{name: e.Tenant, key: e.known, notAfter: notAfter})
		if e.AccessKey != "" && !e.SecretKey.Empty() {
			k.pairs[e.AccessKey] = pair{tenant: e.Tenant, secret: e.SecretKey, notAfter: notAfter}
		}
	}
	for i := range ofOperators {
		e, path := &ofOperators[i], fmt.Sprintf("operator_keys[%d]", i)
		e.known = keep(&e.Key, e.KeySHA256, e.known)
		add(&k.operators, path, placeOf(e.KeyEnv, e.KeyFile), holder{name: e.Name, key: e.known, notAfter: moment(e.NotAfter), readOnly: e.ReadOnly})
	}
}

// keep returns the hash of a key. If the secret is loaded, keep hashes and clears it. Otherwise it
// returns the configured hash or the one from an earlier call.
func keep(key *Secret, configured string, known keyHash) keyHash {
	if !key.Empty() {
		known = hashOf(key.Reveal())
		*key = Secret{}
		return known
	}
	if h, ok := readHash(configured); ok {
		return h
	}
	return known
}

// sameKey reports whether an entry, given as a key or its hash, has the key other. An empty key
// matches nothing.
func sameKey(key Secret, configured string, other Secret) bool {
	known := keep(&key, configured, keyHash{})
	return known.held && !other.Empty() && known == hashOf(other.Reveal())
}

func readHash(text string) (h keyHash, ok bool) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != sha256.Size {
		return keyHash{}, false
	}
	return keyHash{sum: [sha256.Size]byte(raw), held: true}, true
}

// moment parses a time. It returns zero if text is empty or invalid.
func moment(text string) time.Time {
	t, _ := time.Parse(time.RFC3339, text)
	return t
}
