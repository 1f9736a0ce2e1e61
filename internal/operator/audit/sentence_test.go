package audit_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/operator/audit"
)

// TestSentences checks the sentence of each action, done and not done.
func TestSentences(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	job := func(r *genbusv1.AuditRecord) *genbusv1.AuditRecord {
		r.Kind, r.Tenant, r.JobId = "video", "acme", "video_1"
		return r
	}
	bulk := func(action string, changed, total, failed int64) *genbusv1.AuditRecord {
		return &genbusv1.AuditRecord{Action: action, Bulk: &genbusv1.BulkAction{Changed: changed, Total: total, Failed: failed}}
	}
	seen := map[string]bool{}
	for want, r := range map[string]*genbusv1.AuditRecord{
		"ann cancelled video_1 of acme":                                   job(&genbusv1.AuditRecord{Action: "CancelJob", Status: genbusv1.JobStatus_JOB_STATUS_CANCELLED}),
		"ann tried to cancel video_1 of acme, which had already failed":   job(&genbusv1.AuditRecord{Action: "CancelJob", Status: genbusv1.JobStatus_JOB_STATUS_FAILED}),
		"ann tried to cancel video_1 of acme":                             job(&genbusv1.AuditRecord{Action: "CancelJob", Outcome: genbusv1.AuditRecord_OUTCOME_REFUSED}),
		"ann erased video_1 of acme":                                      job(&genbusv1.AuditRecord{Action: "EraseJob"}),
		"ann retried video_1 of acme with an edited request as video_2":   job(&genbusv1.AuditRecord{Action: "RetryJob", Edited: true, NewJobId: "video_2"}),
		"ann tried to retry video_1 of acme":                              job(&genbusv1.AuditRecord{Action: "RetryJob", Outcome: genbusv1.AuditRecord_OUTCOME_BEGUN}),
		"ann read the request of video_1 of acme":                         job(&genbusv1.AuditRecord{Action: "GetJobBodies"}),
		"ann read the request and reply of chat_1 of acme":                {Action: "GetJobBodies", Kind: "chat", Tenant: "acme", JobId: "chat_1"},
		"ann read the request in dead letter 7":                           {Action: "GetDeadLetter", Letter: 7},
		"ann submitted dead letter 7 again as video_2":                    {Action: "RedriveDeadLetter", Letter: 7, NewJobId: "video_2"},
		"ann attached upstream task up_9 of dead letter 7 as video_2":     {Action: "AttachUpstreamTask", Letter: 7, UpstreamTaskId: "up_9", NewJobId: "video_2"},
		"ann looked up the upstream task of dead letter 7 and found up_9": {Action: "LookUpUpstreamTask", Letter: 7, UpstreamTaskId: "up_9"},
		"ann dropped dead letter 7":                                       {Action: "DropDeadLetter", Letter: 7},
		"ann paused route chat/fast until 14:00 UTC: upstream maintenance": {
			Action: "PauseRoute", Kind: "chat", Route: "fast", Until: timestamppb.New(at.Add(2 * time.Hour)), Reason: "upstream maintenance",
		},
		"ann tried to pause route chat/fast until 2026-12-01 12:00 UTC": {
			Action: "PauseRoute", Kind: "chat", Route: "fast", Until: timestamppb.New(at.Add(24 * time.Hour)), Outcome: genbusv1.AuditRecord_OUTCOME_FAILED,
		},
		"ann resumed route chat/fast":                      {Action: "ResumeRoute", Kind: "chat", Route: "fast"},
		"ann failed 1 job of unconfigured route video/old": {Action: "FailOrphans", Kind: "video", Route: "old", Jobs: 1},
		"ann tried to fail jobs of unconfigured route video/old": {
			Action: "FailOrphans", Kind: "video", Route: "old", Outcome: genbusv1.AuditRecord_OUTCOME_REFUSED,
		},
		"ann cancelled 17 of 20 jobs, 3 failed":        bulk("CancelJobs", 17, 20, 3),
		"ann cancelled 0 of 0 jobs":                    bulk("CancelJobs", 0, 0, 0),
		"ann tried to drop dead letters":               {Action: "DropDeadLetters", Outcome: genbusv1.AuditRecord_OUTCOME_BEGUN, Bulk: &genbusv1.BulkAction{}},
		"ann submitted 1 of 1 dead letter again":       bulk("RedriveDeadLetters", 1, 1, 0),
		"ann dropped 2 of 2 dead letters":              bulk("DropDeadLetters", 2, 2, 0),
		"ann attached 2 of 3 upstream tasks, 1 failed": bulk("AttachUpstreamTasks", 2, 3, 1),
		"ann called MoveJob":                           {Action: "MoveJob"},
	} {
		r.Operator, r.Time = "ann", timestamppb.New(at)
		if r.GetOutcome() == genbusv1.AuditRecord_OUTCOME_UNSPECIFIED {
			r.Outcome = genbusv1.AuditRecord_OUTCOME_DONE
		}
		seen[r.GetAction()] = true
		if got := audit.Sentence(r); got != want {
			t.Errorf("%s: %q, want %q", r.GetAction(), got, want)
		}
	}
	for _, action := range audit.Actions() {
		if !seen[action] {
			t.Errorf("%s has no sentence here", action)
		}
	}
}
