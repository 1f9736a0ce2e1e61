package upstream

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds the wait that an upstream can ask for. A mistake in a header must not
// disable an upstream or delay a job for a day.
const maxRetryAfter = 10 * time.Minute

// RetryAfter returns how long an answer asks to wait. It reads Retry-After-Ms (milliseconds) or,
// failing that, Retry-After (seconds or an HTTP date). A date is relative to the answer's Date
// header, if there is one. The result is between 0 and 10 minutes. It is 0 if the header is missing
// or invalid, or if the time has passed.
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
