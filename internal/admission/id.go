package admission

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/genbus/genbus/internal/subject"
)

// base32ID is lower-case base32 without padding: 26 characters hold 130 bits.
var base32ID = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// idLength is the length of an id after "<kind>_".
const idLength = 26

// JobID is the id of the job that a source names:
// "<kind>_" + 26 base32 characters of SHA-256(kind, tenant, source). The parts
// are separated by NUL, which occurs in none of them.
func JobID(kind subject.Kind, tenant, source string) string {
	sum := sha256.Sum256([]byte(string(kind) + "\x00" + tenant + "\x00" + source))
	return string(kind) + "_" + base32ID.EncodeToString(sum[:])[:idLength]
}

// KindOf tells the kind of a job by its id, and false for what is no job id.
func KindOf(id string) (subject.Kind, bool) {
	word, rest, ok := strings.Cut(id, "_")
	if !ok || len(rest) != idLength || !subject.Kind(word).Valid() || subject.CheckToken(id) != nil {
		return "", false
	}
	return subject.Kind(word), true
}

// Source is what makes a job the same job: a request id, a message of the inbox,
// or nothing.
type Source struct {
	text   string
	random bool
}

// ByRequestID is the source of a request with an idempotency key.
func ByRequestID(id string) Source { return Source{text: "request\x00" + id} }

// ByInbox is the source of an inbox message without a request id. A redelivery
// names the same job; the same sequence in a stream that was made anew does not.
func ByInbox(stream string, created time.Time, seq uint64, stored time.Time) Source {
	return Source{text: strings.Join([]string{
		"inbox", stream, strconv.FormatInt(created.UnixNano(), 10), strconv.FormatUint(seq, 10), strconv.FormatInt(stored.UnixNano(), 10),
	}, "\x00")}
}

// ByLetter is the source of the job that is made of a dead letter: one letter makes
// one job, however often and in whichever way it is asked for.
func ByLetter(stream string, created time.Time, seq uint64) Source {
	return Source{text: strings.Join([]string{
		"dead", stream, strconv.FormatInt(created.UnixNano(), 10), strconv.FormatUint(seq, 10),
	}, "\x00")}
}

// ByNothing is the source of a request that nothing identifies: a new job.
func ByNothing() (Source, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Source{}, fmt.Errorf("new job id: %w", err)
	}
	return Source{text: "new\x00" + id.String(), random: true}, nil
}
