package primary

import (
	"strings"

	"github.com/genbus/genbus/internal/upstream"
)

// progressions maps every known status word, normalised, to what it stands
// for. Words that are not here, "unknown" and "" among them, mean that the task
// is still running.
var progressions = map[string]upstream.Progression{
	"queued":    upstream.Queued,
	"not_start": upstream.Queued,
	"submitted": upstream.Queued,
	"pending":   upstream.Queued,
	"created":   upstream.Queued,
	"preparing": upstream.Queued,
	"waiting":   upstream.Queued,
	"queueing":  upstream.Queued,
	"in_queue":  upstream.Queued,

	"in_progress": upstream.InProgress,
	"processing":  upstream.InProgress,
	"running":     upstream.InProgress,
	"generating":  upstream.InProgress,
	"starting":    upstream.InProgress,

	"completed": upstream.Completed,
	"success":   upstream.Completed,
	"succeeded": upstream.Completed,
	"succeed":   upstream.Completed,
	"complete":  upstream.Completed,
	"finished":  upstream.Completed,
	"done":      upstream.Completed,

	"failed":    upstream.Failed,
	"failure":   upstream.Failed,
	"fail":      upstream.Failed,
	"error":     upstream.Failed,
	"timeout":   upstream.Failed,
	"cancelled": upstream.Failed,
	"canceled":  upstream.Failed,
	"expired":   upstream.Failed,
	"not_found": upstream.Failed,
}

// unjudged are the failures that say nothing about the request itself: another
// submission of it may succeed.
var unjudged = map[string]bool{
	"timeout": true, "cancelled": true, "canceled": true, "expired": true, "not_found": true,
}

// progression gives what a status word stands for.
func progression(status string) upstream.Progression {
	// Most answers use the plain spelling, which needs no copy.
	if p, ok := progressions[status]; ok {
		return p
	}
	return progressions[normalise(status)]
}

var separators = strings.NewReplacer("-", "_", " ", "_")

func normalise(status string) string {
	return separators.Replace(strings.ToLower(strings.TrimSpace(status)))
}
