package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/plural"
)

// verbs has the recorded actions, each with its base form and its past tense.
var verbs = map[string][2]string{
	"AttachUpstreamTask":  {"attach", "attached"},
	"AttachUpstreamTasks": {"attach", "attached"},
	"CancelJob":           {"cancel", "cancelled"},
	"CancelJobs":          {"cancel", "cancelled"},
	"DropDeadLetter":      {"drop", "dropped"},
	"DropDeadLetters":     {"drop", "dropped"},
	"EraseJob":            {"erase", "erased"},
	"FailOrphans":         {"fail", "failed"},
	"GetDeadLetter":       {"read", "read"},
	"GetJobBodies":        {"read", "read"},
	"LookUpUpstreamTask":  {"look up", "looked up"},
	"PauseRoute":          {"pause", "paused"},
	"RedriveDeadLetter":   {"submit", "submitted"},
	"RedriveDeadLetters":  {"submit", "submitted"},
	"ResumeRoute":         {"resume", "resumed"},
	"RetryJob":            {"retry", "retried"},
}

// Actions returns the names of the recorded actions, sorted.
func Actions() []string { return slices.Sorted(maps.Keys(verbs)) }

// Sentence describes an action, such as "ann retried video_1 of acme as video_2". An action that
// was not done, or may not have been, begins with "ann tried to". Texts in the record are not
// escaped.
func Sentence(r *genbusv1.AuditRecord) string {
	verb, known := verbs[r.GetAction()]
	switch {
	case !known: // of a newer version
		return fmt.Sprintf("%s called %s", r.GetOperator(), r.GetAction())
	case r.GetOutcome() == genbusv1.AuditRecord_OUTCOME_DONE && !endedBefore(r), r.GetBulk().GetTotal() > 0:
		return fmt.Sprintf("%s %s %s", r.GetOperator(), verb[1], object(r))
	default:
		return fmt.Sprintf("%s tried to %s %s", r.GetOperator(), verb[0], object(r))
	}
}

// Outcome returns the word for a record's outcome: done, refused, failed or unknown.
func Outcome(r *genbusv1.AuditRecord) string {
	if r.GetOutcome() == genbusv1.AuditRecord_OUTCOME_BEGUN {
		return "unknown"
	}
	return strings.ToLower(strings.TrimPrefix(r.GetOutcome().String(), "OUTCOME_"))
}

// object describes what an action was done to and what came of it.
func object(r *genbusv1.AuditRecord) string {
	job := r.GetJobId() + " of " + r.GetTenant()
	letter := fmt.Sprint("dead letter ", r.GetLetter())
	route := fmt.Sprintf("route %s/%s", r.GetKind(), r.GetRoute())
	switch r.GetAction() {
	case "CancelJob":
		if endedBefore(r) {
			job += ", which had already " + strings.ToLower(strings.TrimPrefix(r.GetStatus().String(), "JOB_STATUS_"))
		}
		return job
	case "RetryJob":
		if r.GetEdited() {
			job += " with an edited request"
		}
		return job + as(r)
	case "GetJobBodies":
		if r.GetKind() == "chat" {
			return "the request and reply of " + job
		}
		return "the request of " + job
	case "GetDeadLetter":
		return "the request in " + letter
	case "RedriveDeadLetter":
		return letter + " again" + as(r)
	case "AttachUpstreamTask":
		return strings.TrimSpace("upstream task "+r.GetUpstreamTaskId()) + " of " + letter + as(r)
	case "LookUpUpstreamTask":
		if r.GetUpstreamTaskId() != "" {
			letter += " and found " + r.GetUpstreamTaskId()
		}
		return "the upstream task of " + letter
	case "DropDeadLetter":
		return letter
	case "PauseRoute":
		return route + until(r) + reason(r)
	case "FailOrphans":
		jobs := plural.Count(r.GetJobs(), "job")
		if r.GetJobs() == 0 && r.GetOutcome() != genbusv1.AuditRecord_OUTCOME_DONE {
			jobs = "jobs"
		}
		return jobs + " of unconfigured " + route
	case "CancelJobs":
		return counted(r, "job")
	case "RedriveDeadLetters":
		return counted(r, "dead letter") + " again"
	case "DropDeadLetters":
		return counted(r, "dead letter")
	case "AttachUpstreamTasks":
		return counted(r, "upstream task")
	case "EraseJob":
		return job
	default:
		return route
	}
}

// endedBefore reports whether a job had completed or failed before CancelJob, which then changes
// nothing.
func endedBefore(r *genbusv1.AuditRecord) bool {
	return r.GetStatus() == genbusv1.JobStatus_JOB_STATUS_COMPLETED || r.GetStatus() == genbusv1.JobStatus_JOB_STATUS_FAILED
}

func as(r *genbusv1.AuditRecord) string {
	if r.GetNewJobId() == "" {
		return ""
	}
	return " as " + r.GetNewJobId()
}

// until formats the end of a pause. It leaves out the date if the pause began on the same day.
func until(r *genbusv1.AuditRecord) string {
	if r.GetUntil() == nil {
		return ""
	}
	end, begin := r.GetUntil().AsTime(), r.GetTime().AsTime()
	if end.Format(time.DateOnly) == begin.Format(time.DateOnly) {
		return end.Format(" until 15:04 UTC")
	}
	return end.Format(" until 2006-01-02 15:04 UTC")
}

func reason(r *genbusv1.AuditRecord) string {
	if r.GetReason() == "" {
		return ""
	}
	return ": " + r.GetReason()
}

// counted describes the progress of a bulk action, such as "17 of 20 jobs, 3 failed".
func counted(r *genbusv1.AuditRecord, noun string) string {
	b := r.GetBulk()
	if b.GetTotal() == 0 && r.GetOutcome() != genbusv1.AuditRecord_OUTCOME_DONE {
		return noun + "s"
	}
	text := fmt.Sprintf("%d of %s", b.GetChanged(), plural.Count(b.GetTotal(), noun))
	if b.GetFailed() > 0 {
		text += fmt.Sprintf(", %d failed", b.GetFailed())
	}
	return text
}
