package upstream

import "strings"

// progressions maps normalised status words to their meaning. Any other word, including "unknown"
// and "", means that the task is still running.
var progressions = map[string]Progression{
	"queued":    Queued,
	"not_start": Queued,
	"submitted": Queued,
	"pending":   Queued,
	"created":   Queued,
	"preparing": Queued,
	"waiting":   Queued,
	"queueing":  Queued,
	"in_queue":  Queued,

	"in_progress": InProgress,
	"processing":  InProgress,
	"running":     InProgress,
	"generating":  InProgress,
	"starting":    InProgress,

	"completed": Completed,
	"success":   Completed,
	"succeeded": Completed,
	"succeed":   Completed,
	"complete":  Completed,
	"finished":  Completed,
	"done":      Completed,

	"failed":    Failed,
	"failure":   Failed,
	"fail":      Failed,
	"error":     Failed,
	"timeout":   Failed,
	"cancelled": Failed,
	"canceled":  Failed,
	"expired":   Failed,
	"not_found": Failed,
	"rejected":  Failed,
	"aborted":   Failed,

	"terminated":        Failed, // Qianfan, after a cancel
	"moderated":         Failed,
	"content_moderated": Failed, // BFL
	"request_moderated": Failed,
}

// unjudged lists the failures that are not caused by the request itself, so another submission may
// succeed.
var unjudged = map[string]bool{
	"timeout": true, "cancelled": true, "canceled": true, "expired": true, "not_found": true, "aborted": true, "terminated": true,
}

// ProgressionOf returns the meaning of a status word, ignoring case and separators.
func ProgressionOf(status string) Progression {
	// Most answers use the normalised spelling, which avoids a copy.
	if p, ok := progressions[status]; ok {
		return p
	}
	return progressions[NormaliseStatus(status)]
}

// Unjudged reports whether a normalised word is a failure that is not caused by the request itself,
// such as "expired".
func Unjudged(status string) bool { return unjudged[status] }

// NoSuchTask reports whether a status word may mean that the upstream does not know the task. Many
// upstreams send such a word with HTTP 200.
func NoSuchTask(status string) bool {
	word := NormaliseStatus(status)
	return word == "not_found" || word == "expired"
}

var separators = strings.NewReplacer("-", "_", " ", "_")

// NormaliseStatus returns a status word in lower case with underscores.
func NormaliseStatus(status string) string {
	return separators.Replace(strings.ToLower(strings.TrimSpace(status)))
}

// Meaningful returns "" for codes that mean success or nothing, and other codes unchanged.
func Meaningful(code string) string {
	switch strings.ToLower(code) {
	case "success", "succeed", "succeeded", "ok", "200", "10000", "0", "none", "null", "n/a", "-", "no error", "no_error":
		return ""
	}
	return code
}
