package hold

import (
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestAPhaseThatIsShownAgainAllocatesNothing proves that polls in an unchanged phase do not
// allocate. It is not parallel, because AllocsPerRun counts the whole process.
func TestAPhaseThatIsShownAgainAllocatesNothing(t *testing.T) {
	j := New(t.Context(), t.Context(), Options{}).NewJob(&genbusv1.WorkItem{Kind: "video"}, Delivery{}, telemetry.NewMetrics("test").Route(subject.Video, "r"))
	j.Record.show(genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)
	if n := testing.AllocsPerRun(100, func() { j.Record.show(genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// TestEachUnconfirmedCommitIsOurOwn proves that Unconfirmed recognizes every unanswered commit, and
// no other event.
func TestEachUnconfirmedCommitIsOurOwn(t *testing.T) {
	t.Parallel()
	r := &Record{unconfirmed: []string{"one", "later"}}
	for nonce, want := range map[string]bool{"one": true, "later": true, "other": false, "": false} {
		if got := r.Unconfirmed(joblog.Entry{Event: task.Event{Nonce: nonce}}); got != want {
			t.Errorf("%q: %t", nonce, got)
		}
	}
}
