package admission

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/genbus/genbus/internal/subject"
)

// Source identifies a job across repeated requests, for example by a request ID or an inbox
// message.
type Source struct {
	text   string
	random bool
}

// ByRequestID returns the source of a request with an idempotency key.
func ByRequestID(id string) Source { return Source{text: subject.RequestSource(id)} }

// ByInbox returns the source of an inbox message without a request ID. It includes the storage time
// in nanoseconds, which every delivery carries. All replicas and deliveries therefore name the same
// job, but a message with the same sequence in a recreated stream names a different job. It omits
// the stream's creation time, because deliveries do not carry it. A replica with an outdated
// creation time would create a second job.
func ByInbox(stream string, seq uint64, stored time.Time) Source {
	return Source{text: strings.Join([]string{
		"inbox", stream, strconv.FormatUint(seq, 10), strconv.FormatInt(stored.UnixNano(), 10),
	}, "\x00")}
}

// ByDeadLetterOf returns the source of the job created from an accepted job's dead letters. There
// is only one such job, no matter how often the dead letters are written or redriven, or through
// which ingress. paid is empty unless the upstream has a task in addition to the job's own. Each
// such task gets its own job.
func ByDeadLetterOf(job string, accepted time.Time, paid string) Source {
	return Source{text: strings.Join([]string{"dead", job, strconv.FormatInt(accepted.UnixNano(), 10), paid}, "\x00")}
}

// ByRetry returns the source of a retry of the job that was accepted at the given time. Each key
// creates one job.
func ByRetry(job string, accepted time.Time, key string) Source {
	return Source{text: strings.Join([]string{"retry", job, strconv.FormatInt(accepted.UnixNano(), 10), key}, "\x00")}
}

// ByRejected returns the source of the job created from a request that was never accepted. Each
// inbox message creates one job, no matter how many dead letters it has.
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
