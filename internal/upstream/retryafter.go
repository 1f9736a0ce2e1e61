package upstream

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
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

// wait returns the wait that the members of an error ask for, or 0. Servers that pass on an error
// put the headers of its answer into the body.
func (f fields) wait() time.Duration {
	for _, m := range []fields{f, membersOf(f["headers"]), membersOf(f["metadata"])} {
		if ms, err := strconv.ParseFloat(unquoted(m["retryafterms"]), 64); err == nil {
			return clampWait(ms * float64(time.Millisecond))
		}
		for _, name := range []string{"retrydelay", "retryafter", "retryafterseconds", "estimatedtime"} {
			if d := waitOf(unquoted(m[name])); d > 0 {
				return d
			}
		}
	}
	return 0
}

func unquoted(v jsontext.Value) string {
	if v.Kind() == '0' {
		return string(v)
	}
	return text(v)
}

// waitOf returns a wait in seconds ("34.07") or with units ("34.07s", "7m38.4s").
func waitOf(s string) time.Duration {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil {
		return clampWait(seconds * float64(time.Second))
	}
	d, _ := time.ParseDuration(s)
	return clampWait(float64(d))
}

// waitPattern matches how OpenAI, Groq, Azure, Gemini and GitHub state a wait: "try again in 20s",
// "try again in 7m38.4s", "retry after 20 seconds", "retry in 34.07s", "wait 35 seconds".
var waitPattern = regexp.MustCompile(`(?i)\b(?:try again in|retry in|retry after|wait) ((?:[0-9]+(?:\.[0-9]+)?(?:ms|h|m|s))+|[0-9]+(?:\.[0-9]+)?) ?(milli|minute|hour)?`)

// waitInText returns the wait that a message asks for, or 0.
func waitInText(message string) time.Duration {
	m := waitPattern.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	unit := map[string]float64{"milli": 0.001, "minute": 60, "hour": 3600, "": 1}[strings.ToLower(m[2])]
	return clampWait(float64(waitOf(strings.ToLower(m[1]))) * unit)
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
