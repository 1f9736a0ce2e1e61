package upstream

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter is the longest wait that an upstream may ask for; after it one job asks
// again. A slip in a header must not close an upstream, or park a job, for a day.
const maxRetryAfter = 10 * time.Minute

// RetryAfter reads how long an answer asks to wait, from retry-after-ms
// (milliseconds), else retry-after (seconds, or an HTTP date taken relative to
// the answer's own Date header when it has one). It is between 0 and 10 min; 0
// means not said, unreadable or already over.
func RetryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil {
		return clampWait(ms * float64(time.Millisecond))
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		return clampWait(seconds * float64(time.Second))
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return clampWait(float64(at.Sub(now)))
}

func clampWait(ns float64) time.Duration {
	if math.IsNaN(ns) || ns <= 0 {
		return 0
	}
	if ns >= float64(maxRetryAfter) {
		return maxRetryAfter
	}
	return time.Duration(ns)
}
