package subject

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// base32ID is lower-case base32 without padding: 26 characters hold 130 bits.
var base32ID = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// idLength is the length of an ID after "<kind>_".
const idLength = 26

// JobID returns the ID of a source's job, which is "<kind>_" and 26 base32 characters of
// SHA-256(kind, tenant, source). NUL separates the parts, and only the source may contain it.
func JobID(kind Kind, tenant, source string) string {
	sum := sha256.Sum256([]byte(string(kind) + "\x00" + tenant + "\x00" + source))
	return string(kind) + "_" + base32ID.EncodeToString(sum[:])[:idLength]
}

// RequestSource returns the source of a request with an idempotency key. A caller that knows the
// key can compute the job's ID.
func RequestSource(requestID string) string { return "request\x00" + requestID }

// minPrefix is the number of characters after "<kind>_" that the beginning of a job ID needs.
const minPrefix = 4

// IsJobIDPrefix reports whether text is long enough to find a job by the beginning of its ID.
func IsJobIDPrefix(text string) bool {
	word, rest, _ := strings.Cut(text, "_")
	return Kind(word).Valid() && len(rest) >= minPrefix
}

// KindOf returns the kind of a job ID, or false for a malformed ID.
func KindOf(id string) (Kind, bool) {
	word, rest, ok := strings.Cut(id, "_")
	if !ok || len(rest) != idLength || !Kind(word).Valid() || CheckToken(id) != nil {
		return "", false
	}
	return Kind(word), true
}
