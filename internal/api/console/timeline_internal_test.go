package console

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// TestTimelinesHaveNoNegativeWidths checks timelines of very young jobs and of writers whose clocks
// differ.
func TestTimelinesHaveNoNegativeWidths(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 26, 12, 0, 0, int(900*time.Millisecond), time.UTC)
	event := func(after time.Duration, phase genbusv1.JobPhase) *genbusv1.JobHistoryEvent {
		return &genbusv1.JobHistoryEvent{Time: timestamppb.New(begin.Add(after)), Phase: phase}
	}
	for name, history := range map[string][]*genbusv1.JobHistoryEvent{
		"a job of this second": {event(0, genbusv1.JobPhase_JOB_PHASE_QUEUED), event(2*time.Millisecond, genbusv1.JobPhase_JOB_PHASE_SUBMITTING)},
		"clocks that differ": {
			event(0, genbusv1.JobPhase_JOB_PHASE_QUEUED), event(time.Second, genbusv1.JobPhase_JOB_PHASE_SUBMITTING),
			event(500*time.Millisecond, genbusv1.JobPhase_JOB_PHASE_SUBMITTED), event(3*time.Second, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS),
		},
	} {
		for _, now := range []time.Time{begin.Add(50 * time.Millisecond), begin.Add(5 * time.Second)} {
			line := timelineOf(&genbusv1.GetJobResponse{Job: &genbusv1.JobSummary{Status: genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS}, History: history}, now)
			for _, b := range line.Bars {
				if b.Width < 0 || b.X < 0 || b.X+b.Width > timelineWidth {
					t.Errorf("%s, at %v: %+v", name, now, b)
				}
			}
		}
	}
}
