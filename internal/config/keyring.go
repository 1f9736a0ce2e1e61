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

// keyHash is all that is kept of a key: no dump of a Config shows one.
type keyHash struct {
	sum  [sha256.Size]byte
	held bool
}

func hashOf(key string) keyHash {
	return keyHash{sum: sha256.Sum256([]byte(key)), held: true}
}

// NewKey makes a key of 256 random bits, and its hash in hexadecimal, the value of
// key_sha256.
func NewKey() (key, hash string) {
	var bits [32]byte
	_, _ = rand.Read(bits[:]) // never fails
	key = "gb_" + base64.RawURLEncoding.EncodeToString(bits[:])
	h := hashOf(key)
	return key, hex.EncodeToString(h.sum[:])
}

// holder is the owner of a key: a tenant or an operator.
type holder struct {
	name     string
	key      keyHash
	notAfter time.Time // zero: never
	readOnly bool      // of an operator
}

// keyring finds the holder of a key in a time that depends on the number of keys only.
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

// Operator is who holds an operator's key.
type Operator struct {
	Name string
	// ReadOnly is whether the key opens the methods only that change nothing.
	ReadOnly bool
}

// EndedKey is an entry of api_keys that is refused because its time is over.
type EndedKey struct {
	// Tenant is whose key it is, and Name what the configuration calls it: its place in api_keys, never the key.
	Tenant, Name string
	NotAfter     time.Time
}

// keys says whose a key is. It is made of api_keys and operator_keys when a Config is prepared, and is part of it; before that it knows no one.
type keys struct {
	open               bool       // there are no api_keys
	entries            []EndedKey // all of api_keys, whether they have ended or not
	tenants, operators keyring
	pairs              map[string]pair  // by access key
	now                func() time.Time // a test's clock; nil otherwise
}

// EndedKeys returns the keys of the tenants all of whose keys have ended: they can call nothing any more. A tenant that
// has another key has changed keys, as it should.
func (k *keys) EndedKeys() []EndedKey {
	now, alive := k.clock(), map[string]bool{}
	for _, e := range k.entries {
		alive[e.Tenant] = alive[e.Tenant] || !ended(e.NotAfter, now)
	}
	return slices.DeleteFunc(slices.Clone(k.entries), func(e EndedKey) bool { return alive[e.Tenant] })
}

func ended(notAfter, now time.Time) bool { return !notAfter.IsZero() && !now.Before(notAfter) }

// Tenant returns the tenant of an API key, and whether the key is known and still valid. Without configured keys
// everybody is DefaultTenant, whatever they send. The time it takes depends on the number of keys only.
func (k *keys) Tenant(key string) (tenant string, ok bool) {
	if k.open {
		return DefaultTenant, true
	}
	h, ok := k.tenants.find(key, k.clock())
	return h.name, ok
}

// Operator returns the operator whose key it is, and whether the key is known and still valid: never, where no operator
// key is configured. The time it takes depends on the number of keys only.
func (k *keys) Operator(key string) (o Operator, ok bool) {
	h, ok := k.operators.find(key, k.clock())
	return Operator{Name: h.name, ReadOnly: h.readOnly}, ok
}

// SessionID names the sessions of an operator's key, and tells nothing of the key.
func SessionID(key string) string { return sessionID(hashOf(key).sum) }

func sessionID(of [sha256.Size]byte) string {
	sum := sha256.Sum256(append([]byte("genbus session id\n"), of[:]...))
	return hex.EncodeToString(sum[:8])
}

// SessionSeal is what the sessions of an operator's key are sealed with, the same in all
// processes that have the key, and whether there is a key of that SessionID.
func (k *keys) SessionSeal(id string) (seal [sha256.Size]byte, ok bool) {
	for _, h := range k.operators {
		if sessionID(h.key.sum) == id {
			return sha256.Sum256(append([]byte("genbus session seal\n"), h.key.sum[:]...)), true
		}
	}
	return seal, false
}

// pair is a key pair of a tenant.
type pair struct {
	tenant   string
	secret   Secret
	notAfter time.Time // zero: never
}

// Pair returns the tenant and the secret key of an access key, and whether the access key is known and still
// valid. An access key is public, so that a look-up by it tells nothing.
func (k *keys) Pair(accessKey string) (tenant string, secret Secret, ok bool) {
	p, ok := k.pairs[accessKey]
	if !ok || ended(p.notAfter, k.clock()) {
		return "", Secret{}, false
	}
	return p.tenant, p.secret, true
}

// clock is time.Now, but for a test.
func (k *keys) clock() time.Time {
	if k.now != nil {
		return k.now()
	}
	return time.Now()
}

// indexKeys builds the look-ups of Tenant, Pair and Operator, and drops the keys that they were loaded from. An empty key is
// left out: it is a separate problem, and must match no one.
func (k *keys) indexKeys(r *report, ofTenants []APIKey, ofOperators []OperatorKey) {
	*k = keys{open: len(ofTenants) == 0, pairs: map[string]pair{}, now: k.now}
	first := map[[sha256.Size]byte]string{}
	add := func(ring *keyring, path, place string, h holder) {
		if !h.key.held {
			return
		}
		if other, taken := first[h.key.sum]; taken {
			r.say(path, "holds the same key"+place+" as "+other+"; want a different key for each entry, or remove one of the two")
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

// keep takes the hash of a key: of the secret, which is forgotten, or as it was configured, or as an earlier call kept
// it.
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

// sameKey reports whether an entry, which has a key or its hash, is of the given key. None is like no other.
func sameKey(key Secret, configured string, other Secret) bool {
	known := keep(&key, configured, keyHash{})
	return known.held && !other.Empty() && known == hashOf(other.Reveal())
}

// readHash reads a hash in hexadecimal, and reports whether it is one.
func readHash(text string) (h keyHash, ok bool) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != sha256.Size {
		return keyHash{}, false
	}
	return keyHash{sum: [sha256.Size]byte(raw), held: true}, true
}

// moment reads a time; zero where there is none, or none that can be read.
func moment(text string) time.Time {
	t, _ := time.Parse(time.RFC3339, text)
	return t
}
