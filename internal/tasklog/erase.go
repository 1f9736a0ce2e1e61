package tasklog

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// terminal are the statuses that the feed of finished jobs has subjects for.
var terminal = []genbusv1.JobStatus{
	genbusv1.JobStatus_JOB_STATUS_COMPLETED, genbusv1.JobStatus_JOB_STATUS_FAILED, genbusv1.JobStatus_JOB_STATUS_CANCELLED,
}

// Erase removes every event of a job that has ended, the feed's copy first, so
// that a crash in between leaves a job that can be erased again. Whoever still
// writes to the job afterwards begins a new log.
func (l *Log) Erase(ctx context.Context, n subject.TaskName) error {
	stream, err := l.b.JetStream().Stream(ctx, l.b.Names().Tasks())
	if err != nil {
		return fmt.Errorf("erase %s: %w", n.ID, err)
	}
	var subjects []string
	for _, status := range terminal {
		subjects = append(subjects, l.b.Names().Done(n.Kind, n.Tenant, task.StatusWord(status), n.ID))
	}
	subjects = append(subjects, l.b.Names().Task(n.Kind, n.Tenant, n.ID))
	for _, s := range subjects {
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(s)); err != nil {
			return fmt.Errorf("erase %s: %w", n.ID, err)
		}
	}
	return nil
}
