package admission

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/genbus/genbus/internal/subject"
)

// Source is what makes a job the same job: a request id, a message of the inbox,
// or nothing.
type Source struct {
	text   string
	random bool
}

// ByRequestID is the source of a request with an idempotency key.
func ByRequestID(id string) Source { return Source{text: subject.RequestSource(id)} }

// ByInbox is the source of an inbox message without a request id. Every delivery says
// when the message was stored, in nanoseconds, so that all replicas and all deliveries
// name the same job, and the same sequence in a stream that was deleted and created again
// does not. When the stream was created no delivery says: a replica that remembers it may
// be wrong, and would make a second job of the message.
func ByInbox(stream string, seq uint64, stored time.Time) Source {
	return Source{text: strings.Join([]string{
		"inbox", stream, strconv.FormatUint(seq, 10), strconv.FormatInt(stored.UnixNano(), 10),
	}, "\x00")}
}

// ByLetterOf is the source of the job that is made of an accepted job's dead letters:
// one job makes one other, however often a letter of it is written or asked for, and
// by whichever ingress. paid is empty, except for a task that an upstream has in addition to the
// job's own: each of these is for a job of its own.
func ByLetterOf(job string, accepted time.Time, paid string) Source {
	return Source{text: strings.Join([]string{"dead", job, strconv.FormatInt(accepted.UnixNano(), 10), paid}, "\x00")}
}

// ByRetry is the source of the job that is made of another one, which was accepted then: of
// each key one.
func ByRetry(job string, accepted time.Time, key string) Source {
	return Source{text: strings.Join([]string{"retry", job, strconv.FormatInt(accepted.UnixNano(), 10), key}, "\x00")}
}

// ByRejected is the source of the job that is made of a request that was never
// accepted: one message of the inbox makes one job, however many letters it has.
func ByRejected(message string) Source {
	return Source{text: strings.Join([]string{"rejected", message}, "\x00")}
}

// byNothing is the source of a request that nothing identifies: a new job.
func byNothing() (Source, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Source{}, fmt.Errorf("new job id: %w", err)
	}
	return Source{text: "new\x00" + id.String(), random: true}, nil
}
