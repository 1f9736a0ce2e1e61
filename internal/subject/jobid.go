package subject

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// base32ID is lower-case base32 without padding: 26 characters hold 130 bits.
var base32ID = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// idLength is the length of an id after "<kind>_".
const idLength = 26

// JobID is the id of the job that a source names:
// "<kind>_" + 26 base32 characters of SHA-256(kind, tenant, source). The parts
// are separated by NUL, which occurs in none of them but the source.
func JobID(kind Kind, tenant, source string) string {
	sum := sha256.Sum256([]byte(string(kind) + "\x00" + tenant + "\x00" + source))
	return string(kind) + "_" + base32ID.EncodeToString(sum[:])[:idLength]
}

// RequestSource is the source of a request with an idempotency key: a caller that knows
// the key knows the job's id.
func RequestSource(requestID string) string { return "request\x00" + requestID }

// KindOf tells the kind of a job by its id, and false for what is no job id.
func KindOf(id string) (Kind, bool) {
	word, rest, ok := strings.Cut(id, "_")
	if !ok || len(rest) != idLength || !Kind(word).Valid() || CheckToken(id) != nil {
		return "", false
	}
	return Kind(word), true
}
