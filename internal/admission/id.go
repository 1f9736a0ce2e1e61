package admission

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/genbus/genbus/internal/subject"
)

// Source identifies a job across repeated requests: a request ID, an inbox message, or nothing.
type Source struct {
	text   string
	random bool
}

// ByRequestID returns the source of a request with an idempotency key.
func ByRequestID(id string) Source { return Source{text: subject.RequestSource(id)} }

// ByInbox returns the source of an inbox message without a request ID. It includes the storage time
// in nanoseconds, which every delivery carries: all replicas and deliveries then name the same job,
// and the same sequence in a recreated stream names another. It omits the stream's creation time,
// because deliveries do not carry it, and a replica with an outdated one would make a second job.
func ByInbox(stream string, seq uint64, stored time.Time) Source {
	return Source{text: strings.Join([]string{
		"inbox", stream, strconv.FormatUint(seq, 10), strconv.FormatInt(stored.UnixNano(), 10),
	}, "\x00")}
}

// ByLetterOf returns the source of the job made from an accepted job's dead letters. One job makes
// one other, however often its dead letters are written or redriven, through any ingress. paid is
// empty, except for a task that an upstream has in addition to the job's own: each such task gets
// its own job.
func ByLetterOf(job string, accepted time.Time, paid string) Source {
	return Source{text: strings.Join([]string{"dead", job, strconv.FormatInt(accepted.UnixNano(), 10), paid}, "\x00")}
}

// ByRetry returns the source of the retry of a job accepted at that time: one job per key.
func ByRetry(job string, accepted time.Time, key string) Source {
	return Source{text: strings.Join([]string{"retry", job, strconv.FormatInt(accepted.UnixNano(), 10), key}, "\x00")}
}

// ByRejected returns the source of the job made from a request that was never accepted: one inbox
// message makes one job, however many dead letters it has.
func ByRejected(message string) Source {
	return Source{text: strings.Join([]string{"rejected", message}, "\x00")}
}

// byNothing returns a random source, for a new job.
func byNothing() (Source, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Source{}, fmt.Errorf("new job id: %w", err)
	}
	return Source{text: "new\x00" + id.String(), random: true}, nil
}
