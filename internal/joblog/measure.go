package joblog

import (
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// measure records the metrics of an event that this replica committed. Each event is committed
// once, so the metrics can be summed over replicas.
func (l *Log) measure(e Entry, took time.Duration) {
	kind, x := subject.Kind(task.Kind(e.Job)), e.Job.GetExecution()
	l.metrics.EventPublished(telemetry.PublishedTask, took)
	l.metrics.CAS(telemetry.CASWon)
	l.metrics.Transition(kind, task.PhaseWord(x.GetPhase()))
	age := e.Time.Sub(e.Job.GetCreatedAt().AsTime())
	switch {
	case e.Terminal():
		status := task.StatusWord(e.Job.GetStatus())
		l.metrics.Finished(kind, status, e.Job.GetError().GetCode())
		l.metrics.JobEnded(kind, x.GetRoute(), x.GetUpstream(), status, age)
	case e.Version() == 1:
		l.metrics.JobBegan(kind, x.GetRoute())
	case firstStart(kind, e):
		l.metrics.JobWaited(kind, x.GetRoute(), age)
	}
}

// firstStart reports whether the event starts a job's first submission or attempt.
func firstStart(kind subject.Kind, e Entry) bool {
	x, start := e.Job.GetExecution(), genbusv1.JobPhase_JOB_PHASE_SUBMITTING
	if kind == subject.Chat {
		start = genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS
	}
	return x.GetPhase() == start && x.GetFirstSubmitAt().AsTime().Equal(e.Job.GetUpdatedAt().AsTime())
}
